//! The causal mask: a query sees no later key.

use super::prelude::*;
use crate::kernel::causal_mask as kernel;
use crate::kernel::softmax::MASKED;

/// `scores [.., Tq, Tk]` with `fill` wherever `key > query + Tk - Tq` (aligned bottom-right).
#[derive(Clone, Debug)]
pub struct CausalMask {
    pub fill: f64,
}

/// The sizes of `[.., Tq, Tk]`: everything before, Tq, Tk.
pub fn score_sizes(shape: &[usize]) -> (usize, usize, usize) {
    let rank = shape.len();
    (shape[..rank - 2].iter().product(), shape[rank - 2], shape[rank - 1])
}

impl Op for CausalMask {
    fn name(&self) -> &'static str {
        "causal_mask"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 1, "1")?;
        numbers(inputs)?;
        if inputs[0].shape.len() < 2 {
            return Err(ShapeError::Rank { wanted: "at least 2", got: inputs[0].shape.len() });
        }
        Ok(vec![inputs[0].clone()])
    }

    fn domain(&self) -> Domain {
        Domain::SMOOTH
    }

    /// Masked scores do not depend on their input, so nothing flows through them.
    fn gradient(
        &self,
        graph: &mut Graph,
        _: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        let Some(dy) = upstream[0] else { return Ok(vec![None]) };
        Ok(vec![Some(graph.add(CausalMask { fill: 0.0 }, &[dy])?)])
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let x = lowering.contiguous_input(node, 0)?;
        let y = lowering.output(node, 0);
        let (batches, query_length, key_length) = score_sizes(&x.shape);
        let parameters = kernel::Parameters {
            batches: u(batches),
            query_length: u(query_length),
            key_length: u(key_length),
            fill: self.fill,
        };
        lowering.launch(node, &kernel::KERNEL, parameters, &[x.buffer, y.buffer]);
        Ok(())
    }
}

/// Hides later keys from earlier queries.
///
/// # Errors
/// [`ShapeError::Rank`]
pub fn causal_mask(graph: &mut Graph, scores: Value) -> Result<Value, GraphError> {
    graph.add(CausalMask { fill: MASKED }, &[scores])
}
