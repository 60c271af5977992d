//! Characters as tokens: one a Unicode code point.

use serde_json::{Value, json};

/// Every character of `text` as a string of its own.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.char_indices().filter_map(|(start, character)| text.get(start..start + character.len_utf8()))
}

/// The pre-tokenizer of a `tokenizer.json` that splits as [`pieces`] does. (`.` would leave newlines out.)
pub(super) fn pre_tokenizer() -> Value {
    json!({ "type": "Split", "pattern": { "Regex": "[\\s\\S]" }, "behavior": "Isolated", "invert": false })
}

/// The decoder of a `tokenizer.json` that sets tokens side by side.
pub(super) fn decoder() -> Value {
    json!({ "type": "Fuse" })
}
