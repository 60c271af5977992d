//! To find: the letter before this one. Each line is a made-up name of two to four syllables,
//!
//! ```text
//! Balesdo
//! Timrasuk
//! ```
//!
//! and a syllable is a consonant, a vowel and the coda that goes with this pair and no other: if `ba` ends in `l`, it
//! never ends in `r`. So a vowel alone does not tell what follows it; the vowel and the consonant before it do. A head
//! that attends to the position before (the first half of every induction circuit) pays off within a few hundred steps.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

const ONSETS: [&str; 16] = ["b", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z"];
const VOWELS: [&str; 5] = ["a", "e", "i", "o", "u"];
const CODAS: [&str; 7] = ["", "l", "m", "n", "r", "s", ""];

pub(super) fn document(generator: &mut ChaCha8Rng, text: &mut String) {
    let syllables = generator.random_range(2..=4);
    text.push_str(&name(generator, syllables));
    text.push('\n');
}

/// A capitalised name of that many syllables.
pub(super) fn name(generator: &mut ChaCha8Rng, syllables: usize) -> String {
    let mut name = String::new();
    for _ in 0..syllables {
        let onset = generator.random_range(0..ONSETS.len());
        let vowel = generator.random_range(0..VOWELS.len());
        // Neither factor shares a divisor with the number of codas, so that onset and vowel both matter.
        let coda = (3 * onset + 5 * vowel) % CODAS.len();
        name.extend([ONSETS[onset], VOWELS[vowel], CODAS[coda]]);
    }
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    name
}

#[cfg(test)]
mod tests {
    use crate::data::corpus::find;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_line_is_one_capitalised_name_and_few_names_recur() {
        let text = find("names").unwrap().generate(1, 20_000);
        for name in text.lines() {
            assert!((4..=12).contains(&name.len()), "{name}");
            assert!(name.starts_with(|letter: char| letter.is_ascii_uppercase()), "{name}");
            assert!(name[1..].chars().all(|letter| letter.is_ascii_lowercase()), "{name}");
        }
        let (all, distinct) = (text.lines().count(), text.lines().collect::<BTreeSet<_>>().len());
        assert!(distinct * 10 > all * 8, "{distinct} of {all}");
    }

    /// The entropy in nats of the letter at distance 0 given those before it, `context` of them.
    fn entropy(text: &str, context: usize) -> f64 {
        let letters: Vec<char> = text.to_lowercase().chars().collect();
        let mut counts: BTreeMap<&[char], BTreeMap<char, f64>> = BTreeMap::new();
        for window in letters.windows(context + 1) {
            *counts.entry(&window[..context]).or_default().entry(window[context]).or_default() += 1.0;
        }
        let total: f64 = counts.values().flat_map(BTreeMap::values).sum();
        let surprise = |next: &BTreeMap<char, f64>| -> f64 {
            let all: f64 = next.values().sum();
            next.values().map(|count| count * (all / count).ln()).sum()
        };
        counts.values().map(surprise).sum::<f64>() / total
    }

    #[test]
    fn the_letter_before_this_one_tells_much_of_what_comes_next() {
        let text = find("names").unwrap().generate(2, 200_000);
        let [none, this, before] = [0, 1, 2].map(|context| entropy(&text, context));
        assert!(this < none - 0.5, "{none} {this}");
        assert!(before < this - 0.5, "{this} {before}");
    }
}
