//! One of two tensors, element by element: the learner's `where`.

use super::super::Kinks;
use super::super::lowering::{collapse, strided_dimensions};
use super::super::view::row_major;
use super::elementwise::broadcast_shape;
use super::prelude::*;
use super::{constant, sum_to_shape};
use crate::kernel::select as kernel;

/// `y = a` where `condition` is not 0, else `b`; the three broadcast against each other (NumPy's rule). What is not taken
/// reaches neither the result nor a gradient, NaN and infinity included. The side that is not taken gets a gradient of 0; an
/// op that made it may still turn that into NaN (a logarithm of 0 divides 0 by 0), which only its own input can prevent.
#[derive(Clone, Debug)]
pub struct Select;

impl Op for Select {
    fn name(&self) -> &'static str {
        "where"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 3, "3")?;
        numbers(inputs)?;
        let shape = broadcast_shape(&inputs[0].shape, &inputs[1].shape)?;
        Ok(vec![TensorType::real(broadcast_shape(&shape, &inputs[2].shape)?)])
    }

    /// The result jumps where a condition becomes 0.
    fn domain(&self) -> Domain {
        Domain::with_kinks(Kinks::AtZeroIn(0))
    }

    /// The gradient goes to what was taken, and exactly 0 to the other. It is picked and not multiplied by 0 or 1, which
    /// would turn an infinite gradient of the taken side into NaN for the other.
    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        let Some(dy) = upstream[0] else { return Ok(vec![None; 3]) };
        let inputs = graph.nodes[node].inputs.clone();
        let zero = constant(graph, &[], 0.0)?;
        let (da, db) = (select(graph, inputs[0], dy, zero)?, select(graph, inputs[0], zero, dy)?);
        let (a_shape, b_shape) = (graph.shape(inputs[1]).to_vec(), graph.shape(inputs[2]).to_vec());
        Ok(vec![None, Some(sum_to_shape(graph, da, &a_shape)?), Some(sum_to_shape(graph, db, &b_shape)?)])
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let y = lowering.output(node, 0);
        let [condition, a, b] = [0, 1, 2].map(|input| lowering.input(node, input).broadcast(&y.shape));
        let (shape, strides) = collapse(&y.shape, &[&condition.strides, &a.strides, &b.strides]);
        let dimensions = strided_dimensions(&shape, &lowering.node(node).label)?;
        let accesses = [
            Access::strided(condition.buffer, condition.offset, &strides[0]),
            Access::strided(a.buffer, a.offset, &strides[1]),
            Access::strided(b.buffer, b.offset, &strides[2]),
            Access::dense(y.buffer, y.offset, &row_major(&shape)),
        ];
        lowering.launch_in_windows(node, &kernel::KERNEL, &dimensions, &accesses, |part| {
            let (shape_low, shape_high) = part.shape();
            let (condition_strides_low, condition_strides_high) = part.strides(0);
            let (a_strides_low, a_strides_high) = part.strides(1);
            let (b_strides_low, b_strides_high) = part.strides(2);
            kernel::Parameters {
                shape_low,
                shape_high,
                condition_strides_low,
                condition_strides_high,
                a_strides_low,
                a_strides_high,
                b_strides_low,
                b_strides_high,
                count: part.count(),
                condition_offset: part.offset(0),
                a_offset: part.offset(1),
                b_offset: part.offset(2),
                y_offset: part.offset(3),
            }
        });
        Ok(())
    }
}

/// `a` where `condition` is not 0, else `b`, the three broadcast against each other.
///
/// # Errors
/// [`ShapeError::Broadcast`], [`ShapeError::Element`]
pub fn select(graph: &mut Graph, condition: Value, a: Value, b: Value) -> Result<Value, GraphError> {
    graph.add(Select, &[condition, a, b])
}
