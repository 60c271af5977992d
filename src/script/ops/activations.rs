//! Functions of one number with a bend.

use super::arithmetic::of_x;
use super::{Kind, ScriptOp, optional, required};
use crate::graph::ops::{constant, layer_norm};
use crate::kernel::elementwise::Unary;

pub const OPS: &[ScriptOp] = &[
    of_x!("tanh", Tanh, "The hyperbolic tangent of x."),
    of_x!("sigmoid", Sigmoid, "1 / (1 + e^-x)"),
    of_x!("relu", Relu, "x where it is positive, else 0."),
    of_x!("gelu", Gelu, "GELU with the tanh formula, as GPT-2 has it."),
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
