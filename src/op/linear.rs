//! `linear`, and its parts `bias` and `residual`.

use super::traced::Traced;
use super::{Body, NamedOp, NamedTensor, OpError, OpOptions};
use crate::graph::ShapeError;
use crate::graph::ops::{add, linear};

pub static LINEAR: NamedOp = NamedOp {
    name: "linear",
    formula: "y = x w + b: x [..,in], w [in,out] (Conv1D layout), b [out]",
    gives: "y; with dy: dx, dw, db",
    tensors: &[NamedTensor::Real("x"), NamedTensor::Real("w"), NamedTensor::Real("b"), NamedTensor::Gradient("dy")],
    options: &[],
    body: Body::Graph(|t, _: &OpOptions| {
        if t.graph.shape(t.leaf("x")?).is_empty() {
            return Err(t.misfit(ShapeError::Rank { wanted: "at least 1", got: 0 }));
        }
        let _: [usize; 2] = t.sizes("w", "[in, out]")?;
        let _: [usize; 1] = t.sizes("b", "[out]")?;
        let [x, w, b] = [t.leaf("x")?, t.leaf("w")?, t.leaf("b")?];
        let y = linear(t.graph, x, w, b).map_err(|error| t.explain(error))?;
        t.output("y", y);
        t.differentiate(y, "dy", [("x", "dx"), ("w", "dw"), ("b", "db")]);
        Ok(())
    }),
};

pub static BIAS: NamedOp = NamedOp {
    name: "bias",
    formula: "y = x + b: x [..,N], b [N]",
    gives: "y; with dy: dx, db",
    tensors: &[NamedTensor::Real("x"), NamedTensor::Real("b"), NamedTensor::Gradient("dy")],
    options: &[],
    body: Body::Graph(|t, _: &OpOptions| {
        let _: [usize; 1] = t.sizes("b", "[N]")?;
        sum(t, ["x", "b"], [("x", "dx"), ("b", "db")])
    }),
};

pub static RESIDUAL: NamedOp = NamedOp {
    name: "residual",
    formula: "y = x + f, shapes that broadcast",
    gives: "y; with dy: dx, df",
    tensors: &[NamedTensor::Real("x"), NamedTensor::Real("f"), NamedTensor::Gradient("dy")],
    options: &[],
    body: Body::Graph(|t, _: &OpOptions| sum(t, ["x", "f"], [("x", "dx"), ("f", "df")])),
};

fn sum(
    t: &mut Traced<'_>,
    names: [&'static str; 2],
    gradients: [(&'static str, &'static str); 2],
) -> Result<(), OpError> {
    let [x, other] = [t.leaf(names[0])?, t.leaf(names[1])?];
    let y = add(t.graph, x, other).map_err(|error| t.explain(error))?;
    t.output("y", y);
    t.differentiate(y, "dy", gradients);
    Ok(())
}
