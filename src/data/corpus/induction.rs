//! To find: what came before comes again. A row draws three chunks of three to eight letters, all letters of the row
//! different, and strings them together in random order, a separator after each:
//!
//! ```text
//! cs kqtx mbraw fcs kqtx kqtx mbraw fcs mbraw ...
//! ```
//!
//! Inside a chunk the letter that followed the current one earlier in the row
//! follows it again, and nothing else tells: the letters are drawn anew for each row. Two heads in two layers can do
//! it, one that looks at the token before and one that looks for the token after an earlier copy (the induction head of
//! Elhage et al., "A Mathematical Framework for Transformer Circuits", 2021). The chunks' lengths differ because chunks
//! of one length are copied by distance alone; a row starts at a random place in a chunk for the same reason.
//!
//! What cannot be known, and keeps the loss above zero: a chunk seen for the first time, and which chunk comes next.

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// 25 letters, so that three chunks of eight always find different ones.
const LETTERS: &[u8; 25] = b"abcdefghijklmnopqrstuvwxy";
const SEPARATOR: char = ' ';
const CHUNKS: usize = 3;
const SHORTEST: usize = 3;
const LONGEST: usize = 8;
/// Chunks in a row: some 156 characters, so that most windows of 48 lie within one row.
const REPETITIONS: usize = 24;

pub(super) fn document(generator: &mut ChaCha8Rng, text: &mut String) {
    let mut letters = LETTERS.map(char::from);
    letters.shuffle(generator);
    let mut rest = letters.iter();
    let chunks: [String; CHUNKS] =
        std::array::from_fn(|_| rest.by_ref().take(generator.random_range(SHORTEST..=LONGEST)).collect());

    let first = &chunks[generator.random_range(0..CHUNKS)];
    text.extend(first.chars().skip(generator.random_range(0..first.len())));
    for _ in 1..REPETITIONS {
        text.push(SEPARATOR);
        text.push_str(&chunks[generator.random_range(0..CHUNKS)]);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::corpus::find;
    use std::collections::{BTreeSet, HashMap};

    #[test]
    fn a_row_repeats_at_most_three_chunks_of_different_letters_and_lengths() {
        let text = find("induction").unwrap().generate(1, 100_000);
        let mut lengths = BTreeSet::new();
        for row in text.lines() {
            let pieces: Vec<&str> = row.split(SEPARATOR).collect();
            assert_eq!(pieces.len(), REPETITIONS);
            let chunks: BTreeSet<&str> = pieces[1..].iter().copied().collect();
            assert!((1..=CHUNKS).contains(&chunks.len()), "{row}");
            assert!(!pieces[0].is_empty());
            let letters: Vec<char> = chunks.iter().flat_map(|chunk| chunk.chars()).collect();
            assert_eq!(letters.len(), letters.iter().collect::<BTreeSet<_>>().len(), "{row}");
            lengths.extend(chunks.iter().map(|chunk| chunk.len()));
        }
        assert_eq!(lengths, (SHORTEST..=LONGEST).collect());
    }

    #[test]
    fn inside_a_row_a_letter_is_always_followed_as_it_was_before() {
        let text = find("induction").unwrap().generate(2, 50_000);
        for row in text.lines() {
            let mut followers = HashMap::new();
            for (letter, next) in row.chars().zip(row.chars().skip(1)).filter(|pair| pair.0 != SEPARATOR) {
                assert_eq!(*followers.entry(letter).or_insert(next), next, "{row}");
            }
        }
    }
}
