//! `layernorm` over the last axis.

use super::traced::Traced;
use super::{Body, NamedOp, NamedTensor, OpError, OpOption, OpOptions};
use crate::graph::ops::{layer_norm, reshape, slice};
use crate::graph::{ShapeError, Value};

pub static OP: NamedOp = NamedOp {
    name: "layernorm",
    formula: "(x - mean) rstd w + b over the last axis: x [..,C], w and b [C]",
    gives: "y, mean, rstd; with dy: dx, dw, db",
    tensors: &[NamedTensor::Real("x"), NamedTensor::Real("w"), NamedTensor::Real("b"), NamedTensor::Gradient("dy")],
    options: &[OpOption::Epsilon],
    body: Body::Graph(trace),
};

fn trace(t: &mut Traced<'_>, options: &OpOptions) -> Result<(), OpError> {
    let [x, w, b] = [t.leaf("x")?, t.leaf("w")?, t.leaf("b")?];
    let lead = match t.graph.shape(x).split_last() {
        Some((_, lead)) => lead.to_vec(),
        None => return Err(t.misfit(ShapeError::Rank { wanted: "at least 1", got: 0 })),
    };
    let epsilon = options.epsilon.unwrap_or(1e-5);
    let y = layer_norm(t.graph, x, w, b, epsilon).map_err(|error| t.explain(error))?;
    t.output("y", y);
    let statistics = Value { node: y.node, output: 1 };
    for (row, name) in ["mean", "rstd"].into_iter().enumerate() {
        let part = slice(t.graph, statistics, 0, row, row + 1).map_err(|error| t.explain(error))?;
        let part = reshape(t.graph, part, &lead).map_err(|error| t.explain(error))?;
        t.output(name, part);
    }
    t.differentiate(y, "dy", [("x", "dx"), ("w", "dw"), ("b", "db")]);
    Ok(())
}
