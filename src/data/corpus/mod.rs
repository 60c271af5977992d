//! Built-in corpora: texts made by seeded grammars, in each of which attention has one thing to find.
//! What that is stands at the top of each generator's file.

pub mod coreference;
pub mod induction;
pub mod names;
pub mod stories;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use thiserror::Error;

use crate::data::tokenizer::TokenKind;
use crate::random::{self, Stream};

/// The usual size of a generated corpus.
pub const DEFAULT_BYTES: usize = 1_000_000;

/// A corpus that is generated rather than read.
#[derive(Debug)]
pub struct Builtin {
    pub name: &'static str,
    /// One line on what the text is and what there is to find in it.
    pub description: &'static str,
    /// The kind of token with which it is found.
    pub tokens: TokenKind,
    /// Appends one document, newline included.
    document: fn(&mut ChaCha8Rng, &mut String),
}

/// Every built-in corpus.
pub const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "coreference",
        description: "two-sentence stories of a thing and a box: \"smaller\" and \"larger\" tell which noun comes next",
        tokens: TokenKind::Word,
        document: coreference::document,
    },
    Builtin {
        name: "induction",
        description: "rows of repeated random letter chunks: what followed a letter before follows it again",
        tokens: TokenKind::Char,
        document: induction::document,
    },
    Builtin {
        name: "names",
        description: "made-up names of syllables: the letter before tells most about the next one",
        tokens: TokenKind::Char,
        document: names::document,
    },
    Builtin {
        name: "stories",
        description: "short stories with dialogue, brackets and sums: names are introduced once and then recur",
        tokens: TokenKind::Char,
        document: stories::document,
    },
];

impl Builtin {
    /// Whole documents, as many as reach `bytes` bytes (none for 0): longer than asked by less than one document.
    /// A shorter text of the same seed is a prefix of a longer one.
    pub fn generate(&self, seed: u64, bytes: usize) -> String {
        let mut text = String::new();
        for index in 0.. {
            if text.len() >= bytes {
                break;
            }
            (self.document)(&mut random::generator(seed, Stream::Corpus, 0, index), &mut text);
        }
        text
    }
}

/// One of `choices` (which are never none), each as likely as the others.
fn pick<T: Copy>(generator: &mut ChaCha8Rng, choices: &[T]) -> T {
    choices[generator.random_range(0..choices.len())]
}

/// There is no built-in corpus of that name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no built-in corpus {name:?}: there are {}", BUILTIN.iter().map(|corpus| corpus.name).collect::<Vec<_>>().join(", "))]
pub struct UnknownCorpus {
    pub name: String,
}

/// The built-in corpus called `name`.
pub fn find(name: &str) -> Result<&'static Builtin, UnknownCorpus> {
    BUILTIN.iter().find(|corpus| corpus.name == name).ok_or_else(|| UnknownCorpus { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::tokenizer::Tokenizer;

    #[test]
    fn corpora_are_found_by_name_and_an_unknown_name_lists_them() {
        for corpus in BUILTIN {
            assert_eq!(find(corpus.name).unwrap().name, corpus.name);
            assert!(!corpus.description.contains('\n'));
        }
        assert_eq!(
            find("shakespeare").unwrap_err().to_string(),
            "there is no built-in corpus \"shakespeare\": there are coreference, induction, names, stories"
        );
    }

    #[test]
    fn a_seed_repeats_its_text_and_another_seed_gives_another() {
        for corpus in BUILTIN {
            let text = corpus.generate(1, 5_000);
            assert_eq!(text, corpus.generate(1, 5_000));
            assert_ne!(text, corpus.generate(2, 5_000));
            assert!(text.starts_with(&corpus.generate(1, 100)));
        }
    }

    #[test]
    fn sizes_are_reached_and_not_passed_by_a_document() {
        for corpus in BUILTIN {
            assert_eq!(corpus.generate(3, 0), "");
            for bytes in [1, 1_003, 200_000] {
                let text = corpus.generate(3, bytes);
                assert!((bytes..bytes + 2_000).contains(&text.len()), "{}: {}", corpus.name, text.len());
                assert!(text.ends_with('\n'));
            }
        }
    }

    #[test]
    fn every_corpus_comes_back_from_its_recommended_tokens() {
        for corpus in BUILTIN {
            let text = corpus.generate(4, 100_000);
            let tokenizer = Tokenizer::from_text(corpus.tokens, &text).unwrap();
            assert!(tokenizer.vocabulary_size() < 100, "{}: {}", corpus.name, tokenizer.vocabulary_size());
            assert_eq!(tokenizer.decode(&tokenizer.encode(&text).unwrap()), text);
        }
    }
}
