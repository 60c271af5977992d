//! Multiplication by a number, however it is written.

use crate::graph::ops::{BinaryOp, Constant, Permute, Reshape, Slice, UnaryOp};
use crate::graph::{Graph, Value};
use crate::kernel::elementwise::{Binary, Unary};

/// The number that every element of a value is; `None` where they may differ, or where it takes more than functions of
/// one constant to tell.
pub(super) fn number(graph: &Graph, value: Value) -> Option<f64> {
    let mut functions = Vec::new();
    let mut at = value.node;
    loop {
        if let Some(constant) = graph.op::<Constant>(at) {
            let apply = |x, op: &UnaryOp| op.operation.function::<f64>()(x, op.constant);
            return Some(functions.into_iter().rev().fold(constant.value, apply));
        }
        if let Some(op) = graph.op::<UnaryOp>(at) {
            functions.push(op);
        } else if graph.op::<Reshape>(at).is_none()
            && graph.op::<Permute>(at).is_none()
            && graph.op::<Slice>(at).is_none()
        {
            return None;
        }
        at = graph.nodes[at].inputs.first()?.node;
    }
}

/// What is multiplied to give a value, and the finite number that it is multiplied by; `None` where the value is no such
/// product.
pub(super) fn scaled(graph: &Graph, value: Value) -> Option<(Value, f64)> {
    let inputs = &graph.nodes[value.node].inputs;
    let (x, factor) = if let Some(op) = graph.op::<UnaryOp>(value.node) {
        let factor = match op.operation {
            Unary::Scale => op.constant,
            Unary::Negate => -1.0,
            Unary::Identity => 1.0,
            _ => return None,
        };
        (inputs[0], factor)
    } else {
        let op = graph.op::<BinaryOp>(value.node)?;
        match (op.operation, number(graph, inputs[0]), number(graph, inputs[1])) {
            (Binary::Multiply, _, Some(factor)) => (inputs[0], factor),
            (Binary::Multiply, Some(factor), None) => (inputs[1], factor),
            (Binary::Divide, _, Some(divisor)) => (inputs[0], 1.0 / divisor),
            _ => return None,
        }
    };
    // A constant of another shape may repeat what it multiplies.
    (factor.is_finite() && graph.shape(x) == graph.shape(value)).then_some((x, factor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::ops::{constant, divide, input, multiply, negate, permute, reshape, scale, slice, unary};
    use crate::graph::{GraphError, TensorType};

    type Trace = fn(&mut Graph, Value) -> Result<Value, GraphError>;

    #[test]
    fn numbers_are_found_through_views_and_functions() {
        let rows: [(Trace, Option<f64>); 6] = [
            (|g, _| constant(g, &[], 3.0), Some(3.0)),
            (
                |g, _| {
                    let nine = constant(g, &[2, 6], 9.0)?;
                    let part = slice(g, nine, 1, 0, 3)?;
                    let exchanged = permute(g, part, &[1, 0])?;
                    let flat = reshape(g, exchanged, &[6])?;
                    let root = unary(g, flat, Unary::Sqrt, 0.0)?;
                    negate(g, root)
                },
                Some(-3.0),
            ),
            (
                |g, _| {
                    let infinity = constant(g, &[], f64::INFINITY)?;
                    negate(g, infinity)
                },
                Some(f64::NEG_INFINITY),
            ),
            (|_, x| Ok(x), None),
            (|g, x| scale(g, x, 2.0), None),
            (|g, x| multiply(g, x, x), None),
        ];
        for (index, (trace, expected)) in rows.into_iter().enumerate() {
            let mut graph = Graph::new();
            let x = input(&mut graph, "x", TensorType::real([2, 3])).unwrap();
            let value = trace(&mut graph, x).unwrap();
            assert_eq!(number(&graph, value), expected, "row {index}");
        }
    }

    #[test]
    fn a_scale_is_a_product_with_one_number_that_repeats_nothing() {
        let rows: [(Trace, Option<f64>); 9] = [
            (|g, x| scale(g, x, 0.25), Some(0.25)),
            (|g, x| negate(g, x), Some(-1.0)),
            (
                |g, x| {
                    let four = constant(g, &[], 4.0)?;
                    divide(g, x, four)
                },
                Some(0.25),
            ),
            (
                |g, x| {
                    let half = constant(g, &[3], 0.5)?;
                    multiply(g, half, x)
                },
                Some(0.5),
            ),
            (
                |g, x| {
                    let half = constant(g, &[1, 1], 0.5)?;
                    multiply(g, x, half)
                },
                Some(0.5),
            ),
            // What is divided by the tensor, by nothing, or made larger.
            (
                |g, x| {
                    let one = constant(g, &[], 1.0)?;
                    divide(g, one, x)
                },
                None,
            ),
            (
                |g, x| {
                    let zero = constant(g, &[], 0.0)?;
                    divide(g, x, zero)
                },
                None,
            ),
            (
                |g, x| {
                    let two = constant(g, &[4, 1, 1], 2.0)?;
                    multiply(g, x, two)
                },
                None,
            ),
            (|g, x| unary(g, x, Unary::AddConstant, 1.0), None),
        ];
        for (index, (trace, expected)) in rows.into_iter().enumerate() {
            let mut graph = Graph::new();
            let x = input(&mut graph, "x", TensorType::real([2, 3])).unwrap();
            let value = trace(&mut graph, x).unwrap();
            assert_eq!(scaled(&graph, value), expected.map(|factor| (x, factor)), "row {index}");
        }
    }
}
