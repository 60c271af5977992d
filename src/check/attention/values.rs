//! Every tensor that a function makes, in numbers.

use super::CheckError;
use super::case::CaseInputs;
use super::function::TracedFunction;
use crate::gpu::Pipelines;
use crate::graph::Value;
use crate::script::{Argument, Call, TensorId};
use crate::tape::{RunOn, Tensor};

/// Inputs of a function: x, query, key, value.
pub const INPUTS: usize = 4;

/// The tensors of a recording, by [`TensorId`].
#[derive(Clone, Debug)]
pub struct TensorValues(Vec<Tensor>);

impl TensorValues {
    /// Runs a function and keeps everything.
    ///
    /// # Errors
    /// A graph that cannot be lowered, a device that fails.
    pub async fn of(
        function: &TracedFunction,
        inputs: &CaseInputs,
        on: &RunOn,
        pipelines: &mut Pipelines,
    ) -> Result<Self, CheckError> {
        let mut outputs: Vec<Value> = function.arguments().to_vec();
        outputs.extend(function.replayed.lines.iter().map(|&(_, value)| value));
        Ok(Self(function.runner(&outputs, on, pipelines).await?.run(inputs).await?))
    }

    pub fn get(&self, id: TensorId) -> Option<&Tensor> {
        self.0.get(id as usize)
    }
}

/// The tensors that a call reads.
pub fn operands(call: &Call) -> Vec<TensorId> {
    let of_argument = |argument: &Argument<TensorId>| match argument {
        Argument::Tensor(id) => vec![*id],
        Argument::Tensors(ids) => ids.clone(),
        _ => Vec::new(),
    };
    call.arguments.iter().flat_map(of_argument).collect()
}

/// For each tensor whether it depends on one of `sources`.
pub fn depends_on(function: &TracedFunction, sources: &[TensorId]) -> Vec<bool> {
    let mut depends: Vec<bool> = (0..INPUTS).map(|id| sources.contains(&(id as TensorId))).collect();
    for call in &function.recording.calls {
        let any = operands(call).iter().any(|&id| depends.get(id as usize) == Some(&true));
        depends.push(any);
    }
    depends
}
