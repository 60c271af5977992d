//! Stateless randomness: every draw is keyed by (seed, stream, step, index), so a resumed run needs only its step.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// What a sequence of draws is for. Two streams of one seed share nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Initial weights; `index` counts the parameters.
    Initialisation = 1,
    /// Offsets of training windows; `index` is the sample within its optimizer step.
    Batches = 2,
    /// Tokens drawn while sampling; `step` is the sample, `index` the position.
    Sampling = 3,
    /// Built-in corpora; `index` counts the documents.
    Corpus = 4,
    /// Inputs of parity cases; `index` is the tensor.
    Cases = 5,
    /// Tokens that take the place of later ones; `step` is the round, `index` the row.
    Causality = 6,
    /// The order in which benches take their rows; `step` is the round, `index` tells apart what is ordered.
    BenchOrder = 7,
}

/// A generator for one draw site. The four numbers are the ChaCha key itself, so distinct sites never collide.
pub fn generator(seed: u64, stream: Stream, step: u64, index: u64) -> ChaCha8Rng {
    let mut key = [0u8; 32];
    for (slot, word) in key.chunks_exact_mut(8).zip([seed, stream as u64, step, index]) {
        slot.copy_from_slice(&word.to_le_bytes());
    }
    ChaCha8Rng::from_seed(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn every_part_of_the_key_changes_the_draw_and_equal_keys_repeat_it() {
        let draw = |seed, stream, step, index| generator(seed, stream, step, index).next_u64();
        let base = draw(1, Stream::Batches, 2, 3);
        assert_eq!(base, draw(1, Stream::Batches, 2, 3));
        for other in [
            draw(2, Stream::Batches, 2, 3),
            draw(1, Stream::Corpus, 2, 3),
            draw(1, Stream::Batches, 3, 3),
            draw(1, Stream::Batches, 2, 4),
        ] {
            assert_ne!(base, other);
        }
    }
}
