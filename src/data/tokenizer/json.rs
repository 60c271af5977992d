//! Tokenizers as `tokenizer.json`, the file of Hugging Face's `tokenizers` library, which splits and numbers a text
//! as [`Tokenizer::encode`] does and refuses what the vocabulary lacks.
//!
//! Read back are only files that mean one of the two kinds of token here: whatever would tokenise otherwise is refused
//! by its name. Memory stays in proportion to the file, whatever it holds.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::{TOKEN_LIMIT, TokenKind, Tokenizer, character, is_token, quoted, word};
use crate::printable::printable;

/// The model type of both kinds: a plain table from token strings to ids.
const MODEL: &str = "WordLevel";

/// How an error cuts a parser's reason, which may quote the file.
const REASON_LIMIT: usize = 300;

/// Bytes of a pre-tokenizer that are looked at: those that mean characters or words have some hundred.
const PART_LIMIT: usize = 1 << 12;

/// Why a `tokenizer.json` cannot be used.
#[derive(Debug, Error)]
pub enum TokenizerJsonError {
    #[error("not a tokenizer.json: {reason}")]
    Malformed { reason: String },
    #[error("the tokenizer.json has no {field}")]
    MissingField { field: &'static str },
    #[error("the tokenizer.json holds a {} model: only {MODEL} models can be read", quoted(name))]
    UnsupportedModel { name: String },
    #[error("the tokenizer.json's {field} ({name}) cannot be used: only files without can be read")]
    UnsupportedField { field: &'static str, name: String },
    #[error(
        "the tokenizer.json splits text by a pre_tokenizer ({name}) that means neither characters nor words: \
         a Split with the pattern {} or {} is needed",
        pattern(TokenKind::Char),
        pattern(TokenKind::Word)
    )]
    UnsupportedPreTokenizer { name: String },
    #[error("the tokenizer.json has an empty vocabulary: at least one token is needed")]
    EmptyVocabulary,
    #[error("the tokenizer.json has {count} tokens: at most {TOKEN_LIMIT} fit")]
    TooManyTokens { count: usize },
    #[error("the tokenizer.json's token {} is not one {}", quoted(token), match kind {
        TokenKind::Char => "character",
        TokenKind::Word => "word or newline",
    })]
    ForeignToken { token: String, kind: TokenKind },
    #[error("the tokenizer.json has the token {} twice", quoted(token))]
    RepeatedToken { token: String },
    #[error("the tokenizer.json gives the id {id} to both {} and {}", quoted(first), quoted(second))]
    RepeatedId { id: u64, first: String, second: String },
    #[error(
        "the tokenizer.json gives the id {id} to {}: {size} tokens need the ids 0 to {}, and {missing} is missing",
        quoted(token), size - 1
    )]
    Hole { token: String, id: u64, size: usize, missing: usize },
}

impl Tokenizer {
    /// The text of a `tokenizer.json`.
    pub fn to_json(&self) -> String {
        format!("{:#}\n", self.document())
    }

    /// The bytes of [`Self::to_json`], counted without making it.
    pub fn json_length(&self) -> u64 {
        let mut count = ByteCount(1);
        match serde_json::to_writer_pretty(&mut count, &self.document()) {
            Ok(()) => count.0,
            // Neither the count nor a document of texts and numbers can fail.
            Err(_) => u64::MAX,
        }
    }

    fn document(&self) -> Value {
        let vocabulary: Map<String, Value> = self.tokens.iter().cloned().zip((0u32..).map(Value::from)).collect();
        json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": [],
            "normalizer": null,
            "pre_tokenizer": pre_tokenizer(self.kind),
            "post_processor": null,
            "decoder": match self.kind {
                TokenKind::Char => character::decoder(),
                TokenKind::Word => word::decoder(),
            },
            // The library wants the name of a token for the unknown. No token is empty, so there is none.
            "model": { "type": MODEL, "vocab": vocabulary, "unk_token": "" },
        })
    }

    /// The tokenizer that a `tokenizer.json` describes. The ids may be in any order but must be `0..vocabulary_size`.
    ///
    /// Fails, naming the part, on files of another model, normalizer, pre-tokenizer, post-processor or with added
    /// tokens, and on vocabularies that are empty, name a token or an id twice, or leave an id out.
    pub fn from_json(text: &str) -> Result<Self, TokenizerJsonError> {
        let kind = serde_json::from_str::<Outline<'_>>(text).map_err(malformed)?.kind()?;
        // Only now: the vocabulary of another model may have another form altogether.
        let document: Document<'_> = serde_json::from_str(text).map_err(malformed)?;
        let Vocabulary { mut entries, count } = document.model.vocab;
        if count > TOKEN_LIMIT {
            return Err(TokenizerJsonError::TooManyTokens { count });
        }
        if let Some((token, _)) = entries.iter().find(|(token, _)| !is_token(kind, token)) {
            return Err(TokenizerJsonError::ForeignToken { token: token.to_string(), kind });
        }
        entries.sort_unstable_by(|(first, _), (second, _)| first.cmp(second));
        if let Some([(token, _), _]) = entries.array_windows().find(|[(first, _), (second, _)]| first == second) {
            return Err(TokenizerJsonError::RepeatedToken { token: token.to_string() });
        }
        entries.sort_unstable_by(|(first, id), (second, other)| (id, first).cmp(&(other, second)));
        if let Some([(first, id), (second, _)]) = entries.array_windows().find(|[(_, id), (_, other)]| id == other) {
            let (first, second) = (first.to_string(), second.to_string());
            return Err(TokenizerJsonError::RepeatedId { id: *id, first, second });
        }
        // No id stands twice: all of them lie below the size, or the last does not and one below is missing.
        let size = entries.len();
        let Some((token, id)) = entries.last() else { return Err(TokenizerJsonError::EmptyVocabulary) };
        if *id >= size as u64 {
            let missing = (0u64..).zip(&entries).take_while(|(expected, (_, id))| expected == id).count();
            return Err(TokenizerJsonError::Hole { token: token.to_string(), id: *id, size, missing });
        }
        let tokens: Vec<String> = entries.into_iter().map(|(token, _)| token.into_owned()).collect();
        let ids = tokens.iter().cloned().zip(0..).collect();
        Ok(Self { kind, tokens, ids })
    }
}

struct ByteCount(u64);

impl std::io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn malformed(error: serde_json::Error) -> TokenizerJsonError {
    TokenizerJsonError::Malformed { reason: printable(&error.to_string(), REASON_LIMIT) }
}

fn pre_tokenizer(kind: TokenKind) -> Value {
    match kind {
        TokenKind::Char => character::pre_tokenizer(),
        TokenKind::Word => word::pre_tokenizer(),
    }
}

fn pattern(kind: TokenKind) -> String {
    pre_tokenizer(kind)["pattern"]["Regex"].to_string()
}

/// Everything of a `tokenizer.json` that decides what a token is, without the vocabulary. Parts of any form stay text
/// until it is known that they are short.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Outline<'a> {
    model: Option<ModelOutline>,
    #[serde(borrow)]
    normalizer: Option<&'a RawValue>,
    #[serde(borrow)]
    pre_tokenizer: Option<&'a RawValue>,
    #[serde(borrow)]
    post_processor: Option<&'a RawValue>,
    added_tokens: Option<FirstAddedToken>,
}

#[derive(Deserialize)]
#[serde(expecting = "a model object")]
struct ModelOutline {
    r#type: Option<String>,
    vocab: Option<IgnoredAny>,
    /// Files from before models had a type are told by this field.
    merges: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(expecting = "an added token object")]
struct AddedToken {
    content: String,
}

/// One added token is enough to refuse a file by.
struct FirstAddedToken(Option<String>);

impl<'de> Deserialize<'de> for FirstAddedToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tokens;

        impl<'de> Visitor<'de> for Tokens {
            type Value = FirstAddedToken;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of added tokens")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut tokens: A) -> Result<FirstAddedToken, A::Error> {
                let first = tokens.next_element::<AddedToken>()?;
                while tokens.next_element::<IgnoredAny>()?.is_some() {}
                Ok(FirstAddedToken(first.map(|token| token.content)))
            }
        }

        deserializer.deserialize_seq(Tokens)
    }
}

impl Outline<'_> {
    fn kind(self) -> Result<TokenKind, TokenizerJsonError> {
        let model = self.model.ok_or(TokenizerJsonError::MissingField { field: "model" })?;
        match (model.r#type, model.merges) {
            (Some(name), _) if name == MODEL => {}
            (Some(name), _) => return Err(TokenizerJsonError::UnsupportedModel { name }),
            (None, Some(_)) => return Err(TokenizerJsonError::UnsupportedModel { name: "BPE".to_owned() }),
            (None, None) => return Err(TokenizerJsonError::MissingField { field: "model.type" }),
        }
        if model.vocab.is_none() {
            return Err(TokenizerJsonError::MissingField { field: "model.vocab" });
        }
        for (field, part) in [("normalizer", self.normalizer), ("post_processor", self.post_processor)] {
            if let Some(part) = part {
                return Err(TokenizerJsonError::UnsupportedField { field, name: type_name(part) });
            }
        }
        if let Some(FirstAddedToken(Some(content))) = self.added_tokens {
            return Err(TokenizerJsonError::UnsupportedField { field: "added_tokens", name: quoted(&content) });
        }
        let Some(split) = self.pre_tokenizer else {
            return Err(TokenizerJsonError::MissingField { field: "pre_tokenizer" });
        };
        [TokenKind::Char, TokenKind::Word]
            .into_iter()
            .find(|kind| short_value(split).is_some_and(|split| pre_tokenizer(*kind) == split))
            .ok_or_else(|| TokenizerJsonError::UnsupportedPreTokenizer { name: type_name(split) })
    }
}

/// A part of the file as a value, unless it is too long to be any that is meant.
fn short_value(part: &RawValue) -> Option<Value> {
    crate::json::parse(Some(part.get()).filter(|text| text.len() <= PART_LIMIT)?).ok()
}

/// The `type` of a part of the file, or its beginning if it has none.
fn type_name(part: &RawValue) -> String {
    match short_value(part).as_ref().and_then(|value| value.get("type")?.as_str()) {
        Some(name) => quoted(name),
        None => quoted(part.get()),
    }
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    model: Model<'a>,
}

#[derive(Deserialize)]
struct Model<'a> {
    #[serde(borrow)]
    vocab: Vocabulary<'a>,
}

/// The entries of the vocabulary as they stand: a map would hide a token that is named twice. No more than the limit
/// are kept, all are counted.
struct Vocabulary<'a> {
    entries: Vec<(Cow<'a, str>, u64)>,
    count: usize,
}

impl<'de: 'a, 'a> Deserialize<'de> for Vocabulary<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Vocabulary<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map from tokens to ids")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary<'de>, A::Error> {
                let (mut entries, mut count) = (Vec::new(), 0);
                while let Some(Token(token)) = map.next_key()? {
                    count += 1;
                    if count <= TOKEN_LIMIT {
                        entries.push((token, map.next_value()?));
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Vocabulary { entries, count })
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

/// A token's text, borrowed from the file where no escape stands in it.
#[derive(Deserialize)]
struct Token<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::TokenKind::{Char, Word};
    use super::*;

    /// The file of the characters `a` and `b`, changed.
    fn file(change: impl FnOnce(&mut Value)) -> String {
        let mut document = serde_json::from_str(&Tokenizer::from_text(Char, "ab").unwrap().to_json()).unwrap();
        change(&mut document);
        document.to_string()
    }

    #[test]
    fn a_tokenizer_comes_back_as_it_was_written() {
        for (kind, text) in [
            (Char, "a"),
            (Char, "\0\u{1}\t\n\r \"\\/\u{7f}\u{a0}é€\u{1f600}\u{fffd}"),
            (Word, "\n"),
            (Word, "The \"cat\" \\ <unk> [UNK] .\nÉté \u{200b}"),
        ] {
            let tokenizer = Tokenizer::from_text(kind, text).unwrap();
            let text = tokenizer.to_json();
            assert_eq!(Tokenizer::from_json(&text).unwrap(), tokenizer);
            assert_eq!(tokenizer.json_length(), text.len() as u64);
        }
    }

    #[test]
    fn the_file_has_the_layout_that_was_tried_with_the_tokenizers_library() {
        let characters =
            json!({ "type": "Split", "pattern": { "Regex": "[\\s\\S]" }, "behavior": "Isolated", "invert": false });
        let words =
            json!({ "type": "Split", "pattern": { "Regex": "\\n|\\S+" }, "behavior": "Removed", "invert": true });
        let spaces = json!({ "type": "Sequence", "decoders": [
            { "type": "WordPiece", "prefix": " ", "cleanup": false },
            { "type": "Fuse" },
            { "type": "Replace", "pattern": { "Regex": " ?\\n ?" }, "content": "\n" },
        ] });
        for (kind, text, pre_tokenizer, decoder, vocabulary) in [
            (Char, "b\na", characters, json!({ "type": "Fuse" }), r#"{"\n":0,"a":1,"b":2}"#),
            (Word, "one two\n", words, spaces, r#"{"\n":0,"one":1,"two":2}"#),
        ] {
            let document: Value = serde_json::from_str(&Tokenizer::from_text(kind, text).unwrap().to_json()).unwrap();
            let expected = json!({
                "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
                "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": decoder,
                "model": { "type": "WordLevel", "vocab": document["model"]["vocab"], "unk_token": "" },
            });
            assert_eq!(document, expected);
            assert_eq!(document["model"]["vocab"].to_string(), vocabulary);
        }
    }

    #[test]
    fn ids_may_stand_in_any_order() {
        let tokenizer = Tokenizer::from_json(&file(|file| {
            file["model"]["vocab"] = json!({ "c": 1, "a": 2, "b": 0 });
        }));
        let tokenizer = tokenizer.unwrap();
        assert_eq!(tokenizer.encode("abc").unwrap(), [2, 0, 1]);
        assert_eq!(tokenizer.decode(&[1, 0, 2]), "cba");
    }

    #[test]
    fn unusable_vocabularies_are_refused_with_the_token_and_the_id() {
        let long = format!("{{{:?}: 0}}", "x".repeat(1000));
        for (vocabulary, message) in [
            ("{}", "the tokenizer.json has an empty vocabulary: at least one token is needed".to_owned()),
            (r#"{"a": 0, "b": 0}"#, "the tokenizer.json gives the id 0 to both \"a\" and \"b\"".to_owned()),
            (r#"{"a": 0, "a": 0}"#, "the tokenizer.json has the token \"a\" twice".to_owned()),
            (r#"{"a": 0, "a": 1}"#, "the tokenizer.json has the token \"a\" twice".to_owned()),
            (
                r#"{"a": 0, "b": 2}"#,
                "the tokenizer.json gives the id 2 to \"b\": 2 tokens need the ids 0 to 1, and 1 is missing".to_owned(),
            ),
            (
                r#"{"b": 18446744073709551615, "a": 1}"#,
                "the tokenizer.json gives the id 18446744073709551615 to \"b\": 2 tokens need the ids 0 to 1, \
                 and 0 is missing"
                    .to_owned(),
            ),
            (r#"{"ab": 0}"#, "the tokenizer.json's token \"ab\" is not one character".to_owned()),
            (r#"{"": 0}"#, "the tokenizer.json's token \"\" is not one character".to_owned()),
            (&long, format!("the tokenizer.json's token {:?}... is not one character", "x".repeat(40))),
        ] {
            let text = file(|file| file["model"]["vocab"] = json!("HERE")).replace("\"HERE\"", vocabulary);
            assert_eq!(Tokenizer::from_json(&text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn words_with_white_space_in_them_are_refused() {
        let text = Tokenizer::from_text(Word, "ab").unwrap().to_json();
        for token in ["a b", " ab", "ab\\n", "\\n\\n", "", "\\u00a0", "\\t"] {
            let text = text.replace("\"ab\"", &format!("\"{token}\""));
            let message = Tokenizer::from_json(&text).unwrap_err().to_string();
            assert!(message.ends_with("is not one word or newline"), "{message}");
        }
    }

    #[test]
    fn missing_parts_are_named() {
        for (path, field) in [
            ("/model", "model"),
            ("/model/type", "model.type"),
            ("/model/vocab", "model.vocab"),
            ("/pre_tokenizer", "pre_tokenizer"),
        ] {
            let null = file(|file| *file.pointer_mut(path).unwrap() = Value::Null);
            let gone = file(|file| {
                let (parent, name) = path.rsplit_once('/').unwrap();
                file.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
            });
            for text in [null, gone] {
                let message = Tokenizer::from_json(&text).unwrap_err().to_string();
                assert_eq!(message, format!("the tokenizer.json has no {field}"));
            }
        }
    }

    #[test]
    fn files_that_tokenise_otherwise_are_refused_by_name() {
        let bpe = json!({ "type": "BPE", "vocab": { "a": 0 }, "merges": ["a b"] });
        let untyped_bpe = json!({ "dropout": null, "vocab": { "a": 0 }, "merges": ["a b"] });
        let unigram = json!({ "type": "Unigram", "vocab": [["a", -1.5]], "unk_id": 0 });
        for (field, value, part) in [
            ("model", bpe, "holds a \"BPE\" model: only WordLevel models can be read"),
            ("model", untyped_bpe, "holds a \"BPE\" model: only WordLevel models can be read"),
            ("model", unigram, "holds a \"Unigram\" model: only WordLevel models can be read"),
            ("normalizer", json!({ "type": "Lowercase" }), "json's normalizer (\"Lowercase\") cannot be used"),
            ("post_processor", json!({ "type": "ByteLevel" }), "json's post_processor (\"ByteLevel\") cannot be used"),
            ("added_tokens", json!([{ "id": 0, "content": "<s>" }]), "json's added_tokens (\"<s>\") cannot be used"),
            (
                "pre_tokenizer",
                json!({ "type": "Whitespace" }),
                "by a pre_tokenizer (\"Whitespace\") that means neither",
            ),
            (
                "pre_tokenizer",
                json!({ "$serde_json::private::RawValue": character::pre_tokenizer().to_string() }),
                "that means neither",
            ),
            ("pre_tokenizer", json!(["x"]), "by a pre_tokenizer (\"[\\\"x\\\"]\") that means neither"),
        ] {
            let message = Tokenizer::from_json(&file(|file| file[field] = value)).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn hostile_text_is_an_error_of_one_short_line() {
        let good = file(|_| {});
        let deep = format!("{{\"pre_tokenizer\": {}", "[".repeat(1_000_000));
        let digits = "9".repeat(1000);
        let number = r#"{"$serde_json::private::Number": "1"}"#;
        let odd_ids =
            ["-1", "-0", "1.0", "1.5", "1e400", "null", "\"0\"", "[]", "18446744073709551616", &digits, number];
        let odd_ids = odd_ids.map(|id| good.replace("\"b\":1", &format!("\"b\":{id}")));
        let mut texts = vec!["", "null", "[]", "3", "\"\"", "{", "{}", "{\"model\": 3}", "{\"model\": []}", &deep];
        texts.extend(odd_ids.iter().map(String::as_str));
        texts.extend((0..good.len()).map(|end| &good[..end]));
        for text in texts {
            let message = Tokenizer::from_json(text).unwrap_err().to_string();
            assert!(!message.contains('\n') && message.len() < 300, "{message}");
        }
    }
}
