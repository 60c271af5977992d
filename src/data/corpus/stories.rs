//! To find: who the story is about. Two made-up names open each story and recur to its end,
//!
//! ```text
//! Once Balesdo and Timrasuk lived beside a quiet mill. "Is that the lamp (the one from the hill [the green hill])?" asked
//! Timrasuk. Balesdo had 4 apples and found 3 more. "So 4 + 3 = 7," said Balesdo.
//! ```
//!
//! and as names are hardly ever drawn twice, a model can only copy them from where they stood before; after their first
//! letter that is a sure thing. The rest is what a character model picks up beside it: words, quotes and brackets that
//! close in the order they opened, and sums that are right, each with the count that the last one left.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{names, pick};

const ADJECTIVES: [&str; 16] = [
    "old", "green", "quiet", "tall", "bright", "small", "round", "cold", "brown", "happy", "strange", "warm", "broken",
    "heavy", "soft", "dark",
];
const THINGS: [&str; 16] = [
    "lamp", "boat", "drum", "ladder", "kite", "coat", "key", "bell", "basket", "letter", "map", "wheel", "rope", "pot",
    "mirror", "flute",
];
const PLACES: [&str; 12] =
    ["mill", "river", "forest", "bridge", "garden", "tower", "harbour", "valley", "market", "barn", "lake", "hill"];
const COUNTED: [&str; 8] = ["apples", "shells", "coins", "pears", "stones", "nuts", "feathers", "buttons"];
const DEEDS: [&str; 10] =
    ["found", "carried", "dropped", "painted", "mended", "hid", "washed", "looked for", "asked about", "sat on"];
const MOVES: [&str; 8] = ["walked", "ran", "went back", "rode", "climbed", "hurried", "wandered", "sailed"];
const WEATHER: [&str; 6] =
    ["it was raining", "the sun was low", "a wind came up", "it was getting late", "snow fell", "the day was hot"];

/// The largest count that a sum may reach.
const MOST: u32 = 20;
/// How deep brackets in a noun phrase nest.
const NESTING: usize = 2;

pub(super) fn document(generator: &mut ChaCha8Rng, text: &mut String) {
    let [hero, friend] = std::array::from_fn(|_| names::name(generator, 3));
    let count = generator.random_range(2..=9);
    let mut story = Story { generator, hero, friend, counted: "", count };
    text.push_str(&story.opening());
    for _ in 0..story.generator.random_range(4..=8) {
        text.push(' ');
        text.push_str(&story.event());
    }
    text.push(' ');
    text.push_str(&story.ending());
    text.push('\n');
}

/// One story on its way: who it is about, and what was counted last.
struct Story<'a> {
    generator: &'a mut ChaCha8Rng,
    hero: String,
    friend: String,
    /// What the hero has `count` of; empty until the first sum tells.
    counted: &'static str,
    count: u32,
}

impl Story<'_> {
    fn pick(&mut self, choices: &[&'static str]) -> &'static str {
        pick(self.generator, choices)
    }

    /// One of the two names.
    fn someone(&mut self) -> String {
        if self.generator.random_bool(0.5) { self.hero.clone() } else { self.friend.clone() }
    }

    fn opening(&mut self) -> String {
        let (adjective, place) = (self.pick(&ADJECTIVES), self.pick(&PLACES));
        let (hero, friend) = (&self.hero, &self.friend);
        match self.generator.random_range(0..3) {
            0 => format!("Once {hero} and {friend} lived beside {} {place}.", with_article(adjective)),
            1 => format!("One day {hero} met {friend} by the {adjective} {place}."),
            _ => format!("By {} {place} there lived {hero}, and not far away lived {friend}.", with_article(adjective)),
        }
    }

    fn event(&mut self) -> String {
        match self.generator.random_range(0..8) {
            0 => format!("{} {} {}.", self.someone(), self.pick(&DEEDS), self.noun_phrase(0)),
            1 => format!("{} {} to the {}.", self.someone(), self.pick(&MOVES), self.pick(&PLACES)),
            2 => format!("{} (who had {} {}) said nothing.", self.someone(), self.pick(&DEEDS), self.noun_phrase(1)),
            3 => format!("\"{} is {},\" said {}.", self.subject(), self.pick(&ADJECTIVES), self.someone()),
            4 => self.question(),
            5 => {
                let (teller, weather, listener) = (self.someone(), self.pick(&WEATHER), self.someone());
                format!("Then {weather} (\"Just as I thought,\" said {teller}), and {listener} went inside.")
            }
            _ => self.sum(),
        }
    }

    fn question(&mut self) -> String {
        let [asks, answers] = match self.generator.random_bool(0.5) {
            true => [self.hero.clone(), self.friend.clone()],
            false => [self.friend.clone(), self.hero.clone()],
        };
        let (thing, place) = (self.noun_phrase(0), self.pick(&PLACES));
        match self.generator.random_range(0..2) {
            0 => format!("\"Where is {thing}?\" asked {asks}. \"By the {place}, {asks},\" said {answers}."),
            _ => format!(
                "\"{answers}, is that {thing}?\" asked {asks}. \"No, that one is by the {place},\" said {answers}."
            ),
        }
    }

    /// The hero's count grows or shrinks, and somebody works it out.
    fn sum(&mut self) -> String {
        let mut sentence = String::new();
        if self.counted.is_empty() {
            self.counted = self.pick(&COUNTED);
            sentence = format!("{} had {} {}. ", self.hero, self.count, self.counted);
        }
        let (before, hero, counted) = (self.count, self.hero.clone(), self.counted);
        // Both changes stay plural: "found 1 more apples" is not a sentence.
        let grows = before < 3 || (before + 2 <= MOST && self.generator.random_bool(0.6));
        let (sign, change) = if grows {
            let change = self.generator.random_range(2..=(MOST - before).min(9));
            self.count = before + change;
            sentence.push_str(&format!("{hero} found {change} more {counted}."));
            ('+', change)
        } else {
            let change = self.generator.random_range(2..before);
            self.count = before - change;
            sentence.push_str(&format!("{hero} gave {change} of the {counted} to {}.", self.friend));
            ('-', change)
        };
        let counter = self.someone();
        sentence + &format!(" \"So {before} {sign} {change} = {},\" said {counter}.", self.count)
    }

    fn ending(&mut self) -> String {
        let (place, thing) = (self.pick(&PLACES), self.pick(&THINGS));
        let (hero, friend) = (&self.hero, &self.friend);
        match self.generator.random_range(0..3) {
            0 => format!("In the end {hero} and {friend} went home."),
            1 => format!("\"Good night, {hero},\" said {friend}. \"Good night, {friend}.\""),
            _ => format!("And {friend} kept the {thing} by the {place} for {hero}."),
        }
    }

    /// "The lamp", or a longer phrase, at the start of a sentence.
    fn subject(&mut self) -> String {
        let phrase = self.noun_phrase(0);
        phrase.replacen("the", "The", 1)
    }

    /// "the green lamp", at times told apart in brackets that may hold brackets; `depth` of them are open already.
    fn noun_phrase(&mut self, depth: usize) -> String {
        let (adjective, thing) = (self.pick(&ADJECTIVES), self.pick(&THINGS));
        let phrase =
            if self.generator.random_bool(0.5) { format!("the {adjective} {thing}") } else { format!("the {thing}") };
        if depth == NESTING || self.generator.random_bool(0.6) {
            return phrase;
        }
        let (open, close) = if depth == 0 { ('(', ')') } else { ('[', ']') };
        let inner = match self.generator.random_bool(0.5) {
            true => format!("the one beside {}", self.noun_phrase(depth + 1)),
            false => format!("not {}", self.noun_phrase(depth + 1)),
        };
        format!("{phrase} {open}{inner}{close}")
    }
}

fn with_article(word: &str) -> String {
    let article = if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {word}")
}

#[cfg(test)]
mod tests {
    use crate::data::corpus::find;
    use std::collections::BTreeMap;

    fn stories(seed: u64) -> Vec<String> {
        find("stories").unwrap().generate(seed, 200_000).lines().map(str::to_owned).collect()
    }

    #[test]
    fn quotes_and_brackets_close_in_the_order_they_opened() {
        let mut deepest = 0;
        for story in stories(1) {
            let mut open = Vec::new();
            for character in story.chars() {
                match character {
                    '"' if open.last() == Some(&'"') => drop(open.pop()),
                    '"' | '(' | '[' => open.push(character),
                    ')' => assert_eq!(open.pop(), Some('('), "{story}"),
                    ']' => assert_eq!(open.pop(), Some('['), "{story}"),
                    _ => {}
                }
                deepest = deepest.max(open.len());
            }
            assert_eq!(open, [], "{story}");
        }
        assert_eq!(deepest, 3, "a quote around two brackets");
    }

    #[test]
    fn every_sum_is_right_and_starts_where_the_last_one_ended() {
        let (mut sums, mut signs) = (0, BTreeMap::new());
        for story in stories(2) {
            let mut last = None;
            for sum in story.split("\"So ").skip(1) {
                let parts: Vec<&str> = sum.split([' ', ',']).collect();
                let [left, right, result] = [0, 2, 4].map(|index| parts[index].parse::<i64>().unwrap());
                let change = if parts[1] == "+" { right } else { -right };
                assert_eq!(left + change, result, "{story}");
                assert!((1..=20).contains(&result), "{story}");
                assert_eq!(last.unwrap_or(left), left, "{story}");
                last = Some(result);
                sums += 1;
                *signs.entry(parts[1].to_owned()).or_insert(0) += 1;
            }
        }
        assert!(sums > 200, "{sums}");
        assert!(signs["+"] > 50 && signs["-"] > 50 && signs.len() == 2, "{signs:?}");
    }

    #[test]
    fn both_names_of_a_story_recur_and_stay_in_it() {
        let mut told: BTreeMap<String, usize> = BTreeMap::new();
        let stories = stories(3);
        for story in &stories {
            let (opening, _) = story.split_once('.').unwrap();
            let capitalised = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_uppercase());
            let words = opening.split([' ', ',']).filter(capitalised);
            let names: Vec<&str> = words.filter(|word| !["Once", "One", "By"].contains(word)).collect();
            assert_eq!(names.len(), 2, "{story}");
            for name in names {
                assert!(story.matches(name).count() >= 2, "{name} in {story}");
                *told.entry(name.to_owned()).or_default() += 1;
            }
        }
        assert!(told.len() * 10 > stories.len() * 2 * 9, "{} names in {} stories", told.len(), stories.len());
    }

    #[test]
    fn text_is_plain_ascii_without_doubled_spaces_or_wrong_articles() {
        for story in stories(4) {
            assert!(story.is_ascii(), "{story}");
            for wrong in ["  ", " ,", " .", "( ", " )", " a old", "the The", "found 1 "] {
                assert!(!story.contains(wrong), "{wrong:?} in {story}");
            }
        }
    }
}
