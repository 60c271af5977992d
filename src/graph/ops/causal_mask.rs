//! The causal mask: a query sees no later key.

use super::prelude::*;
use crate::kernel::causal_mask as kernel;
use crate::kernel::softmax::MASKED;

/// `scores [.., Tq, Tk]` with `fill` wherever `key > query + Tk - Tq` (aligned bottom-right).
#[derive(Clone, Debug)]
pub struct CausalMask {
    pub fill: f64,
}

/// Scores `[.., Tq, Tk]` as the kernels see them that work row by row.
pub struct Scores {
    /// Rows of all matrices.
    rows: usize,
    pub query_length: usize,
    pub key_length: usize,
}

impl Scores {
    pub fn new(shape: &[usize]) -> Self {
        let (query_length, key_length) = (shape[shape.len() - 2], shape[shape.len() - 1]);
        Self { rows: shape[..shape.len() - 1].iter().product(), query_length, key_length }
    }

    /// Rows may be divided anywhere, also within a matrix.
    pub fn dimensions(&self) -> [Dimension; 2] {
        [Dimension::anywhere(self.rows), Dimension::whole(self.key_length)]
    }

    pub fn access(&self, view: &View) -> Access {
        Access::at_start(view.buffer, &[self.key_length, 1])
    }

    /// The query of the first row of a part.
    pub fn first_row(&self, part: &Part) -> u32 {
        u((part.start(0) % self.query_length.max(1) as u64) as usize)
    }
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
        let scores = Scores::new(&x.shape);
        let accesses = [&x, &y].map(|view| scores.access(view));
        lowering.launch_in_windows(node, &kernel::KERNEL, &scores.dimensions(), &accesses, |part| kernel::Parameters {
            rows: part.size(0),
            first_row: scores.first_row(part),
            query_length: u(scores.query_length),
            key_length: u(scores.key_length),
            fill: self.fill,
        });
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
