//! Softmax over any axis.

use super::prelude::*;
use super::reduce::Axis;
use crate::kernel::{softmax as kernel, softmax_backward as backward_kernel};

/// `y = exp(x - max) / sum(exp(x - max))` along an axis. Values at or below -2^126 are invisible: their weight is
/// exactly 0, and where nothing is visible all weights are. One that is NaN or +inf makes all weights NaN.
#[derive(Clone, Debug)]
pub struct Softmax {
    pub axis: usize,
}

/// `dx = y * (dy - sum(dy * y))`
#[derive(Clone, Debug)]
struct SoftmaxBackward {
    axis: usize,
}

impl Op for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 1, "1")?;
        numbers(inputs)?;
        let rank = inputs[0].shape.len();
        if self.axis >= rank {
            return Err(ShapeError::Axis { axis: self.axis, rank });
        }
        Ok(vec![inputs[0].clone()])
    }

    /// What lies at or below -2^126 counts as masked: there the weight is 0 and so is its slope.
    fn domain(&self) -> Domain {
        Domain::SMOOTH
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        let Some(dy) = upstream[0] else { return Ok(vec![None]) };
        let y = Value { node, output: 0 };
        Ok(vec![Some(graph.add(SoftmaxBackward { axis: self.axis }, &[y, dy])?)])
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let x = lowering.contiguous_input(node, 0)?;
        let y = lowering.output(node, 0);
        let axis = Axis::new(&x.shape, self.axis);
        let accesses = [&x, &y].map(|view| axis.access(view));
        lowering.launch_in_windows(node, &kernel::KERNEL, &axis.dimensions(), &accesses, |part| kernel::Parameters {
            outer: part.size(0),
            length: part.size(1),
            inner: part.size(2),
        });
        Ok(())
    }

    fn attributes(&self) -> String {
        format!("axis={}", self.axis)
    }
}

impl Op for SoftmaxBackward {
    fn name(&self) -> &'static str {
        "softmax_backward"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 2, "2")?;
        Ok(vec![inputs[0].clone()])
    }

    fn domain(&self) -> Domain {
        Domain::NotDifferentiable { what: SECOND_DERIVATIVE }
    }

    fn gradient(&self, _: &mut Graph, _: NodeId, _: &[Option<Value>]) -> Result<Vec<Option<Value>>, GraphError> {
        Err(GraphError::NoGradient { op: self.name(), what: SECOND_DERIVATIVE })
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let y = lowering.contiguous_input(node, 0)?;
        let dy = lowering.contiguous_input(node, 1)?;
        let dx = lowering.output(node, 0);
        let axis = Axis::new(&y.shape, self.axis);
        let accesses = [&y, &dy, &dx].map(|view| axis.access(view));
        lowering.launch_in_windows(node, &backward_kernel::KERNEL, &axis.dimensions(), &accesses, |part| {
            backward_kernel::Parameters { outer: part.size(0), length: part.size(1), inner: part.size(2) }
        });
        Ok(())
    }
}

/// Softmax along an axis.
///
/// # Errors
/// [`ShapeError::Axis`]
pub fn softmax(graph: &mut Graph, x: Value, axis: usize) -> Result<Value, GraphError> {
    graph.add(Softmax { axis }, &[x])
}
