//! Sums, products and functions of one number.

use super::{Bound, Kind, OpError, ScriptOp, required};
use crate::graph::ops::{add, add_constant, binary, divide, multiply, negate, scale, subtract, unary};
use crate::graph::{Graph, GraphError, Value};
use crate::kernel::elementwise::{Binary, Unary};

const PAIR: &[super::OpParameter] = &[required("a", Kind::Operand), required("b", Kind::Operand)];

/// A function of one tensor from the element-wise table.
macro_rules! of_x {
    ($name:literal, $operation:ident, $summary:literal) => {
        ScriptOp {
            name: $name,
            parameters: &[$crate::script::ops::required("x", $crate::script::ops::Kind::Tensor)],
            summary: $summary,
            build: |graph, bound| $crate::script::ops::arithmetic::of_one(graph, bound, Unary::$operation),
        }
    };
}
pub(super) use of_x;

pub const OPS: &[ScriptOp] = &[
    ScriptOp { name: "add", parameters: PAIR, summary: "a + b, broadcast as NumPy does.", build: sum },
    ScriptOp { name: "sub", parameters: PAIR, summary: "a - b, broadcast.", build: difference },
    ScriptOp { name: "mul", parameters: PAIR, summary: "a * b, element by element, broadcast.", build: product },
    ScriptOp { name: "div", parameters: PAIR, summary: "a / b, element by element, broadcast.", build: quotient },
    ScriptOp {
        name: "minimum",
        parameters: PAIR,
        summary: "The smaller of a and b, broadcast; ties share the gradient.",
        build: |graph, bound| pair(graph, bound, |graph, a, b| binary(graph, a, b, Binary::Minimum)),
    },
    ScriptOp {
        name: "maximum",
        parameters: PAIR,
        summary: "The larger of a and b, broadcast; ties share the gradient.",
        build: |graph, bound| pair(graph, bound, |graph, a, b| binary(graph, a, b, Binary::Maximum)),
    },
    ScriptOp {
        name: "scale",
        parameters: &[required("x", Kind::Tensor), required("factor", Kind::Number)],
        summary: "x times a number.",
        build: |graph, bound| {
            let (x, factor) = (bound.tensor("x")?, bound.number_or("factor", 1.0)?);
            Ok(scale(graph, x, factor)?)
        },
    },
    of_x!("neg", Negate, "-x"),
    of_x!("exp", Exp, "e^x"),
    of_x!("log", Log, "ln x"),
    of_x!("sqrt", Sqrt, "The square root of x."),
    of_x!("abs", Absolute, "x without its sign."),
];

/// A function of one tensor `x` from the element-wise table.
pub fn of_one(graph: &mut Graph, bound: &Bound<'_>, operation: Unary) -> Result<Value, OpError> {
    Ok(unary(graph, bound.tensor("x")?, operation, 0.0)?)
}

/// A function of `a` and `b`, of which one may be a number.
pub fn pair(
    graph: &mut Graph,
    bound: &Bound<'_>,
    function: impl FnOnce(&mut Graph, Value, Value) -> Result<Value, GraphError>,
) -> Result<Value, OpError> {
    let a = bound.operand(graph, "a")?;
    let b = bound.operand(graph, "b")?;
    Ok(function(graph, a, b)?)
}

// A number beside a tensor becomes an attribute of the op where that is the same: `scale` and `add_constant` read one
// tensor instead of two, and attention is recognised by them.

fn sum(graph: &mut Graph, bound: &Bound<'_>) -> Result<Value, OpError> {
    match (bound.number("a")?, bound.number("b")?) {
        (None, Some(b)) => Ok(add_constant(graph, bound.tensor("a")?, b)?),
        (Some(a), None) => Ok(add_constant(graph, bound.tensor("b")?, a)?),
        _ => pair(graph, bound, add),
    }
}

fn difference(graph: &mut Graph, bound: &Bound<'_>) -> Result<Value, OpError> {
    match (bound.number("a")?, bound.number("b")?) {
        (None, Some(b)) => Ok(add_constant(graph, bound.tensor("a")?, -b)?),
        (Some(a), None) => {
            let negated = negate(graph, bound.tensor("b")?)?;
            Ok(add_constant(graph, negated, a)?)
        }
        _ => pair(graph, bound, subtract),
    }
}

fn product(graph: &mut Graph, bound: &Bound<'_>) -> Result<Value, OpError> {
    match (bound.number("a")?, bound.number("b")?) {
        (None, Some(b)) => Ok(scale(graph, bound.tensor("a")?, b)?),
        (Some(a), None) => Ok(scale(graph, bound.tensor("b")?, a)?),
        _ => pair(graph, bound, multiply),
    }
}

fn quotient(graph: &mut Graph, bound: &Bound<'_>) -> Result<Value, OpError> {
    match (bound.number("a")?, bound.number("b")?) {
        (None, Some(0.0)) => Err(bound.error("division by 0")),
        (None, Some(b)) => Ok(scale(graph, bound.tensor("a")?, 1.0 / b)?),
        _ => pair(graph, bound, divide),
    }
}
