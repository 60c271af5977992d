//! Causality through a whole model: two layers, since what one hides the next may show.

use std::sync::Arc;

use super::CheckError;
use crate::check::leak::{probe_model, random_tokens, wanted_tokens};
use crate::model::causality::Causality;
use crate::model::{Checkpoint, EditedAttention, GptConfig, Initialisation, QueryKeyInit};
use crate::script::{Script, TraceSizes, Tracer};

/// T = d_head, so that functions which run nowhere else run here.
const CONTEXT: usize = 16;
const WIDTH: usize = 32;
const HEADS: usize = 2;
const LAYERS: usize = 2;
const VOCABULARY: usize = 19;
/// Probes of eight windows each.
const ROUNDS: usize = 4;

/// Replaces the later tokens behind positions of random text in a model with random weights; `None` where the function
/// does not run in that model. On the CPU executor: it is the function that is looked at, and not the adapter.
///
/// # Errors
/// An executor that fails.
pub async fn through_model(
    script: &Script,
    tracer: &Arc<dyn Tracer>,
    seed: u64,
) -> Result<Option<Causality>, CheckError> {
    let Ok(sizes) = GptConfig::new(VOCABULARY, CONTEXT, LAYERS, HEADS, WIDTH) else { return Ok(None) };
    let attention = match EditedAttention::new(script.clone(), Arc::clone(tracer), &sizes) {
        Ok(attention) => attention,
        // It runs here, and yet is no part of a model: its parameters follow the length of the text.
        Err(error) if runs(script, tracer) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let Ok(config) = sizes.with_attention(Some(Arc::new(attention))) else { return Ok(None) };
    // Queries and keys of unit variance: attention that is nearly uniform hides where it looks.
    let initialisation = Initialisation { query_key: QueryKeyInit::Unit, seed, ..Initialisation::default() };
    let parameters = initialisation.values(&config);
    let checkpoint = Checkpoint { config, parameters, tokenizer: None };
    let tokens = random_tokens(VOCABULARY, wanted_tokens(&checkpoint, ROUNDS), seed);
    Ok(Some(probe_model(&checkpoint, &tokens, (seed, ROUNDS), None).await?))
}

/// Whether the function runs at all in a model of these sizes.
fn runs(script: &Script, tracer: &Arc<dyn Tracer>) -> bool {
    let (batch, length, width, heads, layers) = (1, CONTEXT, WIDTH, HEADS, LAYERS);
    tracer.trace(script, &TraceSizes { batch, length, width, heads, context_length: CONTEXT, layers }).is_ok()
}
