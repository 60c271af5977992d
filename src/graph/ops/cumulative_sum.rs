//! Cumulative sums along an axis: the learner's `cumsum`.

use super::prelude::*;
use super::reduce::Axis;
use crate::kernel::cumulative_sum as kernel;

/// `y[l] = sum over k <= l of x[k]` along an axis, or over `k >= l` where it runs backwards. No element depends on those
/// that the sum meets later, not even in its last bit.
#[derive(Clone, Debug)]
pub struct CumulativeSum {
    pub axis: usize,
    pub reverse: bool,
}

impl Op for CumulativeSum {
    fn name(&self) -> &'static str {
        "cumsum"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 1, "1")?;
        numbers(inputs)?;
        let rank = inputs[0].shape.len();
        match self.axis < rank {
            true => Ok(vec![inputs[0].clone()]),
            false => Err(ShapeError::Axis { axis: self.axis, rank }),
        }
    }

    fn domain(&self) -> Domain {
        Domain::SMOOTH
    }

    /// An element is in the sums from itself on, so its gradient is the sum of theirs: the other way round.
    fn gradient(
        &self,
        graph: &mut Graph,
        _: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        let Some(dy) = upstream[0] else { return Ok(vec![None]) };
        Ok(vec![Some(graph.add(CumulativeSum { axis: self.axis, reverse: !self.reverse }, &[dy])?)])
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
            reverse: u32::from(self.reverse),
        });
        Ok(())
    }

    fn attributes(&self) -> String {
        format!("axis={}{}", self.axis, if self.reverse { " reverse" } else { "" })
    }
}

/// The inclusive cumulative sum along an axis.
///
/// # Errors
/// [`ShapeError::Axis`], [`ShapeError::Element`]
pub fn cumulative_sum(graph: &mut Graph, x: Value, axis: usize) -> Result<Value, GraphError> {
    graph.add(CumulativeSum { axis, reverse: false }, &[x])
}
