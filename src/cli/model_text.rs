//! A text as the tokens of a model that was read from its directory.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};

use crate::data::tokenizer::Tokenizer;
use crate::maps::picture::label::label_within;
use crate::model::checkpoint::TOKENIZER_FILE;
use crate::model::{Checkpoint, GptConfig};

/// The model that reads and the text that it reads, as arguments.
#[derive(clap::Args)]
pub struct ModelText {
    /// A model directory, or a run directory (its best model is taken)
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// The text to look at
    #[arg(long, allow_hyphen_values = true)]
    pub text: String,
}

/// Columns of a token's label in a table.
const LABEL_COLUMNS: usize = 16;

/// The tokenizer of a model.
///
/// # Errors
/// One line where there is none, or where it is not the model's.
pub fn tokenizer(directory: &Path, checkpoint: &Checkpoint) -> anyhow::Result<Tokenizer> {
    let Some(json) = &checkpoint.tokenizer else {
        bail!("{} has no tokenizer.json: without one, text means nothing to the model", directory.display());
    };
    let tokenizer = Tokenizer::from_json(json)
        .with_context(|| directory.join(TOKENIZER_FILE).display().to_string())
        .map_err(|error| anyhow!("{error:#}"))?;
    let (tokens, vocabulary) = (tokenizer.vocabulary_size(), checkpoint.config.vocabulary_size);
    if tokens > vocabulary {
        bail!("{}: tokenizer.json has {tokens} tokens, the model has {vocabulary}", directory.display());
    }
    Ok(tokenizer)
}

/// The tokens of a text that the model reads at once.
///
/// # Errors
/// One line for a character or word that the vocabulary lacks, for no text, and for one beyond the context.
pub fn encode(text: &str, tokenizer: &Tokenizer, config: &GptConfig) -> anyhow::Result<Vec<u32>> {
    let tokens = tokenizer.encode(text)?;
    let context = config.context_length;
    if tokens.is_empty() || tokens.len() > context {
        bail!("the text has {} tokens, and the model reads 1 to {context}", tokens.len());
    }
    Ok(tokens)
}

/// The label of a token in a table. One that the tokenizer does not have, since the model's vocabulary is larger, is shown
/// by its id.
pub fn token_label(tokenizer: &Tokenizer, token: u32) -> String {
    tokenizer.token(token).map_or_else(|| format!("⟨{token}⟩"), |text| label_within(text, LABEL_COLUMNS))
}
