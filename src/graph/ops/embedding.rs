//! Rows of a table, picked by token.

use super::prelude::*;
use crate::kernel::{embedding as kernel, embedding_backward as backward_kernel};

/// `table [V, C]` and `tokens [..]` to `[.., C]`.
#[derive(Clone, Debug)]
pub struct Embedding;

/// The scatter-add of `[.., C]` into `[V, C]`; rows that no token picks are 0.
#[derive(Clone, Debug)]
struct EmbeddingBackward {
    vocabulary: usize,
}

impl Op for Embedding {
    fn name(&self) -> &'static str {
        "embedding"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 2, "2")?;
        let [table, tokens] = [inputs[0], inputs[1]];
        numbers(&[table])?;
        if table.shape.len() != 2 {
            return Err(ShapeError::Rank { wanted: "2", got: table.shape.len() });
        }
        if tokens.dtype != super::super::Dtype::Words {
            return Err(ShapeError::Element { wanted: "token ids", got: "numbers" });
        }
        let mut shape = tokens.shape.clone();
        shape.push(table.shape[1]);
        Ok(vec![TensorType::real(shape)])
    }

    fn domain(&self) -> Domain {
        Domain::smooth(&[Defined::Everywhere, Defined::Tokens])
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        let Some(dy) = upstream[0] else { return Ok(vec![None; 2]) };
        let inputs = graph.nodes[node].inputs.clone();
        let vocabulary = graph.shape(inputs[0])[0];
        Ok(vec![Some(graph.add(EmbeddingBackward { vocabulary }, &[dy, inputs[1]])?), None])
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let table = lowering.contiguous_input(node, 0)?;
        let tokens = lowering.words_input(node, 1)?;
        let y = lowering.output(node, 0);
        let parameters = kernel::Parameters {
            tokens: u(tokens.elements()),
            width: u(table.shape[1]),
            vocabulary: u(table.shape[0]),
        };
        lowering.launch(node, &kernel::KERNEL, parameters, &[table.buffer, tokens.buffer, y.buffer]);
        Ok(())
    }
}

impl Op for EmbeddingBackward {
    fn name(&self) -> &'static str {
        "embedding_backward"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 2, "2")?;
        let width = inputs[0].shape.last().copied().unwrap_or(1);
        Ok(vec![TensorType::real([self.vocabulary, width])])
    }

    fn domain(&self) -> Domain {
        Domain::NotDifferentiable { what: SECOND_DERIVATIVE }
    }

    fn gradient(&self, _: &mut Graph, _: NodeId, _: &[Option<Value>]) -> Result<Vec<Option<Value>>, GraphError> {
        Err(GraphError::NoGradient { op: self.name(), what: SECOND_DERIVATIVE })
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let dy = lowering.contiguous_input(node, 0)?;
        let tokens = lowering.words_input(node, 1)?;
        let dtable = lowering.output(node, 0);
        let parameters = backward_kernel::Parameters {
            tokens: u(tokens.elements()),
            width: u(dtable.shape[1]),
            vocabulary: u(self.vocabulary),
        };
        lowering.launch(node, &backward_kernel::KERNEL, parameters, &[dy.buffer, tokens.buffer, dtable.buffer]);
        Ok(())
    }
}

/// The rows of `table [V, C]` that `tokens` name.
///
/// # Errors
/// [`ShapeError::Rank`], [`ShapeError::Element`]
pub fn embedding(graph: &mut Graph, table: Value, tokens: Value) -> Result<Value, GraphError> {
    graph.add(Embedding, &[table, tokens])
}
