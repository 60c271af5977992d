//! Element-wise ops over the table of [`crate::kernel::elementwise`]: one op for functions of one tensor, one for
//! functions of two that broadcast against each other.

use super::super::lowering::{collapse, strided_dimensions};
use super::super::view::row_major;
use super::prelude::*;
use super::sum_to_shape;
use crate::kernel::elementwise::{Binary, Unary};
use crate::kernel::{binary as binary_kernel, unary as unary_kernel};

/// `y = f(x, constant)`, element by element.
#[derive(Clone, Debug)]
pub struct UnaryOp {
    pub operation: Unary,
    /// What `scale`, `add_constant` and `power` take; the others leave it alone.
    pub constant: f64,
}

/// `y = f(a, b)`, element by element, with NumPy's broadcasting.
#[derive(Clone, Debug)]
pub struct BinaryOp {
    pub operation: Binary,
}

/// The shape that two shapes broadcast to (NumPy's rule: aligned at the end, equal or 1).
///
/// # Errors
/// [`ShapeError::Broadcast`] at the first dimension that does not fit.
pub fn broadcast_shape(a: &[usize], b: &[usize]) -> Result<Vec<usize>, ShapeError> {
    let rank = a.len().max(b.len());
    (0..rank)
        .map(|dimension| {
            let of = |shape: &[usize]| (dimension + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
            match (of(a), of(b)) {
                (left, right) if left == right => Ok(left),
                (1, right) => Ok(right),
                (left, 1) => Ok(left),
                (left, right) => Err(ShapeError::Broadcast { dimension, left, right }),
            }
        })
        .collect()
}

impl Op for UnaryOp {
    fn name(&self) -> &'static str {
        self.operation.name()
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 1, "1")?;
        numbers(inputs)?;
        Ok(vec![inputs[0].clone()])
    }

    /// As the table says, but for whole powers: those are defined for negative numbers too.
    fn domain(&self) -> Domain {
        match self.operation {
            Unary::Power if self.constant.fract() != 0.0 => Domain::POSITIVE,
            Unary::Power if self.constant < 0.0 => Domain::smooth(&[Defined::NonZero]),
            Unary::Power => Domain::SMOOTH,
            operation => operation.row().domain,
        }
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        let Some(dy) = upstream[0] else { return Ok(vec![None]) };
        let x = graph.nodes[node].inputs[0];
        let y = Value { node, output: 0 };
        let gradient = match self.operation {
            Unary::Identity | Unary::AddConstant => dy,
            Unary::Scale => scale(graph, dy, self.constant)?,
            Unary::Negate => negate(graph, dy)?,
            Unary::Exp => multiply(graph, dy, y)?,
            Unary::Log => divide(graph, dy, x)?,
            Unary::Sqrt => {
                let half = scale(graph, dy, 0.5)?;
                divide(graph, half, y)?
            }
            Unary::Reciprocal => {
                let square = unary(graph, y, Unary::Square, 0.0)?;
                let product = multiply(graph, dy, square)?;
                negate(graph, product)?
            }
            Unary::Absolute => {
                let sign = unary(graph, x, Unary::Sign, 0.0)?;
                multiply(graph, dy, sign)?
            }
            Unary::Tanh => {
                let square = unary(graph, y, Unary::Square, 0.0)?;
                let negated = negate(graph, square)?;
                let slope = add_constant(graph, negated, 1.0)?;
                multiply(graph, dy, slope)?
            }
            Unary::Sigmoid => {
                let negated = negate(graph, y)?;
                let rest = add_constant(graph, negated, 1.0)?;
                let slope = multiply(graph, y, rest)?;
                multiply(graph, dy, slope)?
            }
            Unary::Relu => {
                let step = unary(graph, x, Unary::Step, 0.0)?;
                multiply(graph, dy, step)?
            }
            Unary::Gelu => binary(graph, x, dy, Binary::GeluGradient)?,
            Unary::Square => {
                let double = scale(graph, x, 2.0)?;
                multiply(graph, dy, double)?
            }
            // x^0 is 1. The rule below would give 0 * x^-1, which is no number where x is 0.
            Unary::Power if self.constant == 0.0 => return Ok(vec![None]),
            Unary::Power => {
                let lower = unary(graph, x, Unary::Power, self.constant - 1.0)?;
                let slope = scale(graph, lower, self.constant)?;
                multiply(graph, dy, slope)?
            }
            Unary::Sign | Unary::Step => return Ok(vec![None]),
        };
        Ok(vec![Some(gradient)])
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let x = lowering.contiguous_input(node, 0)?;
        let y = lowering.output(node, 0);
        let dimensions = [Dimension::anywhere(y.elements())];
        let accesses = [&x, &y].map(|view| Access::at_start(view.buffer, &[1]));
        lowering.launch_in_windows(node, &unary_kernel::KERNEL, &dimensions, &accesses, |part| {
            let operation = self.operation.index();
            unary_kernel::Parameters { count: part.count(), operation, constant: self.constant }
        });
        Ok(())
    }

    fn attributes(&self) -> String {
        match self.operation {
            Unary::Scale | Unary::AddConstant | Unary::Power => self.constant.to_string(),
            _ => String::new(),
        }
    }
}

impl Op for BinaryOp {
    fn name(&self) -> &'static str {
        self.operation.name()
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 2, "2")?;
        numbers(inputs)?;
        Ok(vec![TensorType::real(broadcast_shape(&inputs[0].shape, &inputs[1].shape)?)])
    }

    fn domain(&self) -> Domain {
        self.operation.row().domain
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        let Some(dy) = upstream[0] else { return Ok(vec![None, None]) };
        let [a, b] = [graph.nodes[node].inputs[0], graph.nodes[node].inputs[1]];
        let (da, db) = match self.operation {
            Binary::Add => (dy, dy),
            Binary::Subtract => (dy, negate(graph, dy)?),
            Binary::Multiply => (multiply(graph, dy, b)?, multiply(graph, dy, a)?),
            Binary::Divide => {
                let da = divide(graph, dy, b)?;
                let y = Value { node, output: 0 };
                let product = multiply(graph, da, y)?;
                (da, negate(graph, product)?)
            }
            Binary::Minimum => (share(graph, a, b, dy)?, share(graph, b, a, dy)?),
            Binary::Maximum => (share(graph, b, a, dy)?, share(graph, a, b, dy)?),
            Binary::Less | Binary::LessEqual | Binary::Equal | Binary::And | Binary::Or => return Ok(vec![None, None]),
            operation @ (Binary::GeluGradient | Binary::PowerOf) => {
                return Err(GraphError::NoGradient { op: operation.name(), what: "its inputs" });
            }
        };
        let (a_shape, b_shape) = (graph.shape(a).to_vec(), graph.shape(b).to_vec());
        Ok(vec![Some(sum_to_shape(graph, da, &a_shape)?), Some(sum_to_shape(graph, db, &b_shape)?)])
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let y = lowering.output(node, 0);
        let a = lowering.input(node, 0).broadcast(&y.shape);
        let b = lowering.input(node, 1).broadcast(&y.shape);
        let (shape, strides) = collapse(&y.shape, &[&a.strides, &b.strides]);
        let dimensions = strided_dimensions(&shape, &lowering.node(node).label)?;
        let accesses = [
            Access::strided(a.buffer, a.offset, &strides[0]),
            Access::strided(b.buffer, b.offset, &strides[1]),
            Access::dense(y.buffer, y.offset, &row_major(&shape)),
        ];
        lowering.launch_in_windows(node, &binary_kernel::KERNEL, &dimensions, &accesses, |part| {
            let (shape_low, shape_high) = part.shape();
            let (a_strides_low, a_strides_high) = part.strides(0);
            let (b_strides_low, b_strides_high) = part.strides(1);
            binary_kernel::Parameters {
                shape_low,
                shape_high,
                a_strides_low,
                a_strides_high,
                b_strides_low,
                b_strides_high,
                count: part.count(),
                operation: self.operation.index(),
                a_offset: part.offset(0),
                b_offset: part.offset(1),
                y_offset: part.offset(2),
            }
        });
        Ok(())
    }
}

/// The part of `dy` that goes to `a` where the smaller of `a` and `b` was taken; ties are shared.
fn share(graph: &mut Graph, a: Value, b: Value, dy: Value) -> Result<Value, GraphError> {
    let less = binary(graph, a, b, Binary::Less)?;
    let equal = binary(graph, a, b, Binary::Equal)?;
    let half = scale(graph, equal, 0.5)?;
    let part = add(graph, less, half)?;
    multiply(graph, dy, part)
}

/// A function of one tensor.
///
/// # Errors
/// [`ShapeError::Element`] where it holds token ids.
pub fn unary(graph: &mut Graph, x: Value, operation: Unary, constant: f64) -> Result<Value, GraphError> {
    graph.add(UnaryOp { operation, constant }, &[x])
}

/// A function of two tensors that broadcast against each other.
///
/// # Errors
/// [`ShapeError::Broadcast`]; [`ShapeError::Element`] where one holds token ids.
pub fn binary(graph: &mut Graph, a: Value, b: Value, operation: Binary) -> Result<Value, GraphError> {
    graph.add(BinaryOp { operation }, &[a, b])
}

macro_rules! binary_builders {
    ($($(#[$meta:meta])* $name:ident => $operation:ident;)+) => {$(
        $(#[$meta])*
        ///
        /// # Errors
        /// As [`binary`].
        pub fn $name(graph: &mut Graph, a: Value, b: Value) -> Result<Value, GraphError> {
            binary(graph, a, b, Binary::$operation)
        }
    )+};
}

binary_builders! {
    /// `a + b`
    add => Add;
    /// `a - b`
    subtract => Subtract;
    /// `a * b`
    multiply => Multiply;
    /// `a / b`
    divide => Divide;
}

/// `factor * x`
///
/// # Errors
/// As [`unary`].
pub fn scale(graph: &mut Graph, x: Value, factor: f64) -> Result<Value, GraphError> {
    unary(graph, x, Unary::Scale, factor)
}

/// `x + constant`
///
/// # Errors
/// As [`unary`].
pub fn add_constant(graph: &mut Graph, x: Value, constant: f64) -> Result<Value, GraphError> {
    unary(graph, x, Unary::AddConstant, constant)
}

/// `-x`
///
/// # Errors
/// As [`unary`].
pub fn negate(graph: &mut Graph, x: Value) -> Result<Value, GraphError> {
    unary(graph, x, Unary::Negate, 0.0)
}

/// GPT-2's GELU, the tanh form (Hendrycks and Gimpel 2016, section 2).
///
/// # Errors
/// As [`unary`].
pub fn gelu(graph: &mut Graph, x: Value) -> Result<Value, GraphError> {
    unary(graph, x, Unary::Gelu, 0.0)
}
