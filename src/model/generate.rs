//! Text from a model, token by token.

use super::config::GptConfig;
use super::forward::ForwardBuffers;
use super::sampling::{Sampling, SamplingError};
use crate::tape::{ExecutionError, Executor};

/// A generation that stopped.
#[derive(Debug, thiserror::Error)]
pub enum GenerationError {
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    #[error("a prompt needs at least one token")]
    EmptyPrompt,
}

/// A segment of a tape that computes logits for one row of the context's length.
#[derive(Clone, Copy, Debug)]
pub struct Forward {
    pub segment: usize,
    pub buffers: ForwardBuffers,
}

impl Forward {
    /// The logits `[V]` that follow a row of tokens, of which only the last ones that the context holds are seen.
    ///
    /// The row is filled up behind with token 0: under the causal mask nothing that stands later is seen.
    ///
    /// # Errors
    /// [`GenerationError::EmptyPrompt`], or what the device reported.
    pub async fn next_logits(
        &self,
        executor: &Executor,
        config: &GptConfig,
        tokens: &[u32],
    ) -> Result<Vec<f32>, GenerationError> {
        let seen = &tokens[tokens.len().saturating_sub(config.context_length)..];
        let last = seen.len().checked_sub(1).ok_or(GenerationError::EmptyPrompt)?;
        let logits = self.logits(executor, config, seen).await?;
        let vocabulary = config.vocabulary_size;
        Ok(logits[last * vocabulary..(last + 1) * vocabulary].to_vec())
    }

    /// The logits `[T, V]` of a row of at most the context's length; positions behind the row are without meaning.
    ///
    /// # Errors
    /// What the device reported.
    pub async fn logits(
        &self,
        executor: &Executor,
        config: &GptConfig,
        tokens: &[u32],
    ) -> Result<Vec<f32>, GenerationError> {
        let mut row = tokens.to_vec();
        row.resize(config.context_length, 0);
        executor.write_words(self.buffers.tokens, &row)?;
        executor.run(self.segment)?;
        Ok(executor.read(self.buffers.logits).await?)
    }

    /// Continues `prompt` by `count` tokens, handing each out as it is drawn. `stream` tells samples of one seed apart.
    ///
    /// # Errors
    /// Settings that cannot draw, an empty prompt, damaged weights, or what the device reported.
    pub async fn generate(
        &self,
        executor: &Executor,
        config: &GptConfig,
        prompt: &[u32],
        count: usize,
        (sampling, stream): (&Sampling, u64),
        mut drawn: impl FnMut(u32),
    ) -> Result<Vec<u32>, GenerationError> {
        sampling.validate()?;
        let mut tokens = prompt.to_vec();
        for _ in 0..count {
            let logits = self.next_logits(executor, config, &tokens).await?;
            let token = sampling.draw(&logits, stream, tokens.len())?;
            tokens.push(token);
            drawn(token);
        }
        Ok(tokens.split_off(prompt.len()))
    }
}
