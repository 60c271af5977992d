//! Hostile `config.json` of a model.

use super::{damaged_model, fault, none, refused, whole};

#[test]
fn hostile_configurations_of_a_model_are_refused() {
    let good: serde_json::Value = serde_json::from_slice(&whole("best/config.json")).unwrap();
    let with = |key: &str, value: serde_json::Value| {
        let mut object = good.clone();
        object[key] = value;
        object.to_string().into_bytes()
    };
    let raw = |key: &str, value: &str| {
        let mut object = good.clone();
        object[key] = "HERE".into();
        object.to_string().replace("\"HERE\"", value).into_bytes()
    };
    let json = "it is not the JSON of a configuration: ";
    let mut faults = Vec::new();
    for (case, contents, expected) in [
        ("vocabulary of 0", with("vocab_size", 0.into()), "vocabulary_size is 0: it must be at least 1".into()),
        (
            "vocabulary of 10^18",
            with("vocab_size", 10u64.pow(18).into()),
            "vocabulary_size is 1000000000000000000: the largest supported is 16777216".into(),
        ),
        (
            "vocabulary of 10^30",
            raw("vocab_size", &format!("1{}", "0".repeat(30))),
            "vocab_size is 1e+30: it must be a whole number".into(),
        ),
        ("heads of 0", with("n_head", 0.into()), "heads is 0: it must be at least 1".into()),
        (
            "heads that do not divide",
            with("n_head", 3.into()),
            "3 heads do not divide width 8: choose a width that is a multiple of the heads".into(),
        ),
        (
            "layers of 10^9",
            with("n_layer", 1_000_000_000.into()),
            "layers is 1000000000: the largest supported is 1024".into(),
        ),
        ("layers below 0", with("n_layer", (-1).into()), "n_layer is -1: it must be a whole number".into()),
        (
            "context of 10^9",
            raw("n_positions", "1000000000,\"n_ctx\":1000000000"),
            json.to_string() + "the key \"n_ctx\" stands twice",
        ),
        (
            "width of 10^9",
            with("n_embd", 1_000_000_000.into()),
            "width is 1000000000: the largest supported is 65536".into(),
        ),
        (
            "MLP of 10^9",
            with("n_inner", 1_000_000_000.into()),
            "mlp_width is 1000000000: the largest supported is 1048576".into(),
        ),
        (
            "epsilon of 0",
            with("layer_norm_epsilon", 0.into()),
            "layer_norm_epsilon is 0.0: it must be at least 1.1754944e-38 and below 1".into(),
        ),
        ("epsilon of 1e400", raw("layer_norm_epsilon", "1e400"), json.to_string() + "number out of range"),
        (
            "type that clears the screen",
            with("model_type", "\u{1b}[2J\u{202e}".into()),
            "model_type \"\\u001b[2J\\u{202e}\" is not supported: only \"gpt2\" is".into(),
        ),
        ("endless type name", with("model_type", "x".repeat(200_000).into()), "model_type \"xxx".into()),
        ("text instead of an object", format!("\"{}\"", "x".repeat(200_000)).into(), json.to_string() + "\"xxx"),
        ("key twice", raw("n_layer", "1,\"n_layer\":2"), json.to_string() + "the key \"n_layer\" stands twice"),
        ("deep nesting of keys", "[".repeat(1 << 17).into(), json.to_string() + "EOF while parsing a list"),
        (
            "deep nesting of a value",
            raw("n_layer", &format!("{}{}", "[".repeat(1 << 16), "]".repeat(1 << 16))),
            json.to_string() + "recursion limit exceeded",
        ),
        ("list for the whole", "[0]".into(), json.to_string() + "[0] where an object with model_type"),
        (
            "object that a parser takes for a number",
            raw("n_layer", r#"{"$serde_json::private::Number":"2"}"#),
            "n_layer is {\"$serde_json::private::Number\":\"2\"}: it must be a whole number".into(),
        ),
        ("list of 10^5 values", raw("n_layer", &format!("[{}0]", "0,".repeat(100_000))), "n_layer is [0,0,".into()),
        ("configuration that is no text", b"\xff{}".to_vec(), "it is not UTF-8 at byte 0".into()),
        ("configuration that is empty", Vec::new(), json.to_string() + "EOF while parsing a value"),
        // What can be built is held against the weights before anything is made for it.
        ("a thousand layers without weights", with("n_layer", 1024.into()), String::new()),
        ("four billion parameters without weights", with("vocab_size", (1 << 24).into()), String::new()),
    ] {
        let room = damaged_model("config.json", contents);
        let expected = match expected.is_empty() {
            true => "model/model.safetensors does not hold the expected tensors: ".to_string(),
            false => format!("model/config.json: {expected}"),
        };
        faults.extend(fault(&room, case, "generate --model model", &expected));
    }
    none(faults);
    let room = damaged_model("config.json", " ".repeat(1 << 20));
    refused(
        &room,
        "configuration of a mebibyte",
        "generate --model model",
        "cannot read model/config.json: larger than the 262144 bytes that such a file may have",
    );
}
