//! Hostile `tokenizer.json`.

use super::{damaged_model, fault, none, refused, whole};

#[test]
fn hostile_tokenizers_are_refused() {
    let good: serde_json::Value = serde_json::from_slice(&whole("best/tokenizer.json")).unwrap();
    let with = |pointer: &str, text: &str| {
        let mut document = good.clone();
        *document.pointer_mut(pointer).unwrap() = "HERE".into();
        document.to_string().replace("\"HERE\"", text).into_bytes()
    };
    let vocabulary = |text: &str| with("/model/vocab", text);
    // Characters that are no surrogates, all different.
    let characters = |count: u32| (0x100..).filter_map(char::from_u32).take(count as usize);
    let numbered = |count: u32, id: &dyn Fn(u32) -> u32| {
        let entries: Vec<String> = characters(count).zip(0..).map(|(c, i)| format!("\"{c}\":{}", id(i))).collect();
        format!("{{{}}}", entries.join(","))
    };
    let words = |count: u32| {
        let entries: Vec<String> = (0..count).map(|i| format!("\"{i:x}\":{i}")).collect();
        format!("{{{}}}", entries.join(","))
    };
    let bpe = r#"{"type":"BPE","vocab":{"a":0},"merges":["no such","tokens here"]}"#;
    let untyped = r#"{"vocab":{"a":0},"merges":["no such"]}"#;
    let mib = 1 << 20;
    let mut faults = Vec::new();
    for (case, contents, expected) in [
        ("one id twice", vocabulary(r#"{"a":0,"b":0}"#), "the tokenizer.json gives the id 0 to both \"a\" and \"b\""),
        ("one token twice", vocabulary(r#"{"a":0,"a":1}"#), "the tokenizer.json has the token \"a\" twice"),
        (
            "gap in the ids",
            vocabulary(r#"{"a":0,"b":2}"#),
            "the tokenizer.json gives the id 2 to \"b\": 2 tokens need the ids 0 to 1, and 1 is missing",
        ),
        (
            "gap behind a million ids",
            vocabulary(&numbered(1_000_000, &|i| i + u32::from(i > 999_000))),
            "the tokenizer.json gives the id 1000000 to \"",
        ),
        (
            "one id twice among a million",
            vocabulary(&numbered(1_000_000, &|i| i.min(999_998))),
            "the tokenizer.json gives the id 999998 to both \"",
        ),
        (
            "two million tokens",
            vocabulary(&words(2_000_000)),
            "the tokenizer.json has 2000000 tokens: at most 1048576 fit",
        ),
        ("id below 0", vocabulary(r#"{"a":-1}"#), "not a tokenizer.json: invalid value: integer `-1`, expected u64"),
        ("no tokens", vocabulary("{}"), "the tokenizer.json has an empty vocabulary: at least one token is needed"),
        (
            "endless token",
            vocabulary(&format!("{{\"{}\":0}}", "x".repeat(30 * mib))),
            "the tokenizer.json's token \"xxx",
        ),
        (
            "token that clears the screen",
            vocabulary(r#"{"\u001b[2J":0}"#),
            "the tokenizer.json's token \"\\u{1b}[2J\" is not one character",
        ),
        ("more tokens than the model", vocabulary(&numbered(500, &|i| i)), "the model has "),
        (
            "merges of unknown tokens",
            with("/model", bpe),
            "the tokenizer.json holds a \"BPE\" model: only WordLevel models can be read",
        ),
        (
            "merges without a type",
            with("/model", untyped),
            "the tokenizer.json holds a \"BPE\" model: only WordLevel models can be read",
        ),
        (
            "endless model type",
            with("/model/type", &format!("\"{}\"", "x".repeat(20 * mib))),
            "the tokenizer.json holds a \"xxx",
        ),
        (
            "endless text for a model",
            with("/model", &format!("\"{}\"", "x".repeat(20 * mib))),
            "not a tokenizer.json: invalid type: string \"xxx",
        ),
        (
            "endless normalizer",
            with("/normalizer", &format!("[{}0]", "0,".repeat(15 * mib))),
            "the tokenizer.json's normalizer (\"[0,0,",
        ),
        (
            "deep normalizer",
            with("/normalizer", &"[".repeat(30 * mib)),
            "not a tokenizer.json: expected value at line 1 column 31",
        ),
        (
            "endless added tokens",
            with("/added_tokens", &format!("[{}]", vec!["{\"content\":\"\"}"; mib].join(","))),
            "the tokenizer.json's added_tokens (\"\") cannot be used",
        ),
        (
            "endless pre-tokenizer",
            with("/pre_tokenizer", &format!("[{}0]", "0,".repeat(15 * mib))),
            "the tokenizer.json splits text by a pre_tokenizer (\"[0,0,",
        ),
        ("tokenizer that is no text", b"{\"model\xff\"".to_vec(), "it is not UTF-8 at byte 7"),
        (
            "tokenizer that is no JSON",
            b"PK\x03\x04".to_vec(),
            "not a tokenizer.json: expected value at line 1 column 1",
        ),
    ] {
        let room = damaged_model("tokenizer.json", contents);
        let expected = match expected.starts_with("the model has ") {
            true => "model: tokenizer.json has 500 tokens, the model has ".to_string(),
            false => format!("model/tokenizer.json: {expected}"),
        };
        faults.extend(fault(&room, case, "generate --model model", &expected));
    }
    none(faults);
    let room = damaged_model("tokenizer.json", vocabulary(&words(10_000_000)));
    refused(
        &room,
        "ten million tokens",
        "generate --model model",
        "cannot read model/tokenizer.json: larger than the 33554432 bytes that such a file may have",
    );
}
