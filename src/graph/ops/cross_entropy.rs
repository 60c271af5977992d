//! Cross-entropy of logits against target tokens.

use super::prelude::*;
use crate::kernel::{cross_entropy as kernel, cross_entropy_backward, cross_entropy_mean};

/// `logits [N, V]` and `targets [N]` (all bits set: ignored). Outputs: the mean loss over the targets that count `[1]`,
/// the loss of each row `[N]` (0 where ignored), what the gradient needs of each row's softmax `[2, N]` (the largest logit `m`
/// and `sum(exp(logits - m))`), and the mean with its count `[2]`.
#[derive(Clone, Debug)]
pub struct CrossEntropy;

/// `dlogits = upstream / count * (softmax(logits) - onehot(target))`
#[derive(Clone, Debug)]
struct CrossEntropyBackward;

/// The values a loss consists of.
#[derive(Clone, Copy, Debug)]
pub struct Losses {
    /// The mean, a single number.
    pub mean: Value,
    /// One loss a row, 0 where the target is ignored.
    pub rows: Value,
    /// The mean and the number of targets that count.
    pub summary: Value,
}

impl Op for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 2, "2")?;
        let [logits, targets] = [inputs[0], inputs[1]];
        numbers(&[logits])?;
        if logits.shape.len() != 2 {
            return Err(ShapeError::Rank { wanted: "2", got: logits.shape.len() });
        }
        if targets.dtype != super::super::Dtype::Words {
            return Err(ShapeError::Element { wanted: "token ids as targets", got: "numbers" });
        }
        let (rows, right) = (logits.shape[0], targets.shape.iter().product());
        if rows != right {
            return Err(ShapeError::Differ { what: "rows of logits and targets", left: rows, right });
        }
        let shapes = [vec![1], vec![rows], vec![2, rows], vec![2]];
        Ok(shapes.map(TensorType::real).to_vec())
    }

    fn domain(&self) -> Domain {
        Domain::smooth(&[Defined::Everywhere, Defined::Targets])
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        if upstream[1..].iter().any(Option::is_some) {
            return Err(GraphError::NoGradient { op: self.name(), what: "anything but its mean" });
        }
        let Some(dmean) = upstream[0] else { return Ok(vec![None; 2]) };
        let inputs = graph.nodes[node].inputs.clone();
        let (statistics, summary) = (Value { node, output: 2 }, Value { node, output: 3 });
        let operands = [inputs[0], inputs[1], statistics, summary, dmean];
        Ok(vec![Some(graph.add(CrossEntropyBackward, &operands)?), None])
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let logits = lowering.contiguous_input(node, 0)?;
        let targets = lowering.words_input(node, 1)?;
        let [losses, statistics, summary] = [1, 2, 3].map(|output| lowering.output(node, output));
        lowering.alias(node, 0, summary.sliced(0, 0, 1));
        let (rows, vocabulary) = (logits.shape[0], logits.shape[1]);
        lowering.launch(
            node,
            &kernel::KERNEL,
            kernel::Parameters { rows: u(rows), vocabulary: u(vocabulary), row_stride: u(vocabulary) },
            &[logits.buffer, targets.buffer, losses.buffer, statistics.buffer],
        );
        lowering.launch(
            node,
            &cross_entropy_mean::KERNEL,
            cross_entropy_mean::Parameters { rows: u(rows) },
            &[losses.buffer, targets.buffer, summary.buffer],
        );
        Ok(())
    }
}

impl Op for CrossEntropyBackward {
    fn name(&self) -> &'static str {
        "cross_entropy_backward"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 5, "5")?;
        Ok(vec![inputs[0].clone()])
    }

    fn domain(&self) -> Domain {
        Domain::NotDifferentiable { what: SECOND_DERIVATIVE }
    }

    fn gradient(&self, _: &mut Graph, _: NodeId, _: &[Option<Value>]) -> Result<Vec<Option<Value>>, GraphError> {
        Err(GraphError::NoGradient { op: self.name(), what: SECOND_DERIVATIVE })
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let logits = lowering.contiguous_input(node, 0)?;
        let targets = lowering.words_input(node, 1)?;
        let statistics = lowering.contiguous_input(node, 2)?;
        let summary = lowering.contiguous_input(node, 3)?;
        let upstream = lowering.contiguous_input(node, 4)?;
        let dlogits = lowering.output(node, 0);
        let (rows, vocabulary) = (logits.shape[0], logits.shape[1]);
        lowering.launch(
            node,
            &cross_entropy_backward::KERNEL,
            cross_entropy_backward::Parameters { rows: u(rows), vocabulary: u(vocabulary), row_stride: u(vocabulary) },
            &[logits.buffer, targets.buffer, statistics.buffer, summary.buffer, upstream.buffer, dlogits.buffer],
        );
        Ok(())
    }
}

/// The cross-entropy of `logits [N, V]` against `targets`, as a mean and row by row.
///
/// # Errors
/// [`ShapeError::Differ`] where there are not as many targets as rows.
pub fn cross_entropy(graph: &mut Graph, logits: Value, targets: Value) -> Result<Losses, GraphError> {
    let mean = graph.add(CrossEntropy, &[logits, targets])?;
    let output = |output| Value { node: mean.node, output };
    Ok(Losses { mean, rows: output(1), summary: output(3) })
}
