//! Comparisons and logic, which give 1 for true and 0 for false, and the choice by them.

use super::arithmetic::pair;
use super::{Kind, OpParameter, ScriptOp, required};
use crate::graph::ops::{binary, constant, select};
use crate::kernel::elementwise::Binary;

const PAIR: &[OpParameter] = &[required("a", Kind::Operand), required("b", Kind::Operand)];

/// A comparison or a connective of a and b.
macro_rules! of_two {
    ($name:literal, $operation:ident, $summary:literal) => {
        of_two!($name, |a, b| (a, b), $operation, $summary)
    };
    ($name:literal, |$a:ident, $b:ident| $order:expr, $operation:ident, $summary:literal) => {
        ScriptOp {
            name: $name,
            parameters: PAIR,
            summary: $summary,
            build: |graph, bound| {
                pair(graph, bound, |graph, $a, $b| {
                    let (left, right) = $order;
                    binary(graph, left, right, Binary::$operation)
                })
            },
        }
    };
}

pub const OPS: &[ScriptOp] = &[
    ScriptOp {
        name: "where",
        parameters: &[required("condition", Kind::Tensor), required("a", Kind::Operand), required("b", Kind::Operand)],
        summary: "a where the condition is not 0, else b; broadcast. What is not taken does not matter, NaN or not.",
        build: |graph, bound| {
            let condition = bound.tensor("condition")?;
            pair(graph, bound, |graph, a, b| select(graph, condition, a, b))
        },
    },
    of_two!("less", Less, "1 where a < b, else 0."),
    of_two!("less_equal", LessEqual, "1 where a <= b, else 0."),
    of_two!("greater", |a, b| (b, a), Less, "1 where a > b, else 0."),
    of_two!("greater_equal", |a, b| (b, a), LessEqual, "1 where a >= b, else 0."),
    of_two!("equal", Equal, "1 where a = b, else 0."),
    of_two!("logical_and", And, "1 where neither is 0, else 0."),
    of_two!("logical_or", Or, "1 where not both are 0, else 0."),
    ScriptOp {
        name: "logical_not",
        parameters: &[required("x", Kind::Tensor)],
        summary: "1 where x is 0, else 0.",
        build: |graph, bound| {
            let x = bound.tensor("x")?;
            let zero = constant(graph, &[1], 0.0)?;
            Ok(binary(graph, x, zero, Binary::Equal)?)
        },
    },
];
