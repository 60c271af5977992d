//! Windows of tokens with their targets: at random for training, each position once for evaluation.

use rand::RngExt;
use thiserror::Error;

use crate::random::{self, Stream};

/// The target of a position that has none: its loss and gradient are left out. Never a token id.
pub const IGNORE: u32 = u32::MAX;

/// Why a batch could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BatchError {
    #[error("a batch of {batch} windows of {context_length} tokens is empty: both numbers must be at least 1")]
    Empty { batch: usize, context_length: usize },
    #[error("a batch of {batch} windows of {context_length} tokens does not fit into memory: make one of them smaller")]
    TooLarge { batch: usize, context_length: usize },
    #[error("no window of {context_length} tokens and the token after it: have {have} tokens, need more than that")]
    TooFewTokens { have: usize, context_length: usize },
    #[error("sample {first_sample} plus {batch} more passes the largest number of a sample")]
    TooManySamples { first_sample: u64, batch: usize },
}

/// Rows of tokens and, for each position, the token that comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Rows, `B`.
    pub batch: usize,
    /// Positions of a row, `T`.
    pub context_length: usize,
    /// Token ids, `[B, T]`.
    pub inputs: Vec<u32>,
    /// Token ids or [`IGNORE`], `[B, T]`.
    pub targets: Vec<u32>,
}

impl Batch {
    fn empty(batch: usize, context_length: usize) -> Result<Self, BatchError> {
        let elements = match batch.checked_mul(context_length) {
            Some(elements @ 1..) => elements,
            Some(0) => return Err(BatchError::Empty { batch, context_length }),
            None => return Err(BatchError::TooLarge { batch, context_length }),
        };
        let (mut inputs, mut targets) = (Vec::new(), Vec::new());
        for tokens in [&mut inputs, &mut targets] {
            tokens.try_reserve_exact(elements).map_err(|_| BatchError::TooLarge { batch, context_length })?;
        }
        Ok(Self { batch, context_length, inputs, targets })
    }

    /// The positions that have a target: the number to divide a sum of losses by.
    pub fn predictions(&self) -> usize {
        self.targets.iter().filter(|&&target| target != IGNORE).count()
    }
}

/// `batch` windows of `tokens` at offsets drawn uniformly from all that leave room for the targets, as in nanoGPT.
///
/// `first_sample` is the index of the first window among all windows of optimizer step `step`. Each window's offset is
/// drawn from (seed, step, its index) alone, so that one batch of 8 and four batches of 2 (whose first samples are 0,
/// 2, 4, 6) hold the same windows.
///
/// Fails on an empty batch, one too large to allocate, and fewer than `context_length + 1` tokens.
pub fn training_batch(
    tokens: &[u32],
    batch: usize,
    context_length: usize,
    seed: u64,
    step: u64,
    first_sample: u64,
) -> Result<Batch, BatchError> {
    let mut windows = Batch::empty(batch, context_length)?;
    let offsets = match tokens.len().checked_sub(context_length) {
        Some(offsets @ 1..) => offsets,
        _ => return Err(BatchError::TooFewTokens { have: tokens.len(), context_length }),
    };
    let end = u64::try_from(batch).ok().and_then(|batch| first_sample.checked_add(batch));
    let end = end.ok_or(BatchError::TooManySamples { first_sample, batch })?;
    for sample in first_sample..end {
        let offset = random::generator(seed, Stream::Batches, step, sample).random_range(0..offsets);
        windows.inputs.extend_from_slice(&tokens[offset..offset + context_length]);
        windows.targets.extend_from_slice(&tokens[offset + 1..offset + 1 + context_length]);
    }
    Ok(windows)
}

/// The batches of an evaluation, made one at a time; each has the shape `[batch, context_length]`.
#[derive(Clone, Debug)]
pub struct EvaluationBatches<'a> {
    tokens: &'a [u32],
    batch: usize,
    context_length: usize,
    /// Batches that cover the tokens.
    total: usize,
    /// How many of them are given, and how many have been.
    count: usize,
    given: usize,
}

/// Batches in which each token but the first is a target exactly once: the windows of `context_length` tokens that
/// follow one another without overlap. The end of the last window and the rows that the last batch lacks are filled up
/// with token 0 and the target [`IGNORE`]. Fewer than two tokens have no batch.
///
/// Fails on an empty batch and on one too large to allocate.
pub fn evaluation_batches(
    tokens: &[u32],
    batch: usize,
    context_length: usize,
) -> Result<EvaluationBatches<'_>, BatchError> {
    Batch::empty(batch, context_length)?;
    let total = tokens.len().saturating_sub(1).div_ceil(context_length).div_ceil(batch);
    Ok(EvaluationBatches { tokens, batch, context_length, total, count: total, given: 0 })
}

impl EvaluationBatches<'_> {
    /// At most `most` of the batches, spread evenly over the tokens from the first batch on.
    pub fn at_most(self, most: usize) -> Self {
        Self { count: self.total.min(most), given: 0, ..self }
    }

    /// The batch that starts at token `index * batch * context_length`; windows that follow one another fill its rows.
    fn at(&self, index: usize) -> Batch {
        let elements = self.batch * self.context_length;
        let rest = &self.tokens[index * elements..];
        let predicted = elements.min(rest.len() - 1);
        let (mut inputs, mut targets) = (rest[..predicted].to_vec(), rest[1..=predicted].to_vec());
        inputs.resize(elements, 0);
        targets.resize(elements, IGNORE);
        Batch { batch: self.batch, context_length: self.context_length, inputs, targets }
    }
}

impl Iterator for EvaluationBatches<'_> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        if self.given == self.count {
            return None;
        }
        // The quotient is below `total`, so it fits.
        let index = (self.given as u128 * self.total as u128 / self.count as u128) as usize;
        self.given += 1;
        Some(self.at(index))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.count - self.given;
        (left, Some(left))
    }
}

impl ExactSizeIterator for EvaluationBatches<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tokens(count: u32) -> Vec<u32> {
        (0..count).collect()
    }

    #[test]
    fn targets_are_the_tokens_after_the_inputs_in_windows_of_the_text() {
        let batch = training_batch(&tokens(1_003), 5, 64, 1, 2, 3).unwrap();
        assert_eq!((batch.batch, batch.context_length, batch.inputs.len(), batch.predictions()), (5, 64, 320, 320));
        for (inputs, targets) in batch.inputs.chunks(64).zip(batch.targets.chunks(64)) {
            assert_eq!(inputs, (inputs[0]..inputs[0] + 64).collect::<Vec<_>>());
            assert_eq!(targets, (inputs[0] + 1..inputs[0] + 65).collect::<Vec<_>>());
            assert!(targets[63] <= 1_002);
        }
    }

    #[test]
    fn one_batch_of_eight_and_four_of_two_hold_the_same_windows() {
        let tokens = tokens(10_000);
        for step in [0, 1, u64::MAX] {
            let whole = training_batch(&tokens, 8, 16, 7, step, 0).unwrap();
            let parts: Vec<Batch> =
                [0, 2, 4, 6].map(|first| training_batch(&tokens, 2, 16, 7, step, first).unwrap()).into();
            let joined = |side: fn(&Batch) -> &Vec<u32>| parts.iter().flat_map(side).copied().collect::<Vec<_>>();
            assert_eq!(whole.inputs, joined(|part| &part.inputs));
            assert_eq!(whole.targets, joined(|part| &part.targets));
        }
    }

    #[test]
    fn a_batch_repeats_exactly_and_seed_step_and_sample_change_it() {
        let tokens = tokens(10_000);
        let inputs = |seed, step, sample| training_batch(&tokens, 4, 8, seed, step, sample).unwrap().inputs;
        assert_eq!(inputs(1, 2, 3), inputs(1, 2, 3));
        for other in [inputs(2, 2, 3), inputs(1, 3, 3), inputs(1, 2, 7)] {
            assert_ne!(inputs(1, 2, 3), other);
        }
    }

    #[test]
    fn every_offset_that_leaves_room_for_the_targets_is_drawn_about_equally_often() {
        let batch = training_batch(&tokens(12), 10_000, 3, 5, 0, 0).unwrap();
        let mut counts = [0; 9];
        for inputs in batch.inputs.chunks(3) {
            counts[inputs[0] as usize] += 1;
        }
        assert!(counts.iter().all(|count| (950..1_280).contains(count)), "{counts:?}");
    }

    #[test]
    fn sixty_five_tokens_are_exactly_one_window_of_sixty_four() {
        let tokens = tokens(65);
        let batch = training_batch(&tokens, 2, 64, 0, 0, 0).unwrap();
        assert_eq!(batch.inputs, [&tokens[..64], &tokens[..64]].concat());
        let batches: Vec<Batch> = evaluation_batches(&tokens, 1, 64).unwrap().collect();
        assert_eq!(batches.len(), 1);
        assert_eq!((&batches[0].inputs[..], &batches[0].targets[..]), (&tokens[..64], &tokens[1..]));
    }

    #[test]
    fn impossible_batches_are_refused_with_their_numbers() {
        let tokens = tokens(64);
        let empty = |batch, context_length| BatchError::Empty { batch, context_length };
        let large = |batch, context_length| BatchError::TooLarge { batch, context_length };
        for (batch, length, first, error) in [
            (0, 8, 0, empty(0, 8)),
            (8, 0, 0, empty(8, 0)),
            (usize::MAX, 2, 0, large(usize::MAX, 2)),
            (usize::MAX / 2, 1, 0, large(usize::MAX / 2, 1)),
            (1, 64, 0, BatchError::TooFewTokens { have: 64, context_length: 64 }),
            (1, 65, 0, BatchError::TooFewTokens { have: 64, context_length: 65 }),
            (2, 8, u64::MAX, BatchError::TooManySamples { first_sample: u64::MAX, batch: 2 }),
        ] {
            assert_eq!(training_batch(&tokens, batch, length, 0, 0, first), Err(error));
            assert!(!error.to_string().contains('\n'));
        }
        assert_eq!(evaluation_batches(&tokens, 0, 8).err(), Some(empty(0, 8)));
        assert_eq!(evaluation_batches(&tokens, 8, 0).err(), Some(empty(8, 0)));
        assert_eq!(evaluation_batches(&tokens, usize::MAX, 2).err(), Some(large(usize::MAX, 2)));
    }

    #[test]
    fn the_end_of_the_text_and_missing_rows_are_filled_with_ignored_targets() {
        let tokens = [5, 6, 7, 8, 9, 10];
        let batches: Vec<Batch> = evaluation_batches(&tokens, 2, 2).unwrap().collect();
        let shape = |inputs: [u32; 4], targets: [u32; 4]| Batch {
            batch: 2,
            context_length: 2,
            inputs: inputs.into(),
            targets: targets.into(),
        };
        let expected = [shape([5, 6, 7, 8], [6, 7, 8, 9]), shape([9, 0, 0, 0], [10, IGNORE, IGNORE, IGNORE])];
        assert_eq!(batches, expected);
        assert_eq!(batches[1].predictions(), 1);
    }

    #[test]
    fn fewer_than_two_tokens_have_no_evaluation_batch() {
        for count in [0, 1] {
            assert_eq!(evaluation_batches(&tokens(count), 2, 8).unwrap().count(), 0);
            assert_eq!(evaluation_batches(&tokens(count), 2, 8).unwrap().at_most(3).count(), 0);
        }
    }

    #[test]
    fn a_limited_evaluation_spreads_over_the_text() {
        let tokens = tokens(101);
        for (most, starts) in [
            (0, &[][..]),
            (1, &[0]),
            (2, &[0, 50]),
            (3, &[0, 30, 60]),
            (10, &[0, 10, 20, 30, 40, 50, 60, 70, 80, 90]),
            (usize::MAX, &[0, 10, 20, 30, 40, 50, 60, 70, 80, 90]),
        ] {
            let batches = evaluation_batches(&tokens, 2, 5).unwrap().at_most(most);
            assert_eq!(batches.len(), starts.len());
            assert_eq!(batches.map(|batch| batch.inputs[0]).collect::<Vec<_>>(), starts);
        }
    }

    proptest! {
        #[test]
        fn an_evaluation_predicts_each_token_but_the_first_exactly_once(
            count in 0u32..400, batch in 1usize..9, context_length in 1usize..70,
        ) {
            let tokens = tokens(count);
            let mut predicted = Vec::new();
            for rows in evaluation_batches(&tokens, batch, context_length).unwrap() {
                prop_assert_eq!((rows.batch, rows.context_length), (batch, context_length));
                prop_assert_eq!((rows.inputs.len(), rows.targets.len()), (batch * context_length, batch * context_length));
                prop_assert!(rows.predictions() > 0);
                for (input, target) in rows.inputs.iter().zip(&rows.targets) {
                    if *target != IGNORE {
                        prop_assert_eq!(input + 1, *target);
                        predicted.push(*target);
                    }
                }
            }
            prop_assert_eq!(predicted, (1..count.max(1)).collect::<Vec<_>>());
        }
    }
}
