//! Running a graph once: tensors in, tensors out.

use std::collections::HashMap;

use super::{Dtype, Graph, LoweringError, Reuse, TapeBuilder, Value};
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
    let mut tape = TapeBuilder::new(on.profile().cloned(), Reuse::Pooled);
    let mut place = |value: Value, category: Category| -> BufferId {
        let ty = graph.ty(value);
        let kind = if ty.dtype == Dtype::Words { ElementKind::Words } else { ElementKind::Real };
        let name = graph.nodes[value.node].label.clone();
        tape.persistent(name, ty.elements().unwrap_or(u64::MAX), kind, category)
    };
    let leaves: HashMap<Value, BufferId> =
        inputs.iter().map(|&(value, _)| (value, place(value, Category::Input))).collect();
    let roots: Vec<(Value, Option<BufferId>)> =
        outputs.iter().map(|&value| (value, Some(place(value, Category::Workspace)))).collect();
    tape.begin_segment("evaluate");
    tape.lower(graph, &leaves, &roots)?;
    let executor = WideExecutor::new(on, tape.finish()?).await?;
    for (value, tensor) in inputs {
        executor.write(leaves[value], &tensor.contents)?;
    }
    executor.run(0)?;
    let mut results = Vec::with_capacity(outputs.len());
    for (value, buffer) in roots {
        let values = match buffer {
            Some(buffer) => executor.read(buffer).await?,
            None => Vec::new(),
        };
        results.push(Tensor::real(graph.shape(value), values));
    }
    Ok(results)
}
