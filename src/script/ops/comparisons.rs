//! Comparisons and logic, which give 1 for true and 0 for false, and the choice by them.

use super::arithmetic::pair;
use super::{Kind, OpParameter, ScriptOp, required};
use crate::graph::ops::{binary, constant, select};
use crate::kernel::elementwise::Binary;

const PAIR: &[OpParameter] = &[required("a", Kind::Operand), required("b", Kind::Operand)];

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
    ScriptOp {
        name: "less",
        parameters: PAIR,
        summary: "1 where a < b, else 0.",
        build: |graph, bound| pair(graph, bound, |graph, a, b| binary(graph, a, b, Binary::Less)),
    },
    ScriptOp {
        name: "less_equal",
        parameters: PAIR,
        summary: "1 where a <= b, else 0.",
        build: |graph, bound| pair(graph, bound, |graph, a, b| binary(graph, a, b, Binary::LessEqual)),
    },
    ScriptOp {
        name: "greater",
        parameters: PAIR,
        summary: "1 where a > b, else 0.",
        build: |graph, bound| pair(graph, bound, |graph, a, b| binary(graph, b, a, Binary::Less)),
    },
    ScriptOp {
        name: "greater_equal",
        parameters: PAIR,
        summary: "1 where a >= b, else 0.",
        build: |graph, bound| pair(graph, bound, |graph, a, b| binary(graph, b, a, Binary::LessEqual)),
    },
    ScriptOp {
        name: "equal",
        parameters: PAIR,
        summary: "1 where a = b, else 0.",
        build: |graph, bound| pair(graph, bound, |graph, a, b| binary(graph, a, b, Binary::Equal)),
    },
    ScriptOp {
        name: "logical_and",
        parameters: PAIR,
        summary: "1 where neither is 0, else 0.",
        build: |graph, bound| pair(graph, bound, |graph, a, b| binary(graph, a, b, Binary::And)),
    },
    ScriptOp {
        name: "logical_or",
        parameters: PAIR,
        summary: "1 where not both are 0, else 0.",
        build: |graph, bound| pair(graph, bound, |graph, a, b| binary(graph, a, b, Binary::Or)),
    },
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
