//! Scale, causal mask and softmax over keys in one kernel: what the naive path runs between its two products.

use super::causal_mask::Scores;
use super::prelude::*;
use crate::kernel::{scaled_masked_softmax as kernel, scaled_masked_softmax_backward as backward_kernel};

/// `weights = softmax(mask(scale * scores))` over the last axis of `[.., Tq, Tk]`.
#[derive(Clone, Debug)]
pub struct ScaledMaskedSoftmax {
    pub scale: f64,
    pub causal: bool,
}

/// `dscores = scale * weights * (dweights - sum(dweights * weights))`
#[derive(Clone, Debug)]
struct ScaledMaskedSoftmaxBackward {
    scale: f64,
    causal: bool,
}

/// What both kernels take for a part of the rows.
fn parameters(scores: &Scores, part: &Part, causal: bool, scale: f64) -> kernel::Parameters {
    kernel::Parameters {
        rows: part.size(0),
        first_row: scores.first_row(part),
        query_length: u(scores.query_length),
        key_length: u(scores.key_length),
        causal: u32::from(causal),
        scale,
    }
}

impl Op for ScaledMaskedSoftmax {
    fn name(&self) -> &'static str {
        "scaled_masked_softmax"
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

    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        let Some(dy) = upstream[0] else { return Ok(vec![None]) };
        let op = ScaledMaskedSoftmaxBackward { scale: self.scale, causal: self.causal };
        Ok(vec![Some(graph.add(op, &[Value { node, output: 0 }, dy])?)])
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let x = lowering.contiguous_input(node, 0)?;
        let y = lowering.output(node, 0);
        let scores = Scores::new(&x.shape);
        let accesses = [&x, &y].map(|view| scores.access(view));
        lowering.launch_in_windows(node, &kernel::KERNEL, &scores.dimensions(), &accesses, |part| {
            parameters(&scores, part, self.causal, self.scale)
        });
        Ok(())
    }

    fn attributes(&self) -> String {
        format!("scale={}{}", self.scale, if self.causal { " causal" } else { "" })
    }
}

impl Op for ScaledMaskedSoftmaxBackward {
    fn name(&self) -> &'static str {
        "scaled_masked_softmax_backward"
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
        let scores = Scores::new(&y.shape);
        let accesses = [&y, &dy, &dx].map(|view| scores.access(view));
        lowering.launch_in_windows(node, &backward_kernel::KERNEL, &scores.dimensions(), &accesses, |part| {
            parameters(&scores, part, self.causal, self.scale)
        });
        Ok(())
    }
}

/// Attention weights from raw scores `[.., Tq, Tk]`.
///
/// # Errors
/// [`ShapeError::Rank`]
pub fn scaled_masked_softmax(graph: &mut Graph, scores: Value, scale: f64, causal: bool) -> Result<Value, GraphError> {
    graph.add(ScaledMaskedSoftmax { scale, causal }, &[scores])
}
