//! `embedding`: rows of a table picked by token, and of another by position.

use super::traced::Traced;
use super::{Body, NamedOp, NamedTensor, OpError, OpOptions};
use crate::graph::ShapeError;
use crate::graph::ops::{add, embedding, slice};

pub static OP: NamedOp = NamedOp {
    name: "embedding",
    formula: "tok = wte[idx], y = tok + wpe[0..T): idx [..,T], wte [V,C], wpe [P,C]",
    gives: "tok, y; with dy: dwte, dwpe",
    tensors: &[
        NamedTensor::Real("wte"),
        NamedTensor::Ids { name: "idx", table: "wte", axis: 0, may_ignore: false },
        NamedTensor::Optional("wpe"),
        NamedTensor::Gradient("dy"),
    ],
    options: &[],
    body: Body::Graph(trace),
};

fn trace(t: &mut Traced<'_>, _: &OpOptions) -> Result<(), OpError> {
    let [_, width]: [usize; 2] = t.sizes("wte", "[V, C]")?;
    let [wte, idx] = [t.leaf("wte")?, t.leaf("idx")?];
    let Some(&length) = t.graph.shape(idx).last() else {
        return Err(t.misfit(ShapeError::Rank { wanted: "at least 1", got: 0 }));
    };
    let tokens = embedding(t.graph, wte, idx).map_err(|error| t.explain(error))?;
    t.output("tok", tokens);
    let y = match t.optional("wpe") {
        None => tokens,
        Some(wpe) => {
            let [positions, own]: [usize; 2] = t.sizes("wpe", "[P, C]")?;
            if own != width {
                return Err(t.misfit(ShapeError::Differ { what: "width of wte and wpe", left: width, right: own }));
            }
            if positions < length {
                let message = format!("wpe has {positions} positions and idx needs {length}");
                return Err(t.misfit(ShapeError::Other(message)));
            }
            let own = slice(t.graph, wpe, 0, 0, length).map_err(|error| t.explain(error))?;
            add(t.graph, tokens, own).map_err(|error| t.explain(error))?
        }
    };
    t.output("y", y);
    t.differentiate(y, "dy", [("wte", "dwte"), ("wpe", "dwpe")]);
    Ok(())
}
