//! Text from a model, token by token.

use std::sync::Arc;

use super::config::GptConfig;
use super::forward::{ForwardBuffers, ModelError, forward_segment, parameter_buffers};
use super::gpt::BuildError;
use super::sampling::{Sampling, SamplingError};
use crate::gpu::{Gpu, Pipelines};
use crate::graph::{Reuse, Rewrites, TapeBuilder};
use crate::tape::{BufferId, Category, ExecutionError, Executor, TapeError};

/// A generation that stopped.
#[derive(Debug, thiserror::Error)]
pub enum GenerationError {
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Tape(#[from] TapeError),
    #[error("a prompt needs at least one token")]
    EmptyPrompt,
}

/// Rows of the forward pass that text comes from. One is enough for the reference, whose mask is causal by construction.
/// An edited attention gets two that differ behind the text: equal results show that it does not look there.
pub fn rows(config: &GptConfig) -> usize {
    if config.attention.is_some() { 2 } else { 1 }
}

/// A segment of a tape that computes logits for [`rows`] rows of the context's length.
#[derive(Clone, Copy, Debug)]
pub struct Forward {
    pub segment: usize,
    pub buffers: ForwardBuffers,
}

/// A model that text can be drawn from.
pub struct TextModel<'a> {
    pub executor: &'a Executor,
    pub config: &'a GptConfig,
    /// Where its weights lie.
    pub parameters: &'a [BufferId],
    pub forward: Forward,
    pub gpu: Option<&'a Arc<Gpu>>,
    pub rewrites: Rewrites,
}

/// Text that was drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generated {
    pub tokens: Vec<u32>,
    /// What a reader of the text must know of how it was drawn.
    pub remark: Option<String>,
}

/// The model planned for exactly so many tokens.
struct ExactLength {
    length: usize,
    executor: Executor,
    forward: Forward,
}

impl TextModel<'_> {
    /// The logits `[T, V]` of a row of at most the context's length; positions behind the row are without meaning. The
    /// row is filled up behind with token 0: what stands later is not seen by a causal model.
    ///
    /// # Errors
    /// What the device reported.
    pub async fn logits(&self, tokens: &[u32]) -> Result<Vec<f32>, GenerationError> {
        let mut logits = self.all_logits(tokens).await?;
        logits.truncate(self.config.context_length * self.config.vocabulary_size);
        Ok(logits)
    }

    async fn all_logits(&self, tokens: &[u32]) -> Result<Vec<f32>, GenerationError> {
        let length = self.config.context_length;
        let mut filled = Vec::with_capacity(rows(self.config) * length);
        for row in 0..rows(self.config) {
            filled.extend_from_slice(tokens);
            // Different in every place behind the text.
            let filling = (tokens.len()..length).map(|at| ((at + 1) * row % self.config.vocabulary_size) as u32);
            filled.extend(filling);
        }
        self.executor.write_words(self.forward.buffers.tokens, &filled)?;
        self.executor.run(self.forward.segment)?;
        Ok(self.executor.read(self.forward.buffers.logits).await?)
    }

    /// The logits `[V]` behind a row of tokens of at most the context's length, and whether they depend on what the row
    /// was filled up with.
    async fn padded_logits(&self, seen: &[u32]) -> Result<(Vec<f32>, bool), GenerationError> {
        let last = seen.len().checked_sub(1).ok_or(GenerationError::EmptyPrompt)?;
        let all = self.all_logits(seen).await?;
        let vocabulary = self.config.vocabulary_size;
        let of_row = |row: usize| {
            let at = (row * self.config.context_length + last) * vocabulary;
            &all[at..at + vocabulary]
        };
        let first = of_row(0);
        let same = |row: usize| of_row(row).iter().zip(first).all(|(a, b)| a.to_bits() == b.to_bits());
        Ok((first.to_vec(), !(1..rows(self.config)).all(same)))
    }

    /// The model for rows of exactly so many tokens, with the weights as they are.
    async fn exact(&self, length: usize) -> Result<ExactLength, GenerationError> {
        let mut tape = TapeBuilder::new(self.gpu.map(|gpu| gpu.profile.clone()), Reuse::Pooled);
        let parameters = parameter_buffers(&mut tape, self.config, "", Category::Parameter);
        let (buffers, _) =
            forward_segment(&mut tape, self.config, &parameters, (1, length), self.rewrites, "exact_length")?;
        let tape = tape.finish()?;
        let forward = Forward { segment: tape.segment("exact_length")?, buffers };
        let executor = Executor::new(self.gpu, tape, &mut Pipelines::default()).await?;
        for (&from, &to) in self.parameters.iter().zip(&parameters) {
            executor.write(to, &self.executor.read(from).await?)?;
        }
        Ok(ExactLength { length, executor, forward })
    }

    /// Continues `prompt` by `count` tokens, handing each out as it is drawn. `stream` tells samples of one seed apart.
    /// Only the last tokens that the context holds are seen, and nothing behind the text: a model that would look at
    /// what the row is filled up with runs at exactly the length of the text, planned anew for each. One that cannot,
    /// since its attention refuses other lengths than the context, sees token 0 there, and a remark says so.
    ///
    /// # Errors
    /// Settings that cannot draw, an empty prompt, damaged weights, or what the device reported.
    pub async fn generate(
        &self,
        prompt: &[u32],
        count: usize,
        (sampling, stream): (&Sampling, u64),
        mut drawn: impl FnMut(u32),
    ) -> Result<Generated, GenerationError> {
        sampling.validate()?;
        let mut tokens = prompt.to_vec();
        let mut exact: Option<ExactLength> = None;
        let mut remark = None;
        for _ in 0..count {
            let seen = &tokens[tokens.len().saturating_sub(self.config.context_length)..];
            let (padded, looks_behind) = self.padded_logits(seen).await?;
            let logits = if looks_behind && remark.is_none() {
                let planned = match exact.take().filter(|model| model.length == seen.len()) {
                    Some(model) => Ok(model),
                    None => self.exact(seen.len()).await,
                };
                match planned {
                    Ok(model) => {
                        let logits = model.last_logits(seen, self.config.vocabulary_size).await?;
                        exact = Some(model);
                        logits
                    }
                    Err(GenerationError::Model(ModelError::Build(BuildError::Script(error)))) => {
                        remark = Some(format!(
                            "the model sees what stands behind the text and does not run without it ({error}): \
                             token 0 was put there"
                        ));
                        padded
                    }
                    Err(error) => return Err(error),
                }
            } else {
                padded
            };
            let token = sampling.draw(&logits, stream, tokens.len())?;
            tokens.push(token);
            drawn(token);
        }
        Ok(Generated { tokens: tokens.split_off(prompt.len()), remark })
    }
}

impl ExactLength {
    async fn last_logits(&self, tokens: &[u32], vocabulary: usize) -> Result<Vec<f32>, GenerationError> {
        self.executor.write_words(self.forward.buffers.tokens, tokens)?;
        self.executor.run(self.forward.segment)?;
        let mut logits = self.executor.read(self.forward.buffers.logits).await?;
        Ok(logits.split_off((self.length - 1) * vocabulary))
    }
}
