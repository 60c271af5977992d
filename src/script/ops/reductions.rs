//! Along one axis: sums, means, largest values, softmax, running sums.

use super::{Bound, Kind, OpError, OpParameter, ScriptOp, optional, required};
use crate::graph::ops::{Reduction, cumulative_sum, reduce, reshape, softmax};
use crate::graph::{Graph, Value};

const REDUCED: &[OpParameter] =
    &[required("x", Kind::Tensor), optional("axis", Kind::Whole, "-1"), optional("keepdims", Kind::Truth, "False")];
const ALONG: &[OpParameter] = &[required("x", Kind::Tensor), optional("axis", Kind::Whole, "-1")];

pub const OPS: &[ScriptOp] = &[
    ScriptOp {
        name: "softmax",
        parameters: ALONG,
        summary: "e^x over its sum along an axis; a score of -2^126 or less gets weight 0.",
        build: |graph, bound| {
            let x = bound.tensor("x")?;
            let axis = bound.axis_or(graph, x, "axis", -1)?;
            Ok(softmax(graph, x, axis)?)
        },
    },
    ScriptOp {
        name: "sum",
        parameters: REDUCED,
        summary: "The sum along an axis, which is removed unless keepdims.",
        build: |graph, bound| reduced(graph, bound, Reduction::Sum),
    },
    ScriptOp {
        name: "mean",
        parameters: REDUCED,
        summary: "The mean along an axis, which is removed unless keepdims.",
        build: |graph, bound| reduced(graph, bound, Reduction::Mean),
    },
    ScriptOp {
        name: "max",
        parameters: REDUCED,
        summary: "The largest along an axis, which is removed unless keepdims; ties share the gradient.",
        build: |graph, bound| reduced(graph, bound, Reduction::Maximum),
    },
    ScriptOp {
        name: "cumsum",
        parameters: ALONG,
        summary: "The sum of everything up to and including each place along an axis.",
        build: |graph, bound| {
            let x = bound.tensor("x")?;
            let axis = bound.axis_or(graph, x, "axis", -1)?;
            Ok(cumulative_sum(graph, x, axis)?)
        },
    },
];

fn reduced(graph: &mut Graph, bound: &Bound<'_>, reduction: Reduction) -> Result<Value, OpError> {
    let x = bound.tensor("x")?;
    let axis = bound.axis_or(graph, x, "axis", -1)?;
    let mut shape = graph.shape(x).to_vec();
    let y = reduce(graph, x, axis, reduction)?;
    // A tensor has at least one dimension.
    if bound.truth_or("keepdims", false)? || shape.len() == 1 {
        shape[axis] = 1;
        return Ok(reshape(graph, y, &shape)?);
    }
    Ok(y)
}
