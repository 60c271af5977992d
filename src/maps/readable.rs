//! Whether a model reads a text.

use crate::model::GptConfig;
use crate::tape::stray_id;

/// Why a model does not read a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("the text has {found} tokens, and the model reads 1 to {context}")]
    Length { found: usize, context: usize },
    #[error("token {index} is {found}: ids of this model are below {vocabulary}")]
    Id { index: usize, found: i64, vocabulary: usize },
}

/// # Errors
/// No tokens, more of them than the context holds, an id that the vocabulary does not have.
pub(super) fn readable(config: &GptConfig, tokens: &[u32]) -> Result<(), Unreadable> {
    let (found, context, vocabulary) = (tokens.len(), config.context_length, config.vocabulary_size);
    if found == 0 || found > context {
        return Err(Unreadable::Length { found, context });
    }
    match stray_id(tokens, vocabulary, false) {
        Some((index, found)) => Err(Unreadable::Id { index, found, vocabulary }),
        None => Ok(()),
    }
}
