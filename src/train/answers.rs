//! Whether a model of the coreference corpus answers right: after `smaller` or `larger` the noun must follow that the
//! story was about.

use super::text::TrainingText;
use super::trainer::{Trainer, TrainerError};
use crate::data::corpus::coreference::answers;

/// Answers that are looked at.
const STORIES: usize = 100;

/// Right answers, and answers looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score {
    pub right: usize,
    pub asked: usize,
}

impl std::fmt::Display for Score {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} of {} held-out stories end with the right noun", self.right, self.asked)
    }
}

/// Asks the model for the most likely noun in held-out stories; `None` where the text has no such stories.
///
/// # Errors
/// What the device reported.
pub async fn score(trainer: &Trainer, text: &TrainingText) -> Result<Option<Score>, TrainerError> {
    if text.corpus.as_deref() != Some("coreference") {
        return Ok(None);
    }
    let model = trainer.text_model();
    let config = &trainer.config;
    let mut score = Score { right: 0, asked: 0 };
    for window in text.validation.chunks(config.context_length) {
        let asked = answers(&text.tokenizer, window);
        if asked.is_empty() {
            continue;
        }
        let logits =
            model.logits(window).await.map_err(|source| TrainerError::Generation { step: trainer.step(), source })?;
        for answer in asked {
            let row = &logits[answer.position * config.vocabulary_size..][..config.vocabulary_size];
            let likeliest = row.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(token, _)| token);
            score.asked += 1;
            score.right += usize::from(likeliest == Some(answer.answer as usize));
        }
        if score.asked >= STORIES {
            break;
        }
    }
    Ok((score.asked > 0).then_some(score))
}
