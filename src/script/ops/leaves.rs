//! Tensors that are made and not computed.

use super::{Bound, Kind, OpError, ScriptOp, optional, required};
use crate::graph::TensorType;
use crate::graph::ops::{constant, index, input};
use crate::script::recording::Initial;

/// The name of the op that declares a parameter.
pub const PARAMETER: &str = "parameter";
/// The name of the op that names a tensor.
pub const OBSERVE: &str = "observe";

pub const OPS: &[ScriptOp] = &[
    ScriptOp {
        name: "constant",
        parameters: &[required("value", Kind::Number), optional("shape", Kind::Sizes, "[1]")],
        summary: "A tensor of one value.",
        build: |graph, bound| {
            let shape = if bound.is_given("shape")? { bound.sizes("shape")? } else { vec![1] };
            Ok(constant(graph, &shape, bound.number_or("value", 0.0)?)?)
        },
    },
    ScriptOp {
        name: "row_index",
        parameters: &[required("length", Kind::Whole)],
        summary: "[T, 1]: each row's number, from 0. Row i stands for the query at position i.",
        build: |graph, bound| {
            let length = size(bound, "length")?;
            Ok(index(graph, &[length, 1], 0)?)
        },
    },
    ScriptOp {
        name: "column_index",
        parameters: &[required("length", Kind::Whole)],
        summary: "[1, T]: each column's number, from 0. Column j stands for the key at position j.",
        build: |graph, bound| {
            let length = size(bound, "length")?;
            Ok(index(graph, &[1, length], 1)?)
        },
    },
    ScriptOp {
        name: PARAMETER,
        parameters: &[
            required("name", Kind::Text),
            required("shape", Kind::Sizes),
            optional("init", Kind::NumberOrText, "'normal'"),
        ],
        summary: "A learned parameter, one for each layer. init: a number, 'normal' (standard deviation 0.02), or 'unit' \
                  (1 / sqrt of the first size).",
        // A replay puts the model's parameter in its place; tracing makes a leaf.
        build: |graph, bound| {
            let shape = bound.sizes("shape")?;
            Ok(input(graph, bound.text_or("name", "")?, TensorType::real(shape))?)
        },
    },
    ScriptOp {
        name: OBSERVE,
        parameters: &[required("name", Kind::Text), required("x", Kind::Tensor)],
        summary: "Names a tensor for maps and diagnoses ('weights', 'scores') and gives it back.",
        build: |_, bound| bound.tensor("x"),
    },
];

fn size(bound: &Bound<'_>, name: &str) -> Result<usize, OpError> {
    let value = bound.whole(name)?;
    match usize::try_from(value) {
        Ok(size) if size > 0 => Ok(size),
        _ => Err(bound.error(format!("{name} is {value}: it must be at least 1"))),
    }
}

/// How a parameter begins.
///
/// # Errors
/// A word that is not known, a number that is not finite.
pub fn initial(bound: &Bound<'_>) -> Result<Initial, OpError> {
    if let Ok(Some(number)) = bound.number("init") {
        return match number.is_finite() {
            true => Ok(Initial::Constant(number)),
            false => Err(bound.error(format!("init is {number}: it must be finite"))),
        };
    }
    match bound.text_or("init", "normal")? {
        "normal" => Ok(Initial::Normal(0.02)),
        "unit" => {
            let first = bound.sizes("shape")?.first().copied().unwrap_or(1);
            Ok(Initial::Normal(1.0 / (first as f64).sqrt()))
        }
        word => Err(bound.error(format!("init is '{word}': it may be a number, 'normal' or 'unit'"))),
    }
}
