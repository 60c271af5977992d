//! To find: which of two nouns is meant. In
//!
//! ```text
//! The trophy would not fit in the suitcase because it was too large . We took a smaller trophy .
//! The trophy would not fit in the suitcase because it was too small . We took a larger suitcase .
//! ```
//!
//! the row to read is that of `smaller` or `larger`: it predicts the noun, and attention can fetch it from the first
//! sentence. The row of `it` cannot choose, for the adjective comes after it. Things and boxes are disjoint lists, so
//! the adjective already tells the noun's class: a model looks for the thing (or the box), not for a referent.
//!
//! The sentence pattern is that of the Winograd schemas (Levesque, Davis, Morgenstern, "The Winograd Schema Challenge",
//! 2012). Words and the newline are 51 tokens; a story is 21, newline included.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::pick;
use crate::data::tokenizer::Tokenizer;

/// What does not fit.
pub const THINGS: [&str; 16] = [
    "trophy",
    "guitar",
    "statue",
    "lamp",
    "clock",
    "kettle",
    "globe",
    "drum",
    "violin",
    "helmet",
    "pumpkin",
    "teapot",
    "puppet",
    "camera",
    "anchor",
    "telescope",
];

/// What it does not fit in.
pub const BOXES: [&str; 16] = [
    "suitcase", "drawer", "basket", "crate", "chest", "locker", "bag", "cabinet", "barrel", "bucket", "trunk", "case",
    "pouch", "sack", "carton", "cupboard",
];

pub(super) fn document(generator: &mut ChaCha8Rng, text: &mut String) {
    let (thing, place) = (pick(generator, &THINGS), pick(generator, &BOXES));
    let (size, remedy) = match generator.random_bool(0.5) {
        true => ("large", format!("smaller {thing}")),
        false => ("small", format!("larger {place}")),
    };
    text.push_str(&format!(
        "The {thing} would not fit in the {place} because it was too {size} . We took a {remedy} .\n"
    ));
}

/// A token of a story after which its answer comes, and where attention could fetch that answer. Positions are
/// indices into the tokens that were searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The position of `smaller` or `larger`: the row of attention and of logits to read.
    pub position: usize,
    /// The token that is right next: the thing after `smaller`, the box after `larger`.
    pub answer: u32,
    /// Where the right noun stands in the first sentence.
    pub right_noun: usize,
    /// The story's other noun, the distractor.
    pub distractor: u32,
    /// Where the distractor stands in the first sentence.
    pub wrong_noun: usize,
}

/// All answers in `tokens` (a text or a window of it) whose two nouns stand before them in the same story, in order.
/// The answer itself may lie beyond the end of `tokens`. Tokens of another text have none.
pub fn answers(tokenizer: &Tokenizer, tokens: &[u32]) -> Vec<Answer> {
    let ids = |words: &[&str]| words.iter().filter_map(|word| tokenizer.id(word)).collect::<Vec<u32>>();
    let (things, boxes) = (ids(&THINGS), ids(&BOXES));
    let [newline, smaller, larger] = ["\n", "smaller", "larger"].map(|word| tokenizer.id(word));

    let (mut thing, mut place) = (None, None);
    let mut found = Vec::new();
    for (position, &token) in tokens.iter().enumerate() {
        let is = |id: Option<u32>| id == Some(token);
        if is(newline) {
            (thing, place) = (None, None);
        } else if things.contains(&token) {
            thing = thing.or(Some((position, token)));
        } else if boxes.contains(&token) {
            place = place.or(Some((position, token)));
        } else if (is(smaller) || is(larger))
            && let (Some(thing), Some(place)) = (thing, place)
        {
            let (right, wrong) = if is(smaller) { (thing, place) } else { (place, thing) };
            found.push(Answer {
                position,
                answer: right.1,
                right_noun: right.0,
                distractor: wrong.1,
                wrong_noun: wrong.0,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::corpus::find;
    use crate::data::tokenizer::TokenKind;
    use std::collections::BTreeSet;

    #[test]
    fn words_are_fifty_one_tokens_and_the_two_lists_share_none() {
        assert_eq!(THINGS.iter().chain(&BOXES).collect::<BTreeSet<_>>().len(), 32);
        let text = find("coreference").unwrap().generate(1, 100_000);
        assert_eq!(Tokenizer::from_text(TokenKind::Word, &text).unwrap().vocabulary_size(), 51);
    }

    #[test]
    fn every_story_has_the_remedy_that_its_adjective_asks_for() {
        let text = find("coreference").unwrap().generate(2, 50_000);
        let mut large = 0;
        for story in text.lines() {
            let words: Vec<&str> = story.split(' ').collect();
            let (thing, place, size) = (words[1], words[7], words[12]);
            assert!(THINGS.contains(&thing) && BOXES.contains(&place), "{story}");
            let remedy = match size {
                "large" => format!("smaller {thing}"),
                "small" => format!("larger {place}"),
                _ => panic!("{story}"),
            };
            assert_eq!(
                story,
                format!("The {thing} would not fit in the {place} because it was too {size} . We took a {remedy} .")
            );
            large += usize::from(size == "large");
        }
        let stories = text.lines().count();
        assert!((stories * 2 / 5..stories * 3 / 5).contains(&large), "{large} of {stories}");
    }

    #[test]
    fn each_story_of_the_corpus_has_one_answer_and_it_is_the_next_token() {
        let text = find("coreference").unwrap().generate(3, 20_000);
        let tokenizer = Tokenizer::from_text(TokenKind::Word, &text).unwrap();
        let tokens = tokenizer.encode(&text).unwrap();
        let answers = answers(&tokenizer, &tokens);
        assert_eq!(answers.len(), text.lines().count());
        assert_eq!(tokens.len(), 21 * answers.len());
        for (story, answer) in answers.iter().enumerate() {
            assert_eq!(answer.position, 21 * story + 17);
            assert_eq!(tokens[answer.position + 1], answer.answer);
            assert_eq!(tokens[answer.right_noun], answer.answer);
            assert_eq!(tokens[answer.wrong_noun], answer.distractor);
            assert_ne!(answer.answer, answer.distractor);
            let nouns = BTreeSet::from([answer.right_noun, answer.wrong_noun]);
            assert_eq!(nouns, BTreeSet::from([21 * story + 1, 21 * story + 7]));
        }
    }

    #[test]
    fn windows_have_only_the_answers_whose_nouns_they_hold() {
        let text = "The lamp would not fit in the bag because it was too small . We took a larger bag .\n";
        let tokenizer = Tokenizer::from_text(TokenKind::Word, text).unwrap();
        let tokens = tokenizer.encode(&text.repeat(2)).unwrap();
        for (window, positions) in
            [(0..18, &[17][..]), (0..17, &[]), (1..42, &[16, 37]), (2..42, &[36]), (8..21, &[]), (0..0, &[])]
        {
            let found = answers(&tokenizer, &tokens[window]);
            assert_eq!(found.iter().map(|answer| answer.position).collect::<Vec<_>>(), positions);
        }
        let letters = Tokenizer::from_text(TokenKind::Char, text).unwrap();
        assert_eq!(answers(&letters, &letters.encode(text).unwrap()), []);
    }
}
