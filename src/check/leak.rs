//! Whether a trained model sees the future.

use std::sync::Arc;

use rand::Rng;

use crate::data::batches::{BatchError, IGNORE};
use crate::gpu::{Gpu, Pipelines};
use crate::graph::{Reuse, Rewrites, TapeBuilder};
use crate::model::Checkpoint;
use crate::model::causality::{Causality, CausalityProbe, causality_segment, together};
use crate::model::forward::{ModelError, parameter_buffers};
use crate::random::{Stream, generator};
use crate::tape::{Category, ExecutionError, Executor, TapeError};

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
    Batch(#[from] BatchError),
    #[error("a context of one token has no later one: there is nothing to probe")]
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

/// Replaces what stands behind one position of each of many windows over `tokens`, and looks at the losses up to it.
///
/// # Errors
/// Fewer tokens than a window, a model that does not fit the adapter, or what the device reported.
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
    if tokens.len() < 3 {
        return Err(BatchError::TooFewTokens { have: tokens.len(), context_length: length }.into());
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
    let mut found = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let (mut inputs, mut targets) = (Vec::new(), Vec::new());
        for window in 0..WINDOWS {
            let mut random = generator(seed, Stream::Batches, round as u64, window as u64);
            // A window for which there is a target, and something behind it.
            let begin = (random.next_u64() % (tokens.len() - 2) as u64) as usize;
            let begin = begin.min(tokens.len().saturating_sub(length + 1));
            let row = &tokens[begin..];
            let predicted = length.min(row.len() - 1);
            inputs.extend_from_slice(&row[..predicted]);
            targets.extend_from_slice(&row[1..=predicted]);
            inputs.resize((window + 1) * length, 0);
            targets.resize((window + 1) * length, IGNORE);
        }
        let texts = (&inputs[..], &targets[..]);
        found.push(probe.probe(&executor, config, texts, (seed, round as u64)).await?);
    }
    Ok(together(&found))
}
