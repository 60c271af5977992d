//! Tokenizers whose vocabulary is exactly what a text holds: one token a character, or one a word.
//! Nothing is unknown to them: what the vocabulary lacks is an error that says where it stands.

mod character;
mod json;
mod word;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use json::TokenizerJsonError;

/// The most tokens of a vocabulary: as many different words as some hundred megabytes of prose hold, and nearly all
/// of Unicode. Each costs a row of the embedding, so that a larger vocabulary is a mistake (a binary file, word tokens
/// of a text without spaces) long before it is a model.
pub const TOKEN_LIMIT: usize = 1 << 20;

/// What one token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum TokenKind {
    /// One Unicode code point.
    Char,
    /// A run of characters without white space, or a single newline. Other white space only separates words.
    Word,
}

impl fmt::Display for TokenKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            TokenKind::Char => "char",
            TokenKind::Word => "word",
        })
    }
}

impl FromStr for TokenKind {
    type Err = TokenizerError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "char" => Ok(TokenKind::Char),
            "word" => Ok(TokenKind::Word),
            _ => Err(TokenizerError::UnknownKind { name: name.to_owned() }),
        }
    }
}

/// Why a text could not be turned into tokens.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenizerError {
    #[error("unknown kind of token {}: there are char and word", quoted(name))]
    UnknownKind { name: String },
    #[error("the text holds no {kind} token: a vocabulary needs at least one")]
    NoTokens { kind: TokenKind },
    #[error("the text holds {count} different {}s: at most {TOKEN_LIMIT} fit a vocabulary", match kind {
        TokenKind::Char => "character",
        TokenKind::Word => "word",
    })]
    TooManyTokens { count: usize, kind: TokenKind },
    /// `position` counts characters from 0.
    #[error("the vocabulary lacks the character {character:?} (U+{:04X}) at position {position}", *character as u32)]
    UnseenCharacter { character: char, position: usize },
    /// `position` counts words and newlines from 0.
    #[error(
        "the vocabulary lacks the word {} at position {position} (words and newlines counted from 0)",
        quoted(word)
    )]
    UnseenWord { word: String, position: usize },
}

/// A bijection between token strings and the ids `0..vocabulary_size`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokenizer {
    kind: TokenKind,
    tokens: Vec<String>,
    ids: HashMap<String, u32>,
}

impl Tokenizer {
    /// The tokenizer of all tokens in `text`, with ids in code point order (so the same text gives the same ids).
    ///
    /// Fails if the text holds no token, or more different ones than [`TOKEN_LIMIT`].
    pub fn from_text(kind: TokenKind, text: &str) -> Result<Self, TokenizerError> {
        let mut distinct: Vec<&str> = pieces(kind, text).collect::<HashSet<_>>().into_iter().collect();
        distinct.sort_unstable();
        if distinct.is_empty() {
            return Err(TokenizerError::NoTokens { kind });
        }
        if distinct.len() > TOKEN_LIMIT {
            return Err(TokenizerError::TooManyTokens { count: distinct.len(), kind });
        }
        let tokens: Vec<String> = distinct.into_iter().map(str::to_owned).collect();
        let ids = tokens.iter().cloned().zip(0..).collect();
        Ok(Self { kind, tokens, ids })
    }

    /// The ids of the tokens in `text`, none for an empty text. Fails on the first token the vocabulary lacks.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        pieces(self.kind, text)
            .enumerate()
            .map(|(position, piece)| self.id(piece).ok_or_else(|| self.unseen(piece, position)))
            .collect()
    }

    /// The text of `ids`. Characters stand side by side; words are separated by one space, except around newlines.
    /// An id outside the vocabulary reads as U+FFFD, the replacement character.
    ///
    /// `decode(encode(text)) == text` for every text of characters, and for every text of words that is written
    /// with single spaces and none around newlines.
    pub fn decode(&self, ids: &[u32]) -> String {
        let tokens = ids.iter().map(|&id| self.token(id).unwrap_or("\u{fffd}"));
        match self.kind {
            TokenKind::Char => tokens.collect(),
            TokenKind::Word => word::join(tokens),
        }
    }

    pub fn kind(&self) -> TokenKind {
        self.kind
    }

    /// The number of tokens, at least 1.
    pub fn vocabulary_size(&self) -> usize {
        self.tokens.len()
    }

    /// The string of token `id`, `None` outside the vocabulary.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(usize::try_from(id).ok()?).map(String::as_str)
    }

    /// The id of the token `token`, `None` if the vocabulary lacks it.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// How the vocabulary of `other` differs from this one. The ids do not matter.
    pub fn difference(&self, other: &Tokenizer) -> VocabularyDifference {
        let lacking = |from: &Tokenizer, lacks: &Tokenizer| {
            let lacking = from.tokens.iter().filter(|token| lacks.id(token).is_none());
            let mut lacking: Vec<String> = lacking.cloned().collect();
            lacking.sort_unstable();
            lacking
        };
        VocabularyDifference { added: lacking(other, self), missing: lacking(self, other) }
    }

    fn unseen(&self, piece: &str, position: usize) -> TokenizerError {
        match (self.kind, piece.chars().next()) {
            (TokenKind::Char, Some(character)) => TokenizerError::UnseenCharacter { character, position },
            _ => TokenizerError::UnseenWord { word: piece.to_owned(), position },
        }
    }
}

/// The tokens that one vocabulary has and another lacks, in code point order. Prints as one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VocabularyDifference {
    /// In the other vocabulary only.
    pub added: Vec<String>,
    /// In the first vocabulary only.
    pub missing: Vec<String>,
}

impl VocabularyDifference {
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.missing.is_empty()
    }
}

/// The most tokens that a printed difference lists on each side.
const LISTED: usize = 20;

impl fmt::Display for VocabularyDifference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (separator, name, tokens) in [("", "added", &self.added), ("; ", "missing", &self.missing)] {
            write!(formatter, "{separator}{name}: ")?;
            if tokens.is_empty() {
                formatter.write_str("none")?;
            }
            for (index, token) in tokens.iter().take(LISTED).enumerate() {
                write!(formatter, "{}{}", if index == 0 { "" } else { ", " }, quoted(token))?;
            }
            if let Some(more @ 1..) = tokens.len().checked_sub(LISTED) {
                write!(formatter, " and {more} more")?;
            }
        }
        Ok(())
    }
}

/// `text` in quotes and on one line, cut to a length that an error message can hold.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

fn pieces(kind: TokenKind, text: &str) -> Box<dyn Iterator<Item = &str> + '_> {
    match kind {
        TokenKind::Char => Box::new(character::pieces(text)),
        TokenKind::Word => Box::new(word::pieces(text)),
    }
}

/// Whether `token` is what [`pieces`] could give: exactly one token of `kind`, with nothing around it.
fn is_token(kind: TokenKind, token: &str) -> bool {
    let mut pieces = pieces(kind, token);
    pieces.next() == Some(token) && pieces.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::TokenKind::{Char, Word};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_follow_code_points_whatever_the_order_of_the_text() {
        for (kind, text, tokens) in [
            (Char, "hello\n", &["\n", "e", "h", "l", "o"][..]),
            (Char, "é€a\u{1f600}Z", &["Z", "a", "é", "€", "\u{1f600}"]),
            (Char, "aaaa", &["a"]),
            (Word, "the cat\nThe  cat .\n", &["\n", ".", "The", "cat", "the"]),
            (Word, " one\t", &["one"]),
        ] {
            let tokenizer = Tokenizer::from_text(kind, text).unwrap();
            assert_eq!(tokenizer.vocabulary_size(), tokens.len());
            for (id, token) in (0..).zip(tokens) {
                assert_eq!(tokenizer.token(id), Some(*token));
                assert_eq!(tokenizer.id(token), Some(id));
            }
            assert_eq!(tokenizer.token(tokens.len() as u32), None);
            assert_eq!(tokenizer.token(u32::MAX), None);
        }
    }

    #[test]
    fn a_text_without_tokens_has_no_tokenizer() {
        for (kind, text) in [(Char, ""), (Word, ""), (Word, " \t\u{a0} ")] {
            assert_eq!(Tokenizer::from_text(kind, text), Err(TokenizerError::NoTokens { kind }));
        }
    }

    #[test]
    fn an_empty_prompt_is_no_tokens_and_no_tokens_are_an_empty_text() {
        for kind in [Char, Word] {
            let tokenizer = Tokenizer::from_text(kind, "a b").unwrap();
            assert_eq!(tokenizer.encode(""), Ok(vec![]));
            assert_eq!(tokenizer.decode(&[]), "");
        }
    }

    #[test]
    fn what_the_vocabulary_lacks_is_named_with_its_position() {
        for (kind, text, message) in [
            (Char, "ab€", "the vocabulary lacks the character '€' (U+20AC) at position 2"),
            (Char, "é", "the vocabulary lacks the character 'é' (U+00E9) at position 0"),
            (Char, "abab\u{1f600}€", "the vocabulary lacks the character '\u{1f600}' (U+1F600) at position 4"),
            (Char, "a\n", "the vocabulary lacks the character '\\n' (U+000A) at position 1"),
            (
                Word,
                "a  b\ta c b",
                "the vocabulary lacks the word \"c\" at position 3 (words and newlines counted from 0)",
            ),
            (Word, "a\n", "the vocabulary lacks the word \"\\n\" at position 1 (words and newlines counted from 0)"),
        ] {
            let tokenizer = Tokenizer::from_text(kind, "a b").unwrap();
            assert_eq!(tokenizer.encode(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn words_come_back_with_single_spaces_and_none_around_newlines() {
        for (text, decoded) in [
            ("The cat sat .\nThe dog .\n", "The cat sat .\nThe dog .\n"),
            ("\n\na b\n\nc", "\n\na b\n\nc"),
            ("  a   b \n c ", "a b\nc"),
            ("a\u{a0}b\tc\rd", "a b c d"),
            ("a", "a"),
        ] {
            let tokenizer = Tokenizer::from_text(Word, text).unwrap();
            assert_eq!(tokenizer.decode(&tokenizer.encode(text).unwrap()), decoded);
        }
    }

    #[test]
    fn ids_outside_the_vocabulary_read_as_replacement_characters() {
        let tokenizer = Tokenizer::from_text(Char, "ab").unwrap();
        assert_eq!(tokenizer.decode(&[0, 2, 1, u32::MAX]), "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn a_difference_lists_what_was_added_and_what_is_missing() {
        let difference = |kind, from, to| {
            let tokenizer = Tokenizer::from_text(kind, from).unwrap();
            tokenizer.difference(&Tokenizer::from_text(kind, to).unwrap())
        };
        let letters: String = ('a'..='z').collect();
        for (kind, from, to, line) in [
            (Char, "abc", "cabZ", "added: \"Z\"; missing: none"),
            (Char, "abc", "abd", "added: \"d\"; missing: \"c\""),
            (Char, "a\n", "a", "added: none; missing: \"\\n\""),
            (Word, "a b", "a b c d", "added: \"c\", \"d\"; missing: none"),
            (
                Char,
                "a",
                &letters[..22],
                "added: \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\", \"j\", \"k\", \"l\", \"m\", \
                 \"n\", \"o\", \"p\", \"q\", \"r\", \"s\", \"t\", \"u\" and 1 more; missing: none",
            ),
        ] {
            let difference = difference(kind, from, to);
            assert!(!difference.is_empty());
            assert_eq!(difference.to_string(), line);
        }
        assert!(difference(Char, "abc", "cba").is_empty());
    }

    #[test]
    fn kinds_of_token_are_read_from_the_names_they_print() {
        for kind in [Char, Word] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.to_string());
        }
        let message = "subword".parse::<TokenKind>().unwrap_err().to_string();
        assert_eq!(message, "unknown kind of token \"subword\": there are char and word");
    }

    proptest! {
        #[test]
        fn any_text_of_characters_comes_back_exactly(text in "(?s).{1,80}") {
            let tokenizer = Tokenizer::from_text(Char, &text).unwrap();
            prop_assert_eq!(tokenizer.decode(&tokenizer.encode(&text).unwrap()), text);
        }

        #[test]
        fn decoding_words_changes_only_white_space_and_no_token(text in "[ab.\u{a0}\u{2028}\t\r\n é]{0,40}x") {
            let tokenizer = Tokenizer::from_text(Word, &text).unwrap();
            let ids = tokenizer.encode(&text).unwrap();
            prop_assert_eq!(tokenizer.encode(&tokenizer.decode(&ids)).unwrap(), ids);
        }
    }
}
