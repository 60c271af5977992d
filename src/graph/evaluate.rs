//! Running a graph once: tensors in, tensors out.

use std::collections::HashMap;

use super::{Dtype, Graph, LoweringError, Reuse, TapeBuilder, Value};
use crate::gpu::Pipelines;
use crate::tape::{BufferId, Category, ElementKind, ExecutionError, RunOn, TapeError, Tensor, WideExecutor};

/// A graph that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    #[error(transparent)]
    Lowering(#[from] LoweringError),
    #[error(transparent)]
    Tape(#[from] TapeError),
    #[error(transparent)]
    Execution(#[from] ExecutionError),
}

/// The values of `outputs`, all of them numbers, with `inputs` bound to the graph's leaves.
///
/// # Errors
/// A leaf without a tensor, a size that no kernel can index, a launch that the adapter cannot run, a device that fails.
pub async fn evaluate(
    graph: &Graph,
    inputs: &[(Value, &Tensor)],
    outputs: &[Value],
    on: &RunOn,
) -> Result<Vec<Tensor>, EvaluationError> {
    let (leaves, tensors): (Vec<Value>, Vec<&Tensor>) = inputs.iter().copied().unzip();
    Evaluation::new(graph, &leaves, outputs, on, &mut Pipelines::default()).await?.run(&tensors).await
}

/// A graph set up to be run on one set of inputs after the other.
pub struct Evaluation {
    executor: WideExecutor,
    leaves: Vec<BufferId>,
    /// Shape and place of each output.
    outputs: Vec<(Vec<usize>, BufferId)>,
}

impl Evaluation {
    /// Sets a graph up. `leaves` are what [`Evaluation::run`] binds, in its order.
    ///
    /// # Errors
    /// As [`evaluate`].
    pub async fn new(
        graph: &Graph,
        leaves: &[Value],
        outputs: &[Value],
        on: &RunOn,
        pipelines: &mut Pipelines,
    ) -> Result<Self, EvaluationError> {
        let mut tape = TapeBuilder::new(on.profile().cloned(), Reuse::Pooled);
        let mut place = |value: Value, category: Category| -> BufferId {
            let ty = graph.ty(value);
            let kind = if ty.dtype == Dtype::Words { ElementKind::Words } else { ElementKind::Real };
            let name = graph.nodes[value.node].label.clone();
            tape.persistent(name, ty.elements().unwrap_or(u64::MAX), kind, category)
        };
        let bound: Vec<BufferId> = leaves.iter().map(|&value| place(value, Category::Input)).collect();
        let placed: Vec<BufferId> = outputs.iter().map(|&value| place(value, Category::Workspace)).collect();
        tape.begin_segment("evaluate");
        let places: HashMap<Value, BufferId> = leaves.iter().copied().zip(bound.iter().copied()).collect();
        let roots: Vec<(Value, Option<BufferId>)> =
            outputs.iter().zip(&placed).map(|(&value, &buffer)| (value, Some(buffer))).collect();
        tape.lower(graph, &places, &roots)?;
        let executor = WideExecutor::new(on, tape.finish()?, pipelines).await?;
        let outputs = outputs.iter().map(|&value| graph.shape(value).to_vec()).zip(placed).collect();
        Ok(Self { executor, leaves: bound, outputs })
    }

    /// The values of the outputs for these values of the leaves. Where fewer are given than there are leaves, the rest keep
    /// what they were given before.
    ///
    /// # Errors
    /// A tensor that its leaf does not hold, a device that fails.
    pub async fn run(&self, tensors: &[&Tensor]) -> Result<Vec<Tensor>, EvaluationError> {
        for (&buffer, tensor) in self.leaves.iter().zip(tensors) {
            self.executor.write(buffer, &tensor.contents)?;
        }
        self.executor.run(0)?;
        let mut results = Vec::with_capacity(self.outputs.len());
        for (shape, buffer) in &self.outputs {
            results.push(Tensor::real(shape.clone(), self.executor.read(*buffer).await?));
        }
        Ok(results)
    }
}
