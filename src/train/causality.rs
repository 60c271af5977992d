//! The causality probe over a text.

use crate::data::batches::{Batch, BatchError, evaluation_batches};
use crate::model::GptConfig;
use crate::model::causality::{Causality, CausalityProbe, together};
use crate::tape::{ExecutionError, Executor};

/// A text that could not be probed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Execution(#[from] ExecutionError),
}

/// Probes at least `positions` positions, in batches spread evenly over `tokens`.
///
/// # Errors
/// Too few tokens, or what the device reported.
pub async fn probe_text(
    probe: &CausalityProbe,
    executor: &Executor,
    config: &GptConfig,
    tokens: &[u32],
    (positions, seed): (usize, u64),
) -> Result<Causality, ProbeError> {
    let wanted = positions.div_ceil(probe.batch);
    let batches: Vec<Batch> = evaluation_batches(tokens, probe.batch, probe.length)?.at_most(wanted).collect();
    let rounds = positions.div_ceil(probe.batch * batches.len().max(1)).max(1);
    let mut found = Vec::with_capacity(batches.len() * rounds);
    for (index, batch) in batches.iter().enumerate() {
        for round in 0..rounds {
            let texts = (&batch.inputs[..], &batch.targets[..]);
            found.push(probe.probe(executor, config, texts, (seed, (index * rounds + round) as u64)).await?);
        }
    }
    Ok(together(&found))
}
