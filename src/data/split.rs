//! The tokens to learn from and the tokens to be measured on.

use std::fmt;

use thiserror::Error;

/// One of the two parts of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Training,
    Validation,
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Part::Training => "training",
            Part::Validation => "validation",
        })
    }
}

/// Why a text could not be split.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SplitError {
    #[error("the validation fraction is {fraction}: a number from 0 (no validation) to below 1 is needed")]
    Fraction { fraction: f64 },
    #[error("the context length is {context_length}: at least 1 is needed, and at most {}", usize::MAX - 1)]
    ContextLength { context_length: usize },
    #[error(
        "no room for one window in the training split: have {have} tokens in the whole text, need {need} \
         (context length {context_length} and the token after it){works}"
    )]
    TextTooShort { have: usize, need: usize, context_length: usize, works: Remedy },
    #[error(
        "no room for one window in the {part} split: have {have} of the text's {total} tokens, need {need} \
         (context length {context_length} and the token after it){works}"
    )]
    PartTooShort { part: Part, have: usize, total: usize, need: usize, context_length: usize, works: Remedy },
}

/// Changes that would make a split possible, each by itself; those that cannot are `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remedy {
    /// The longest context length for which the two parts have room.
    pub context_length: Option<usize>,
    /// The length of the shortest text that has room for this context length.
    pub tokens: Option<usize>,
    /// The validation fraction in hundredths, nearest to the one asked for, that leaves room for this context length.
    pub fraction: Option<f64>,
}

impl fmt::Display for Remedy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ways = [
            self.tokens.map(|tokens| format!("a text of at least {tokens} tokens")),
            self.context_length.map(|length| format!("a context length of at most {length}")),
            self.fraction.map(|fraction| format!("a validation fraction of {fraction}")),
        ];
        let ways: Vec<String> = ways.into_iter().flatten().collect();
        match ways.is_empty() {
            true => Ok(()),
            false => write!(formatter, "; {} would do", ways.join(", or ")),
        }
    }
}

/// A text's tokens in two parts, in the text's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split<'a> {
    pub training: &'a [u32],
    /// The end of the text; empty if no validation was asked for.
    pub validation: &'a [u32],
}

/// Splits off the last `validation_fraction` of `tokens` (0 for no validation, else above 0 and below 1); the training
/// part is rounded down, as nanoGPT does.
///
/// Fails if a part that was asked for has fewer than `context_length + 1` tokens, the least that make one window with
/// a target for each position.
pub fn split(tokens: &[u32], validation_fraction: f64, context_length: usize) -> Result<Split<'_>, SplitError> {
    if !(0.0..1.0).contains(&validation_fraction) {
        return Err(SplitError::Fraction { fraction: validation_fraction });
    }
    let need = match context_length.checked_add(1) {
        Some(need @ 2..) => need,
        _ => return Err(SplitError::ContextLength { context_length }),
    };
    let total = tokens.len();
    let [training, validation] = part_lengths(total, validation_fraction);
    let too_short = |have| have < need;
    if too_short(training) || (validation_fraction > 0.0 && too_short(validation)) {
        let works = remedy(total, validation_fraction, need);
        return Err(match too_short(total) {
            true => SplitError::TextTooShort { have: total, need, context_length, works },
            false => {
                let (part, have) = match too_short(training) {
                    true => (Part::Training, training),
                    false => (Part::Validation, validation),
                };
                SplitError::PartTooShort { part, have, total, need, context_length, works }
            }
        });
    }
    let (training, validation) = tokens.split_at(training);
    Ok(Split { training, validation })
}

/// The lengths of training and validation.
fn part_lengths(total: usize, validation_fraction: f64) -> [usize; 2] {
    // A product that is a whole number but for rounding must not lose one.
    let training = (total as f64 * (1.0 - validation_fraction) + 1e-6).floor() as usize;
    let training = if validation_fraction == 0.0 { total } else { training.min(total) };
    [training, total - training]
}

fn remedy(total: usize, validation_fraction: f64, need: usize) -> Remedy {
    let shorter_part = |total, fraction| {
        let [training, validation] = part_lengths(total, fraction);
        if fraction > 0.0 { training.min(validation) } else { training }
    };
    let has_room = |total, fraction| shorter_part(total, fraction) >= need;

    let context_length = shorter_part(total, validation_fraction).checked_sub(1).filter(|&length| length >= 1);

    // The shorter part grows with the text: double until there is room, then halve the interval.
    let mut enough = Some(need);
    while let Some(tokens) = enough.filter(|&tokens| !has_room(tokens, validation_fraction)) {
        enough = tokens.checked_mul(2);
    }
    let tokens = enough.map(|mut enough| {
        let mut too_few = need - 1;
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            match has_room(middle, validation_fraction) {
                true => enough = middle,
                false => too_few = middle,
            }
        }
        enough
    });

    let fraction = (1..100)
        .map(|hundredths| f64::from(hundredths) / 100.0)
        .filter(|&fraction| validation_fraction > 0.0 && has_room(total, fraction))
        .min_by(|left, right| (left - validation_fraction).abs().total_cmp(&(right - validation_fraction).abs()));

    Remedy { context_length, tokens, fraction }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(count: usize) -> Vec<u32> {
        (0..).take(count).collect()
    }

    #[test]
    fn validation_is_the_end_of_the_text_and_training_is_rounded_down() {
        for (total, fraction, training) in [
            (1_115_394, 0.1, 1_003_854),
            (1_000, 0.1, 900),
            (1_003, 0.1, 902),
            (10, 0.9, 1),
            (10, 0.7, 3),
            (10, 0.0, 10),
        ] {
            assert_eq!(part_lengths(total, fraction), [training, total - training], "{total} {fraction}");
        }
        let tokens = tokens(1_003);
        let split = split(&tokens, 0.1, 64).unwrap();
        assert_eq!([split.training, split.validation].concat(), tokens);
        assert_eq!(split.training.len(), 902);
    }

    #[test]
    fn a_part_of_exactly_one_window_is_enough_and_one_token_less_is_not() {
        for (total, fraction, context_length, fine) in [
            (650, 0.1, 64, true),
            (649, 0.1, 64, true),
            (640, 0.1, 64, false),
            (130, 0.5, 64, true),
            (129, 0.5, 64, false),
            (650, 0.9, 64, true),
            (649, 0.9, 64, false),
            (65, 0.0, 64, true),
            (64, 0.0, 64, false),
            (4, 0.5, 1, true),
            (3, 0.5, 1, false),
        ] {
            assert_eq!(split(&tokens(total), fraction, context_length).is_ok(), fine, "{total} {fraction}");
        }
    }

    #[test]
    fn too_short_a_part_is_named_with_its_numbers_and_what_would_do() {
        for (total, fraction, context_length, message) in [
            (
                30,
                0.1,
                64,
                "no room for one window in the training split: have 30 tokens in the whole text, need 65 (context length \
                 64 and the token after it); a text of at least 641 tokens, or a context length of at most 2 would do",
            ),
            (
                600,
                0.1,
                64,
                "no room for one window in the validation split: have 60 of the text's 600 tokens, need 65 (context \
                 length 64 and the token after it); a text of at least 641 tokens, or a context length of at most 59, \
                 or a validation fraction of 0.11 would do",
            ),
            (
                600,
                0.9,
                64,
                "no room for one window in the training split: have 60 of the text's 600 tokens, need 65 (context length \
                 64 and the token after it); a text of at least 650 tokens, or a context length of at most 59, or a \
                 validation fraction of 0.89 would do",
            ),
            (
                30,
                0.0,
                64,
                "no room for one window in the training split: have 30 tokens in the whole text, need 65 (context length \
                 64 and the token after it); a text of at least 65 tokens, or a context length of at most 29 would do",
            ),
            (
                0,
                0.5,
                1,
                "no room for one window in the training split: have 0 tokens in the whole text, need 2 (context length 1 \
                 and the token after it); a text of at least 4 tokens would do",
            ),
        ] {
            assert_eq!(split(&tokens(total), fraction, context_length).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn every_remedy_works_and_is_the_nearest() {
        for (total, fraction, context_length) in
            [(30, 0.1, 64), (600, 0.1, 64), (600, 0.93, 64), (77, 0.31, 50), (2, 0.5, 1), (500, 0.001, 7), (9, 0.0, 9)]
        {
            let works = match split(&tokens(total), fraction, context_length).unwrap_err() {
                SplitError::TextTooShort { works, .. } | SplitError::PartTooShort { works, .. } => works,
                other => panic!("{other}"),
            };
            if let Some(length) = works.context_length {
                assert!(split(&tokens(total), fraction, length).is_ok());
                assert!(split(&tokens(total), fraction, length + 1).is_err());
            }
            let enough = works.tokens.unwrap();
            assert!(split(&tokens(enough), fraction, context_length).is_ok());
            assert!(split(&tokens(enough - 1), fraction, context_length).is_err());
            if let Some(fraction) = works.fraction {
                assert!(split(&tokens(total), fraction, context_length).is_ok());
            }
        }
    }

    #[test]
    fn fractions_and_context_lengths_that_mean_nothing_are_refused() {
        for fraction in [-0.1, 1.0, 1.5, f64::NAN, f64::INFINITY] {
            let message = split(&tokens(10), fraction, 1).unwrap_err().to_string();
            assert!(message.starts_with(&format!("the validation fraction is {fraction}: ")), "{message}");
        }
        for context_length in [0, usize::MAX] {
            let message = split(&tokens(10), 0.5, context_length).unwrap_err().to_string();
            assert!(message.starts_with(&format!("the context length is {context_length}: ")), "{message}");
        }
        assert!(split(&tokens(10), 0.1, usize::MAX - 1).is_err());
    }
}
