//! What a head may look at: for each pattern the keys that a query would look at, and keys of the same kind that it would
//! not.

use super::map::HeadMap;
use crate::data::corpus::coreference::answers;
use crate::data::tokenizer::Tokenizer;

/// What a head may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    PreviousToken,
    FirstPosition,
    Delimiters,
    /// How many of the nearest keys hold half of a row.
    Diagonal,
    Induction,
    SameToken,
    Coreference,
    /// Weight on keys behind the query.
    UpperTriangle,
    /// Of a row, as a share of the largest there is.
    Entropy,
}

impl Pattern {
    pub const ALL: [Self; 9] = [
        Self::PreviousToken,
        Self::FirstPosition,
        Self::Delimiters,
        Self::Diagonal,
        Self::Induction,
        Self::SameToken,
        Self::Coreference,
        Self::UpperTriangle,
        Self::Entropy,
    ];

    /// The name that flags and files use.
    pub fn name(self) -> &'static str {
        match self {
            Self::PreviousToken => "previous",
            Self::FirstPosition => "sink",
            Self::Delimiters => "delimiters",
            Self::Diagonal => "diagonal",
            Self::Induction => "induction",
            Self::SameToken => "same-token",
            Self::Coreference => "coreference",
            Self::UpperTriangle => "upper-triangle",
            Self::Entropy => "entropy",
        }
    }

    /// The pattern of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pattern| pattern.name() == name)
    }

    /// What a head of it does, after "layer 0, head 0".
    pub fn verb(self) -> &'static str {
        match self {
            Self::PreviousToken => "looks at the token before",
            Self::FirstPosition => "rests on the first position",
            Self::Delimiters => "has stripes at delimiters",
            Self::Diagonal => "keeps to the diagonal",
            Self::Induction => "looks at what followed the same token before (induction)",
            Self::SameToken => "looks at earlier copies of the same token",
            Self::Coreference => "looks at what the word refers to",
            Self::UpperTriangle => "looks at later tokens",
            Self::Entropy => "looks at few keys",
        }
    }

    /// What its distractor is.
    pub fn distractor(self) -> &'static str {
        match self {
            Self::PreviousToken => "two tokens back",
            Self::FirstPosition => "the second position",
            Self::Delimiters => "their neighbours",
            Self::Diagonal => "from the far end",
            Self::Induction | Self::SameToken => "the keys beside",
            Self::Coreference => "the other candidate",
            Self::UpperTriangle => "as many earlier keys",
            Self::Entropy => "none",
        }
    }

    /// Whether less of it is more: few keys, little entropy.
    pub fn less_is_more(self) -> bool {
        matches!(self, Self::Diagonal | Self::Entropy)
    }
}

/// A token and what it refers to, as positions in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The token whose row is read.
    pub query: usize,
    /// What it refers to.
    pub key: usize,
    /// What it might refer to and does not; the keys beside `key` where there is none.
    pub other: Option<usize>,
}

impl Reference {
    /// Those of the built-in coreference stories: the row of `smaller` or `larger`, the noun that it asks for, and the
    /// other one. Other texts have none.
    pub fn of_stories(tokenizer: &Tokenizer, tokens: &[u32]) -> Vec<Self> {
        let found = answers(tokenizer, tokens).into_iter();
        found
            .map(|answer| Self { query: answer.position, key: answer.right_noun, other: Some(answer.wrong_noun) })
            .collect()
    }

    /// Reads `QUERY:KEY` or `QUERY:KEY:OTHER`, each the position of a token, counted from 0, or its text: of a query the
    /// last token with this text, of a key the last one before the query.
    ///
    /// # Errors
    /// A sentence that says which part is no token of the text.
    pub fn parse(text: &str, tokens: &[String]) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let (query, key, other) = match parts[..] {
            [query, key] => (query, key, None),
            [query, key, other] => (query, key, Some(other)),
            _ => return Err(format!("'{}' is not QUERY:KEY or QUERY:KEY:OTHER", text.escape_debug())),
        };
        let query = position(query, tokens, "of the text")?;
        let before = &tokens[..query];
        let key = position(key, before, "before the query")?;
        let other = other.map(|other| position(other, before, "before the query")).transpose()?;
        match other == Some(key) {
            true => Err(format!("what it refers to and what it does not are both token {key}")),
            false => Ok(Self { query, key, other }),
        }
    }
}

fn position(part: &str, tokens: &[String], which: &str) -> Result<usize, String> {
    let found = tokens.iter().rposition(|token| token == part || (token.trim() == part && !part.is_empty()));
    let number = || part.parse().ok().filter(|&position: &usize| position < tokens.len());
    found.or_else(number).ok_or_else(|| {
        let part = part.escape_debug();
        match tokens.len() {
            0 => format!("'{part}' cannot be meant: there is no token {which}"),
            count => format!("'{part}' is neither one of the {count} tokens {which}, nor a position below {count}"),
        }
    })
}

/// Where a query would look, and keys of the same kind in one or two groups. No key is in both.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Places {
    /// Ascending.
    pub targets: Vec<usize>,
    pub distractors: [Vec<usize>; 2],
}

/// A text as the patterns see it.
pub(super) struct Text<'a> {
    /// Equal for equal tokens.
    kinds: Vec<usize>,
    delimiters: Vec<bool>,
    references: &'a [Reference],
}

/// Whether a token parts words or sentences: white space, or punctuation marks and nothing else.
fn is_delimiter(token: &str) -> bool {
    let mark = |c: char| {
        c.is_whitespace() || matches!(c, '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '"' | '‘' | '’' | '“' | '”')
    };
    !token.is_empty() && token.chars().all(mark)
}

/// The position of a query among the keys; `None` where it stands before the first.
pub(super) fn position_of(map: &HeadMap, query: usize) -> Option<usize> {
    (query + map.keys).checked_sub(map.queries)
}

/// How many keys the query at a position sees.
pub(super) fn visible(map: &HeadMap, position: usize) -> usize {
    if map.causal { map.keys.min(position + 1) } else { map.keys }
}

impl<'a> Text<'a> {
    pub(super) fn new(tokens: &[String], references: &'a [Reference]) -> Self {
        let mut known = std::collections::HashMap::new();
        let kinds = tokens
            .iter()
            .map(|token| {
                let next = known.len();
                *known.entry(token).or_insert(next)
            })
            .collect();
        Self { kinds, delimiters: tokens.iter().map(|token| is_delimiter(token)).collect(), references }
    }

    /// Where the query at a position would look; `None` where the pattern does not say. Keys lie between the first position
    /// and the last token but one where a pattern is about neither, so that a sink or a look at the previous token does
    /// not count as something else.
    pub(super) fn places(&self, pattern: Pattern, map: &HeadMap, position: usize) -> Option<Places> {
        let inner = 1..position.saturating_sub(1);
        let same = |a: usize, b: usize| self.kinds.get(a).is_some_and(|kind| self.kinds.get(b) == Some(kind));
        let delimiter = |key: usize| self.delimiters.get(key) == Some(&true);
        let beside = |targets: Vec<usize>, allowed: &dyn Fn(usize) -> bool| {
            let side = |shift: fn(usize) -> usize| {
                let shifted = targets.iter().map(|&key| shift(key));
                shifted
                    .filter(|key| inner.contains(key) && allowed(*key) && targets.binary_search(key).is_err())
                    .collect()
            };
            let distractors = [side(|key| key.wrapping_sub(1)), side(|key| key + 1)];
            Places { targets, distractors }
        };
        let places = match pattern {
            Pattern::Diagonal | Pattern::Entropy => return None,
            Pattern::PreviousToken if position >= 2 => {
                Places { targets: vec![position - 1], distractors: [vec![position - 2], Vec::new()] }
            }
            Pattern::FirstPosition if position >= 3 => Places { targets: vec![0], distractors: [vec![1], Vec::new()] },
            Pattern::Delimiters => {
                beside(inner.clone().filter(|&key| delimiter(key)).collect(), &|key| !delimiter(key))
            }
            Pattern::Induction => {
                let follows = |key: &usize| same(key - 1, position);
                beside(inner.clone().filter(follows).collect(), &|_| true)
            }
            Pattern::SameToken => beside(inner.clone().filter(|&key| same(key, position)).collect(), &|_| true),
            Pattern::Coreference => {
                let reference = self.references.iter().find(|reference| reference.query == position)?;
                match reference.other {
                    Some(other) => Places { targets: vec![reference.key], distractors: [vec![other], Vec::new()] },
                    None => beside(vec![reference.key], &|_| true),
                }
            }
            Pattern::UpperTriangle if !map.causal && position >= 1 => {
                let targets: Vec<usize> = (position + 1..map.keys).collect();
                let earlier = (position.saturating_sub(targets.len())..position).collect();
                Places { targets, distractors: [earlier, Vec::new()] }
            }
            Pattern::PreviousToken | Pattern::FirstPosition | Pattern::UpperTriangle => return None,
        };
        let seen = visible(map, position);
        let all_seen = |keys: &[usize]| keys.iter().all(|&key| key < seen);
        let complete = !places.targets.is_empty() && places.distractors.iter().any(|group| !group.is_empty());
        (complete && all_seen(&places.targets) && places.distractors.iter().all(|group| all_seen(group)))
            .then_some(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::tokenizer::TokenKind;

    #[test]
    fn names_are_of_one_pattern_each() {
        for pattern in Pattern::ALL {
            assert_eq!(Pattern::named(pattern.name()), Some(pattern));
        }
        assert_eq!(Pattern::named("previous-token"), None);
    }

    #[test]
    fn delimiters_are_white_space_and_marks_and_nothing_else() {
        for (token, expected) in [
            (" ", true),
            ("\n", true),
            ("\u{a0}", true),
            (".", true),
            (",", true),
            ("\"", true),
            ("'", true),
            (". ", true),
            ("", false),
            ("a", false),
            (" a", false),
            ("it's", false),
            ("-", false),
        ] {
            assert_eq!(is_delimiter(token), expected, "{token:?}");
        }
    }

    #[test]
    fn references_are_read_from_positions_and_from_words() {
        let tokens: Vec<String> =
            ["The", " lamp", " fits", " the", " bag", " and", " the", " lamp"].map(String::from).into();
        let reference = |query, key, other| Ok(Reference { query, key, other });
        for (text, expected) in [
            ("7:1", reference(7, 1, None)),
            ("lamp:bag", reference(7, 4, None)),
            ("lamp:lamp:bag", reference(7, 1, Some(4))),
            ("and:the:3", Err("what it refers to and what it does not are both token 3".to_string())),
            ("6:the:1", reference(6, 3, Some(1))),
            ("7", Err("'7' is not QUERY:KEY or QUERY:KEY:OTHER".into())),
            ("1:2:3:4", Err("'1:2:3:4' is not QUERY:KEY or QUERY:KEY:OTHER".into())),
            ("8:1", Err("'8' is neither one of the 8 tokens of the text, nor a position below 8".into())),
            ("3:5", Err("'5' is neither one of the 3 tokens before the query, nor a position below 3".into())),
            ("0:1", Err("'1' cannot be meant: there is no token before the query".into())),
            (
                "\u{1b}[2J:1",
                Err("'\\u{1b}[2J' is neither one of the 8 tokens of the text, nor a position below 8".into()),
            ),
        ] {
            assert_eq!(Reference::parse(text, &tokens), expected, "{text}");
        }
    }

    #[test]
    fn the_built_in_stories_bring_their_references() {
        let text = "The lamp would not fit in the bag because it was too small . We took a larger bag .\n";
        let tokenizer = Tokenizer::from_text(TokenKind::Word, text).unwrap();
        let tokens = tokenizer.encode(text).unwrap();
        let expected = Reference { query: 17, key: 7, other: Some(1) };
        assert_eq!(Reference::of_stories(&tokenizer, &tokens), [expected]);
    }
}
