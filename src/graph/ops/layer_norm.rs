//! Layer normalisation over the last axis.

use super::prelude::*;
use crate::kernel::{layer_norm as kernel, layer_norm_backward_input, layer_norm_backward_parameters};

/// `y = (x - mean) * rstd * weight + bias` over the last axis, biased variance (Ba et al. 2016, section 3). Outputs:
/// `y`, and `[2, rows]` with each row's mean and 1/standard deviation.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    pub epsilon: f64,
}

/// The gradients of [`LayerNorm`] for its input, its weight and its bias.
#[derive(Clone, Debug)]
struct LayerNormBackward;

fn rows_and_width(shape: &[usize]) -> (usize, usize) {
    let width = shape.last().copied().unwrap_or(1);
    (shape.iter().product::<usize>() / width.max(1), width)
}

impl Op for LayerNorm {
    fn name(&self) -> &'static str {
        "layer_norm"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 3, "3")?;
        numbers(inputs)?;
        let (rows, width) = rows_and_width(&inputs[0].shape);
        for parameter in &inputs[1..] {
            if parameter.shape != [width] {
                let right = parameter.shape.iter().product();
                return Err(ShapeError::Differ { what: "width and parameter", left: width, right });
            }
        }
        Ok(vec![inputs[0].clone(), TensorType::real([2, rows])])
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
        if upstream[1].is_some() {
            return Err(GraphError::NoGradient { op: self.name(), what: "its statistics" });
        }
        let Some(dy) = upstream[0] else { return Ok(vec![None; 3]) };
        let inputs = graph.nodes[node].inputs.clone();
        let statistics = Value { node, output: 1 };
        let backward =
            graph.add_node(std::sync::Arc::new(LayerNormBackward), &[inputs[0], inputs[1], dy, statistics])?;
        Ok((0..3).map(|output| Some(Value { node: backward, output })).collect())
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let x = lowering.contiguous_input(node, 0)?;
        let weight = lowering.contiguous_input(node, 1)?;
        let bias = lowering.contiguous_input(node, 2)?;
        let y = lowering.output(node, 0);
        let statistics = lowering.output(node, 1);
        let (rows, width) = rows_and_width(&x.shape);
        let parameters = kernel::Parameters { rows: u(rows), width: u(width), epsilon: self.epsilon };
        let operands = [x.buffer, weight.buffer, bias.buffer, y.buffer, statistics.buffer];
        lowering.launch(node, &kernel::KERNEL, parameters, &operands);
        Ok(())
    }
}

impl Op for LayerNormBackward {
    fn name(&self) -> &'static str {
        "layer_norm_backward"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 4, "4")?;
        Ok(vec![inputs[0].clone(), inputs[1].clone(), inputs[1].clone()])
    }

    fn domain(&self) -> Domain {
        Domain::NotDifferentiable { what: SECOND_DERIVATIVE }
    }

    fn gradient(&self, _: &mut Graph, _: NodeId, _: &[Option<Value>]) -> Result<Vec<Option<Value>>, GraphError> {
        Err(GraphError::NoGradient { op: self.name(), what: SECOND_DERIVATIVE })
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let x = lowering.contiguous_input(node, 0)?;
        let weight = lowering.contiguous_input(node, 1)?;
        let dy = lowering.contiguous_input(node, 2)?;
        let statistics = lowering.contiguous_input(node, 3)?;
        let [dx, dweight, dbias] = [0, 1, 2].map(|output| lowering.output(node, output));
        let (rows, width) = rows_and_width(&x.shape);
        lowering.launch(
            node,
            &layer_norm_backward_input::KERNEL,
            layer_norm_backward_input::Parameters { rows: u(rows), width: u(width) },
            &[x.buffer, weight.buffer, dy.buffer, statistics.buffer, dx.buffer],
        );
        lowering.launch(
            node,
            &layer_norm_backward_parameters::KERNEL,
            layer_norm_backward_parameters::Parameters { rows: u(rows), width: u(width) },
            &[x.buffer, dy.buffer, statistics.buffer, dweight.buffer, dbias.buffer],
        );
        Ok(())
    }
}

/// Layer normalisation over the last axis.
///
/// # Errors
/// [`ShapeError::Differ`] where the parameters are not of that axis's size.
pub fn layer_norm(graph: &mut Graph, x: Value, weight: Value, bias: Value, epsilon: f64) -> Result<Value, GraphError> {
    graph.add(LayerNorm { epsilon }, &[x, weight, bias])
}
