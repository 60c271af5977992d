//! `softmax` over the last axis, with its logarithm.

use super::scaled_dot_product_attention::log_sum_exp;
use super::traced::Traced;
use super::{Body, NamedOp, NamedTensor, OpError, OpOptions};
use crate::graph::ops::{add, reshape, softmax, subtract};
use crate::graph::{Graph, GraphError, ShapeError, Value};

pub static OP: NamedOp = NamedOp {
    name: "softmax",
    formula: "softmax(x) over the last axis, its logarithm, the log-sum-exp",
    gives: "y, logy, lse; with dy: dx of y, dx_log of logy",
    tensors: &[NamedTensor::Real("x"), NamedTensor::Gradient("dy")],
    options: &[],
    body: Body::Graph(trace),
};

fn trace(t: &mut Traced<'_>, _: &OpOptions) -> Result<(), OpError> {
    let x = t.leaf("x")?;
    let Some(axis) = t.graph.shape(x).len().checked_sub(1) else {
        return Err(t.misfit(ShapeError::Rank { wanted: "at least 1", got: 0 }));
    };
    let y = softmax(t.graph, x, axis).map_err(|error| t.explain(error))?;
    let (lse, logarithm) = log_softmax(t.graph, x, axis).map_err(|error| t.explain(error))?;
    t.output("y", y);
    t.output("logy", logarithm);
    t.output("lse", lse);
    t.differentiate(y, "dy", [("x", "dx")]);
    t.differentiate(logarithm, "dy", [("x", "dx_log")]);
    Ok(())
}

/// The log-sum-exp, and `x` less it: the largest value first, so that no digit is lost to its size.
fn log_softmax(g: &mut Graph, x: Value, axis: usize) -> Result<(Value, Value), GraphError> {
    let mut kept = g.shape(x).to_vec();
    kept[axis] = 1;
    let parts = log_sum_exp(g, x, axis)?;
    let spread = reshape(g, parts.logarithm, &kept)?;
    Ok((add(g, parts.largest, parts.logarithm)?, subtract(g, parts.below, spread)?))
}
