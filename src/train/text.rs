//! The text of a run: files or a built-in corpus, its tokenizer and its two parts.

use std::path::PathBuf;

use super::settings::Settings;
use crate::data::corpus::{self, UnknownCorpus};
use crate::data::reference_loss::{ReferenceLossError, ReferenceLosses};
use crate::data::split::{SplitError, split};
use crate::data::text::{TextError, read_files};
use crate::data::tokenizer::{Tokenizer, TokenizerError};
use crate::fingerprint::Fingerprint;
use crate::model::checkpoint::TOKENIZER_LIMIT;

/// The prefix that names a built-in corpus.
const BUILTIN: &str = "builtin:";

/// Why there is nothing to train on.
#[derive(Debug, thiserror::Error)]
pub enum TrainingTextError {
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Corpus(#[from] UnknownCorpus),
    #[error("--data mixes a built-in corpus with other text: give one builtin:NAME, or files")]
    Mixed,
    #[error("--data is empty: give builtin:NAME, or files")]
    Nothing,
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    Split(#[from] SplitError),
    #[error(transparent)]
    Reference(#[from] ReferenceLossError),
    #[error(
        "the vocabulary of the text takes {bytes} bytes as tokenizer.json, of which {TOKENIZER_LIMIT} are read back: \
         --tokens char makes a shorter one"
    )]
    VocabularyTooLong { bytes: u64 },
    #[error("the vocabulary of the text is not the one the run began with: {difference}")]
    Vocabulary { difference: String },
    #[error(
        "the text is not the one the run began with (same vocabulary, other contents): give the same --data, or start a new run"
    )]
    Changed,
}

/// The built-in corpus that is asked for, if one is.
fn named_corpus(settings: &Settings) -> Option<&str> {
    settings.data.iter().find_map(|data| data.strip_prefix(BUILTIN))
}

/// Reads or makes the text.
fn read(settings: &Settings) -> Result<String, TrainingTextError> {
    match (named_corpus(settings), settings.data.len()) {
        (_, 0) => Err(TrainingTextError::Nothing),
        (Some(name), 1) => {
            let bytes = usize::try_from(settings.corpus_bytes).unwrap_or(usize::MAX);
            Ok(corpus::find(name)?.generate(settings.seed, bytes))
        }
        (Some(_), _) => Err(TrainingTextError::Mixed),
        (None, _) => Ok(read_files(&settings.data.iter().map(PathBuf::from).collect::<Vec<_>>())?),
    }
}

/// How many tokens a model of these settings' text knows.
///
/// # Errors
/// A file that cannot be read or is no UTF-8, an unknown corpus.
pub fn vocabulary_size(settings: &Settings) -> Result<usize, TrainingTextError> {
    Ok(Tokenizer::from_text(settings.tokens, &read(settings)?)?.vocabulary_size())
}

/// What a run trains on.
pub struct TrainingText {
    pub tokenizer: Tokenizer,
    pub training: Vec<u32>,
    /// The end of the text, held out.
    pub validation: Vec<u32>,
    pub references: ReferenceLosses,
    pub fingerprint: String,
    /// The built-in corpus it comes from, if it does.
    pub corpus: Option<String>,
}

impl TrainingText {
    /// Reads or makes the text, tokenizes it and splits it.
    ///
    /// # Errors
    /// A file that cannot be read or is no UTF-8, an unknown corpus, too little text.
    pub fn load(settings: &Settings) -> Result<Self, TrainingTextError> {
        let corpus = named_corpus(settings);
        let text = read(settings)?;
        let tokenizer = Tokenizer::from_text(settings.tokens, &text)?;
        // A model whose tokenizer cannot be read back would be lost.
        let bytes = tokenizer.json_length();
        if bytes > TOKENIZER_LIMIT {
            return Err(TrainingTextError::VocabularyTooLong { bytes });
        }
        let tokens = tokenizer.encode(&text)?;
        let split = split(&tokens, settings.validation_fraction, settings.context_length)?;
        let references = ReferenceLosses::new(split.training, split.validation, tokenizer.vocabulary_size())?;
        let (training, validation) = (split.training.to_vec(), split.validation.to_vec());
        let fingerprint = Fingerprint::of(text.as_bytes()).to_string();
        Ok(Self { tokenizer, training, validation, references, fingerprint, corpus: corpus.map(str::to_string) })
    }

    /// Refuses a text other than the one a checkpoint was trained on, and says what differs.
    ///
    /// # Errors
    /// [`TrainingTextError::Vocabulary`] with what was added and is missing, [`TrainingTextError::Changed`] otherwise.
    pub fn check_same(&self, tokenizer: &Tokenizer, fingerprint: &str) -> Result<(), TrainingTextError> {
        let difference = tokenizer.difference(&self.tokenizer);
        if !difference.is_empty() {
            return Err(TrainingTextError::Vocabulary { difference: difference.to_string() });
        }
        if self.fingerprint == fingerprint { Ok(()) } else { Err(TrainingTextError::Changed) }
    }
}
