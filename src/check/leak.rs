//! Whether a trained model sees the future.

use std::sync::Arc;

use rand::Rng;

use crate::gpu::{Gpu, Pipelines};
use crate::graph::{Reuse, Rewrites, TapeBuilder};
use crate::model::Checkpoint;
use crate::model::causality::{Causality, CausalityProbe, causality_segment};
use crate::model::forward::{ModelError, parameter_buffers};
use crate::random::{Stream, generator};
use crate::tape::{Category, ExecutionError, Executor, TapeError};
use crate::train::causality::{ProbeError, probe_text};

/// Windows a probe: so many positions of so many texts are looked at.
const WINDOWS: usize = 8;

/// Probes of a trained model.
pub const ROUNDS: usize = 16;

/// Why a model could not be probed.
#[derive(Debug, thiserror::Error)]
pub enum LeakError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Tape(#[from] TapeError),
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error("no position has a later one, in the model's context or in the text: there is nothing to probe")]
    NothingLater,
}

/// Tokens of no text, for a model without one: whether a model looks ahead does not depend on what it reads.
pub fn random_tokens(vocabulary_size: usize, count: usize, seed: u64) -> Vec<u32> {
    let mut random = generator(seed, Stream::Cases, 0, 0);
    (0..count).map(|_| (random.next_u64() % vocabulary_size.max(1) as u64) as u32).collect()
}

/// How many tokens so many probes read, if there are as many.
pub fn wanted_tokens(checkpoint: &Checkpoint, rounds: usize) -> usize {
    WINDOWS * rounds * checkpoint.config.context_length + 1
}

/// Replaces what stands behind `rounds` times eight positions of windows over `tokens`, and looks at the losses up to
/// them.
///
/// # Errors
/// Too few tokens, a model that does not fit the adapter, or what the device reported.
pub async fn probe_model(
    checkpoint: &Checkpoint,
    tokens: &[u32],
    (seed, rounds): (u64, usize),
    gpu: Option<&Arc<Gpu>>,
) -> Result<Causality, LeakError> {
    let config = &checkpoint.config;
    let length = config.context_length;
    if length < 2 {
        return Err(LeakError::NothingLater);
    }
    let mut tape = TapeBuilder::new(gpu.map(|gpu| gpu.profile.clone()), Reuse::Pooled);
    let parameters = parameter_buffers(&mut tape, config, "", Category::Parameter);
    let buffers = causality_segment(&mut tape, config, &parameters, (WINDOWS, length), Rewrites::Fused)?;
    let tape = tape.finish()?;
    let probe = CausalityProbe { segment: tape.segment("causality")?, buffers, batch: WINDOWS, length };
    let executor = Executor::new(gpu, tape, &mut Pipelines::default()).await?;
    for (&buffer, values) in parameters.iter().zip(&checkpoint.parameters) {
        executor.write(buffer, values)?;
    }
    let found = probe_text(&probe, &executor, config, tokens, (WINDOWS * rounds, seed)).await?;
    match found.probed {
        // What was not looked at is not found to be honest.
        0 => Err(LeakError::NothingLater),
        _ => Ok(found),
    }
}
