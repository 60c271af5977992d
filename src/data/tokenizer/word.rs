//! Words as tokens: runs of characters that are not white space, and each newline by itself.

use serde_json::{Value, json};

/// The words and newlines of `text`, in order.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').flat_map(|line| {
        let newline = line.strip_suffix('\n').map(|words| &line[words.len()..]);
        line.split_whitespace().chain(newline)
    })
}

/// Words with one space between two, and none beside a newline.
pub(super) fn join<'a>(tokens: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for token in tokens {
        if !text.is_empty() && !text.ends_with('\n') && token != "\n" {
            text.push(' ');
        }
        text.push_str(token);
    }
    text
}

/// The pre-tokenizer of a `tokenizer.json` that splits as [`pieces`] does: inverted, it removes what does not match.
pub(super) fn pre_tokenizer() -> Value {
    json!({ "type": "Split", "pattern": { "Regex": "\\n|\\S+" }, "behavior": "Removed", "invert": true })
}

/// The decoder of a `tokenizer.json` that writes as [`join`] does: `WordPiece` sets a space before each token but the
/// first (no token starts with its prefix), the last step takes the spaces beside newlines away.
pub(super) fn decoder() -> Value {
    json!({ "type": "Sequence", "decoders": [
        { "type": "WordPiece", "prefix": " ", "cleanup": false },
        { "type": "Fuse" },
        { "type": "Replace", "pattern": { "Regex": " ?\\n ?" }, "content": "\n" },
    ] })
}
