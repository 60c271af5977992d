//! A forward pass as a segment of a tape: tokens in, logits or losses out.

use std::collections::HashMap;

use super::config::GptConfig;
use super::gpt::{BuildError, Gpt, build};
use crate::graph::{GraphError, LoweringError, RewriteReport, Rewrites, TapeBuilder, Value, rewrite};
use crate::tape::{BufferId, Category, ElementKind};

/// A model that cannot become a tape.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Lowering(#[from] LoweringError),
    #[error(transparent)]
    Tape(#[from] crate::tape::TapeError),
}

/// Where a forward pass reads and writes.
#[derive(Clone, Copy, Debug)]
pub struct ForwardBuffers {
    /// Words `[B, T]`.
    pub tokens: BufferId,
    /// `[B * T, V]`
    pub logits: BufferId,
}

/// Declares one persistent buffer for each parameter, in the order of [`GptConfig::parameters`].
pub fn parameter_buffers(
    tape: &mut TapeBuilder,
    config: &GptConfig,
    suffix: &str,
    category: Category,
) -> Vec<BufferId> {
    config
        .parameters()
        .into_iter()
        .map(|parameter| {
            tape.persistent(format!("{}{suffix}", parameter.name), &parameter.shape[..], ElementKind::Real, category)
        })
        .collect()
}

/// The buffers that a model's parameters are bound to.
pub fn parameter_leaves(gpt: &Gpt, parameters: &[BufferId]) -> HashMap<Value, BufferId> {
    gpt.parameters.iter().copied().zip(parameters.iter().copied()).collect()
}

/// Appends a segment that computes logits for `[batch, length]` tokens.
///
/// # Errors
/// A length beyond the model's context, or sizes that no kernel can index.
pub fn forward_segment(
    tape: &mut TapeBuilder,
    config: &GptConfig,
    parameters: &[BufferId],
    (batch, length): (usize, usize),
    rewrites: Rewrites,
    name: &str,
) -> Result<(ForwardBuffers, Vec<RewriteReport>), ModelError> {
    let mut gpt = build(config, batch, length)?;
    let reports = rewrite(&mut gpt.graph, rewrites, &[]);
    let tokens = tape.persistent(format!("{name}.tokens"), &[batch, length][..], ElementKind::Words, Category::Input);
    let shape = [batch, length, config.vocabulary_size];
    let logits = tape.persistent(format!("{name}.logits"), &shape[..], ElementKind::Real, Category::Logits);
    let mut leaves = parameter_leaves(&gpt, parameters);
    leaves.insert(gpt.tokens, tokens);
    tape.begin_segment(name);
    tape.lower(&gpt.graph, &leaves, &[(gpt.logits, Some(logits))])?;
    Ok((ForwardBuffers { tokens, logits }, reports))
}
