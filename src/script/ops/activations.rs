//! Functions of one number with a bend.

use super::arithmetic::of_one;
use super::{Kind, OpParameter, ScriptOp, optional, required};
use crate::graph::ops::{constant, layer_norm};
use crate::kernel::elementwise::Unary;

const X: &[OpParameter] = &[required("x", Kind::Tensor)];

pub const OPS: &[ScriptOp] = &[
    ScriptOp {
        name: "tanh",
        parameters: X,
        summary: "The hyperbolic tangent of x.",
        build: |graph, bound| of_one(graph, bound, Unary::Tanh),
    },
    ScriptOp {
        name: "sigmoid",
        parameters: X,
        summary: "1 / (1 + e^-x)",
        build: |graph, bound| of_one(graph, bound, Unary::Sigmoid),
    },
    ScriptOp {
        name: "relu",
        parameters: X,
        summary: "x where it is positive, else 0.",
        build: |graph, bound| of_one(graph, bound, Unary::Relu),
    },
    ScriptOp {
        name: "gelu",
        parameters: X,
        summary: "GELU with the tanh formula, as GPT-2 has it.",
        build: |graph, bound| of_one(graph, bound, Unary::Gelu),
    },
    ScriptOp {
        name: "layer_norm",
        parameters: &[
            required("x", Kind::Tensor),
            optional("weight", Kind::Tensor, "ones"),
            optional("bias", Kind::Tensor, "zeros"),
            optional("epsilon", Kind::Number, "1e-5"),
        ],
        summary: "x with mean 0 and variance 1 along its last axis, times weight plus bias.",
        build: |graph, bound| {
            let x = bound.tensor("x")?;
            let width = graph.shape(x).last().copied().unwrap_or(1);
            let mut or_filled = |name, value| match bound.is_given(name)? {
                true => bound.tensor(name),
                false => Ok(constant(graph, &[width], value)?),
            };
            let (weight, bias) = (or_filled("weight", 1.0)?, or_filled("bias", 0.0)?);
            let epsilon = bound.number_or("epsilon", 1e-5)?;
            if !(epsilon > 0.0 && epsilon < 1.0) {
                return Err(bound.error(format!("epsilon is {epsilon}: it must lie between 0 and 1")));
            }
            Ok(layer_norm(graph, x, weight, bias, epsilon)?)
        },
    },
];
