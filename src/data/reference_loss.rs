//! The losses of three models that need no training: lines to read a loss curve against.

use std::collections::HashMap;

use thiserror::Error;

/// Mean cross-entropy in nats a token on the validation tokens, the first of which nothing predicts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReferenceLosses {
    /// Every token equally likely: `ln V`.
    pub uniform: f64,
    /// Each token as frequent as in training, with one more of each (Laplace's rule): `p(b) = (n(b) + 1) / (n + V)`.
    pub unigram: f64,
    /// Each token given the one before it, with [`PRIOR`] tokens' worth of `p` for a prior:
    /// `p(b | a) = (n(a, b) + PRIOR p(b)) / (n(a) + PRIOR)`, the predictive probability of a Dirichlet prior around
    /// `p` (MacKay and Peto, "A hierarchical Dirichlet language model", 1995, section 4). Adding one to each pair
    /// instead would put the line above the unigram's where words are tokens.
    pub bigram: f64,
}

/// The weight of the unigram in the bigram, in tokens.
pub const PRIOR: f64 = 20.0;

/// Why there are no reference losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReferenceLossError {
    #[error("no reference losses: have {have} validation tokens, need 2 for one prediction")]
    NoPredictions { have: usize },
    #[error("no reference losses: the token {token} is not below the vocabulary size {vocabulary_size}")]
    OutsideVocabulary { token: u32, vocabulary_size: usize },
}

impl ReferenceLosses {
    /// Counts in `training` (which may be empty) and measures on `validation`. Takes memory for the different pairs in
    /// `training`, not for all.
    ///
    /// Fails on fewer than two validation tokens and on a token that is not below `vocabulary_size`.
    pub fn new(
        training: &[u32],
        validation: &[u32],
        vocabulary_size: usize,
    ) -> Result<ReferenceLosses, ReferenceLossError> {
        if validation.len() < 2 {
            return Err(ReferenceLossError::NoPredictions { have: validation.len() });
        }
        let outside = |token: u32| usize::try_from(token).map_or(true, |token| token >= vocabulary_size);
        if let Some(&token) = training.iter().chain(validation).find(|&&token| outside(token)) {
            return Err(ReferenceLossError::OutsideVocabulary { token, vocabulary_size });
        }

        let mut counts: HashMap<u32, f64> = HashMap::new();
        for &token in training {
            *counts.entry(token).or_default() += 1.0;
        }
        let mut pairs: HashMap<(u32, u32), f64> = HashMap::new();
        let mut starts: HashMap<u32, f64> = HashMap::new();
        for (&before, &token) in training.iter().zip(training.iter().skip(1)) {
            *pairs.entry((before, token)).or_default() += 1.0;
            *starts.entry(before).or_default() += 1.0;
        }

        let count = |counts: &HashMap<u32, f64>, token| counts.get(&token).copied().unwrap_or(0.0);
        let (mut unigram, mut bigram) = (0.0, 0.0);
        for (&before, &token) in validation.iter().zip(validation.iter().skip(1)) {
            let alone = (count(&counts, token) + 1.0) / (training.len() as f64 + vocabulary_size as f64);
            let pair = pairs.get(&(before, token)).copied().unwrap_or(0.0);
            let after = (pair + PRIOR * alone) / (count(&starts, before) + PRIOR);
            unigram += alone.recip().ln();
            bigram += after.recip().ln();
        }
        let predictions = (validation.len() - 1) as f64;
        Ok(Self {
            uniform: (vocabulary_size as f64).ln(),
            unigram: unigram / predictions,
            bigram: bigram / predictions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_texts_have_the_losses_worked_out_by_hand() {
        // Training a b a b a: n = 5, n(a) = 3, n(b) = 2; pairs ab 2, ba 2. V = 3. Validation: a b c.
        let losses = ReferenceLosses::new(&[0, 1, 0, 1, 0], &[0, 1, 2], 3).unwrap();
        let (b, c) = (3.0_f64 / 8.0, 1.0_f64 / 8.0);
        let (ab, bc) = ((2.0 + 20.0 * b) / 22.0, 20.0 * c / 22.0);
        for (loss, expected) in [
            (losses.uniform, 3.0_f64.ln()),
            (losses.unigram, -(b.ln() + c.ln()) / 2.0),
            (losses.bigram, -(ab.ln() + bc.ln()) / 2.0),
        ] {
            assert!((loss - expected).abs() < 1e-12, "{loss} {expected}");
        }
    }

    #[test]
    fn probabilities_after_any_token_sum_to_one() {
        let training = [0, 1, 2, 0, 0, 3, 1];
        // 4 never occurs in training, and 1 also ends it.
        for before in 0..5 {
            let sum = |loss: fn(&ReferenceLosses) -> f64| -> f64 {
                let each = (0..5).map(|token| ReferenceLosses::new(&training, &[before, token], 5).unwrap());
                each.map(|losses| (-loss(&losses)).exp()).sum()
            };
            assert!((sum(|losses| losses.unigram) - 1.0).abs() < 1e-12);
            assert!((sum(|losses| losses.bigram) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn a_vocabulary_of_one_token_costs_nothing() {
        let losses = ReferenceLosses::new(&[0; 40], &[0; 9], 1).unwrap();
        assert_eq!(losses, ReferenceLosses { uniform: 0.0, unigram: 0.0, bigram: 0.0 });
        assert_eq!(format!("{:.1}", losses.unigram), "0.0", "not -0.0");
    }

    #[test]
    fn tokens_that_training_never_saw_cost_a_finite_loss() {
        let losses = ReferenceLosses::new(&[], &[3, 1, 2, 0], 4).unwrap();
        for loss in [losses.uniform, losses.unigram, losses.bigram] {
            assert!((loss - 4.0_f64.ln()).abs() < 1e-12, "{loss}");
        }
    }

    #[test]
    fn texts_without_predictions_and_foreign_tokens_are_refused() {
        for (validation, vocabulary_size, message) in [
            (&[][..], 3, "no reference losses: have 0 validation tokens, need 2 for one prediction"),
            (&[1], 3, "no reference losses: have 1 validation tokens, need 2 for one prediction"),
            (&[1, 3], 3, "no reference losses: the token 3 is not below the vocabulary size 3"),
            (&[0, 0], 0, "no reference losses: the token 1 is not below the vocabulary size 0"),
        ] {
            let error = ReferenceLosses::new(&[1], validation, vocabulary_size).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
