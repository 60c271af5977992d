//! From logits to a token: temperature, top-k and a keyed draw.

use rand::RngExt;

use crate::random::{Stream, generator};

/// How tokens are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divides the logits; 0 takes the most likely token.
    pub temperature: f64,
    /// Only the `k` most likely tokens are drawn from; `None` for all.
    pub top_k: Option<usize>,
    pub seed: u64,
}

/// What a sampler cannot do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SamplingError {
    #[error("temperature {0} is refused: 0 takes the most likely token, larger numbers draw more freely")]
    Temperature(f64),
    #[error("top-k 0 leaves no token to draw: 1 is the least, leave it out to draw from all")]
    TopK,
    #[error("the model's logits are not finite at position {position}: its weights, or its attention, are damaged")]
    NotFinite { position: usize },
}

impl Sampling {
    /// Refuses a temperature below 0 or not finite, and a top-k of 0.
    ///
    /// # Errors
    /// Which of the two, and what would be right.
    pub fn validate(&self) -> Result<(), SamplingError> {
        if !self.temperature.is_finite() || self.temperature < 0.0 {
            return Err(SamplingError::Temperature(self.temperature));
        }
        if self.top_k == Some(0) { Err(SamplingError::TopK) } else { Ok(()) }
    }

    /// Draws a token from the logits of one position. `stream` tells samples apart, `position` the tokens of one.
    ///
    /// # Errors
    /// [`SamplingError::NotFinite`] where a logit is NaN or none is above minus infinity.
    pub fn draw(&self, logits: &[f32], stream: u64, position: usize) -> Result<u32, SamplingError> {
        let broken = SamplingError::NotFinite { position };
        if logits.iter().any(|logit| logit.is_nan() || *logit == f32::INFINITY) {
            return Err(broken);
        }
        // Most likely first; equal logits in the order of their ids, so that greedy text never depends on a sort.
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        order.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
        let Some(&first) = order.first() else { return Err(broken) };
        let largest = f64::from(logits[first as usize]);
        if largest == f64::NEG_INFINITY {
            return Err(broken);
        }
        if self.temperature == 0.0 {
            return Ok(first);
        }
        order.truncate(self.top_k.unwrap_or(order.len()));
        let weight = |token: u32| ((f64::from(logits[token as usize]) - largest) / self.temperature).exp();
        let total: f64 = order.iter().map(|&token| weight(token)).sum();
        let mut rest = generator(self.seed, Stream::Sampling, stream, position as u64).random::<f64>() * total;
        for &token in &order {
            rest -= weight(token);
            if rest < 0.0 {
                return Ok(token);
            }
        }
        Ok(order[order.len() - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 4] = [0.0, 3.0, 3.0, f32::NEG_INFINITY];

    fn sampling(temperature: f64, top_k: Option<usize>, seed: u64) -> Sampling {
        Sampling { temperature, top_k, seed }
    }

    #[test]
    fn temperature_zero_takes_the_first_of_the_most_likely_whatever_the_seed() {
        for seed in 0..5 {
            assert_eq!(sampling(0.0, None, seed).draw(&LOGITS, 0, 0), Ok(1));
        }
    }

    #[test]
    fn settings_that_cannot_draw_are_refused_and_a_large_top_k_is_none() {
        assert_eq!(sampling(-1.0, None, 0).validate(), Err(SamplingError::Temperature(-1.0)));
        assert!(sampling(f64::NAN, None, 0).validate().is_err());
        assert_eq!(sampling(1.0, Some(0), 0).validate(), Err(SamplingError::TopK));
        let draw = |top_k, position| sampling(1.0, top_k, 7).draw(&LOGITS, 0, position);
        assert!((0..50).all(|position| draw(Some(500), position) == draw(None, position)));
    }

    #[test]
    fn draws_follow_the_probabilities_and_never_take_what_is_impossible_or_cut_off() {
        let mut counts = [0; 4];
        for position in 0..4000 {
            counts[sampling(1.0, None, 3).draw(&LOGITS, 1, position).unwrap() as usize] += 1;
        }
        // exp(0) : exp(3) is 1 : 20.1
        assert!((60..140).contains(&counts[0]) && counts[3] == 0, "{counts:?}");
        assert!((1700..2200).contains(&counts[1]) && (1700..2200).contains(&counts[2]), "{counts:?}");
        assert!((0..200).all(|position| sampling(9.0, Some(2), 3).draw(&LOGITS, 1, position).unwrap() != 0));
    }

    #[test]
    fn damaged_logits_are_an_error_and_not_a_token() {
        for logits in [[f32::NAN, 1.0], [f32::INFINITY, 1.0], [f32::NEG_INFINITY; 2]] {
            assert_eq!(sampling(1.0, None, 0).draw(&logits, 0, 9), Err(SamplingError::NotFinite { position: 9 }));
        }
    }
}
