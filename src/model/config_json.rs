//! `config.json` in Hugging Face's form of a GPT-2. Knows which of its options change what the model computes.

use serde_json::{Map, Value, json};

use crate::json::parse;
use crate::model::config::{ConfigError, GptConfig};
use crate::printable::printable;

/// How an error cuts a parser's reason, which may quote the file.
const REASON_LIMIT: usize = 300;

/// Options with one supported value each: key, the values that mean it, how an error names them. An absent or null
/// key has Hugging Face's default, which is the supported one.
const OPTIONS: [(&str, &[&str], &str); 7] = [
    ("activation_function", &["gelu_new", "gelu_pytorch_tanh"], "\"gelu_new\""),
    ("tie_word_embeddings", &["true"], "true"),
    ("scale_attn_weights", &["true"], "true"),
    ("scale_attn_by_inverse_layer_idx", &["false"], "false"),
    ("reorder_and_upcast_attn", &["false"], "false"),
    ("add_cross_attention", &["false"], "false"),
    ("is_encoder_decoder", &["false"], "false"),
];

/// Options of which any value but an absent, null or empty one changes the model.
const REFUSED: [&str; 2] = ["pruned_heads", "quantization_config"];

/// The `model_type` of a model with an attention of its own: one that other software refuses, since its weights under
/// GPT-2's attention would be another model.
pub const EDITED_MODEL_TYPE: &str = "headlight_edited_attention";

/// Tells an `attention.star` that was changed from the one that the weights were trained with.
const ATTENTION_FINGERPRINT: &str = "attention_fingerprint";

pub(super) fn write(config: &GptConfig) -> String {
    let (model_type, architecture) = match config.attention {
        None => ("gpt2", "GPT2LMHeadModel"),
        Some(_) => (EDITED_MODEL_TYPE, "HeadlightEditedAttention"),
    };
    let mut object = json!({
        "model_type": model_type,
        "architectures": [architecture],
        "vocab_size": config.vocabulary_size,
        "n_positions": config.context_length,
        "n_ctx": config.context_length,
        "n_embd": config.width,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": config.mlp_width,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "initializer_range": 0.02,
        "attn_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "resid_pdrop": 0.0,
        "scale_attn_weights": true,
        "scale_attn_by_inverse_layer_idx": false,
        "reorder_and_upcast_attn": false,
        "add_cross_attention": false,
        "tie_word_embeddings": true,
        // The tokenizers here have no such tokens; left out, the defaults would lie outside the vocabulary.
        "bos_token_id": null,
        "eos_token_id": null,
        "torch_dtype": "float32",
        "use_cache": true,
    });
    if let Some(attention) = &config.attention {
        object[ATTENTION_FINGERPRINT] = json!(attention.fingerprint());
    }
    // The alternate form of a JSON value is its indented text.
    format!("{object:#}\n")
}

/// The sizes that a text holds, and the fingerprint of the model's own attention, which lies beside it, if it has one.
pub(super) fn read(text: &str) -> Result<(GptConfig, Option<String>), ConfigError> {
    let object = match parse(text) {
        Ok(Value::Object(object)) => object,
        Ok(other) => {
            let found = shown(&other);
            let reason =
                format!("{found} where an object with model_type, vocab_size and the other keys of a GPT-2 is needed");
            return Err(ConfigError::Json { reason });
        }
        Err(error) => return Err(ConfigError::Json { reason: printable(&error.to_string(), REASON_LIMIT) }),
    };
    let edited = match object.get("model_type") {
        Some(Value::String(name)) if name == "gpt2" => false,
        Some(Value::String(name)) if name == EDITED_MODEL_TYPE => true,
        Some(value) => return Err(unsupported("model_type", value, "\"gpt2\"")),
        None => return Err(ConfigError::Missing { key: "model_type" }),
    };
    for (key, allowed, supported) in OPTIONS {
        if let Some(value) = set(&object, key) {
            let written = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            if !allowed.contains(&written.as_str()) {
                return Err(unsupported(key, value, supported));
            }
        }
    }
    for key in REFUSED {
        if let Some(value) = set(&object, key).filter(|value| **value != json!({})) {
            return Err(unsupported(key, value, "leaving it out"));
        }
    }
    let width = size(&object, "n_embd")?;
    let context_length = size(&object, "n_positions")?;
    if let Some(value) = set(&object, "n_ctx").filter(|value| value.as_u64() != Some(context_length as u64)) {
        return Err(unsupported("n_ctx", value, "the value of n_positions"));
    }
    let config = GptConfig {
        vocabulary_size: size(&object, "vocab_size")?,
        context_length,
        layers: size(&object, "n_layer")?,
        heads: size(&object, "n_head")?,
        width,
        mlp_width: match set(&object, "n_inner") {
            Some(_) => size(&object, "n_inner")?,
            None => width.saturating_mul(4),
        },
        layer_norm_epsilon: match set(&object, "layer_norm_epsilon") {
            Some(value) => value.as_f64().ok_or_else(|| ConfigError::Type {
                key: "layer_norm_epsilon",
                value: shown(value),
                expected: "a number",
            })?,
            None => 1e-5,
        },
        attention: None,
    };
    if !edited {
        return Ok((config, None));
    }
    match set(&object, ATTENTION_FINGERPRINT) {
        Some(Value::String(fingerprint)) => Ok((config, Some(fingerprint.clone()))),
        Some(value) => Err(ConfigError::Type { key: ATTENTION_FINGERPRINT, value: shown(value), expected: "a text" }),
        None => Err(ConfigError::Missing { key: ATTENTION_FINGERPRINT }),
    }
}

fn set<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

fn size(object: &Map<String, Value>, key: &'static str) -> Result<usize, ConfigError> {
    let value = set(object, key).ok_or(ConfigError::Missing { key })?;
    value.as_u64().and_then(|number| usize::try_from(number).ok()).ok_or_else(|| ConfigError::Type {
        key,
        value: shown(value),
        expected: "a whole number",
    })
}

fn unsupported(key: &'static str, value: &Value, supported: &'static str) -> ConfigError {
    ConfigError::Unsupported { key, value: shown(value), supported }
}

/// A value as an error quotes it: on one line, and never longer than a line.
fn shown(value: &Value) -> String {
    printable(&value.to_string(), 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_and_carries_the_names_of_hugging_face() {
        let mut config = GptConfig::new(65, 64, 4, 4, 128).unwrap();
        config.mlp_width = 300;
        config.layer_norm_epsilon = 1e-6;
        let text = config.to_json();
        assert_eq!(GptConfig::from_json(&text), Ok(config));
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["architectures"], json!(["GPT2LMHeadModel"]));
        assert_eq!(object["n_inner"], json!(300));
    }

    #[test]
    fn the_published_configuration_of_gpt2_is_read_with_its_defaults() {
        let config = GptConfig::from_json(
            r#"{"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
                "bos_token_id": 50256, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024,
                "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "n_inner": null,
                "task_specific_params": {"text-generation": {"max_length": 50}}, "vocab_size": 50257}"#,
        );
        assert_eq!(config, GptConfig::new(50257, 1024, 12, 12, 768));
    }

    #[test]
    fn what_is_not_built_or_not_there_is_refused_by_name() {
        let good = json!({"model_type": "gpt2", "vocab_size": 65, "n_positions": 32, "n_embd": 32, "n_layer": 2,
            "n_head": 4});
        assert!(GptConfig::from_json(&good.to_string()).is_ok());
        for (key, value, expected) in [
            ("model_type", json!("llama"), "model_type \"llama\" is not supported: only \"gpt2\" is"),
            ("model_type", json!(7), "model_type 7 is not supported: only \"gpt2\" is"),
            (
                "activation_function",
                json!("relu"),
                "activation_function \"relu\" is not supported: only \"gelu_new\" is",
            ),
            (
                "scale_attn_by_inverse_layer_idx",
                json!(true),
                "scale_attn_by_inverse_layer_idx true is not supported: only false is",
            ),
            ("reorder_and_upcast_attn", json!(true), "reorder_and_upcast_attn true is not supported: only false is"),
            ("scale_attn_weights", json!(false), "scale_attn_weights false is not supported: only true is"),
            ("tie_word_embeddings", json!(false), "tie_word_embeddings false is not supported: only true is"),
            ("add_cross_attention", json!(true), "add_cross_attention true is not supported: only false is"),
            ("pruned_heads", json!({"1": [0]}), "pruned_heads {\"1\":[0]} is not supported: only leaving it out is"),
            ("n_ctx", json!(64), "n_ctx 64 is not supported: only the value of n_positions is"),
            ("n_layer", json!(null), "n_layer is missing"),
            ("n_layer", json!(-1), "n_layer is -1: it must be a whole number"),
            ("n_layer", json!(1.5), "n_layer is 1.5: it must be a whole number"),
            ("n_layer", json!("2"), "n_layer is \"2\": it must be a whole number"),
            ("n_layer", json!(1_000_000_000), "layers is 1000000000: the largest supported is 1024"),
            ("n_inner", json!(0), "mlp_width is 0: it must be at least 1"),
            ("layer_norm_epsilon", json!("x"), "layer_norm_epsilon is \"x\": it must be a number"),
            ("n_layer", json!(2.0), "n_layer is 2.0: it must be a whole number"),
            ("n_layer", json!(-0.0), "n_layer is -0.0: it must be a whole number"),
            ("n_ctx", json!(32.0), "n_ctx 32.0 is not supported: only the value of n_positions is"),
        ] {
            let mut object = good.clone();
            object[key] = value;
            let error = GptConfig::from_json(&object.to_string()).unwrap_err().to_string();
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn an_object_stands_for_no_number_and_a_number_for_no_size_that_it_only_equals() {
        let good = r#"{"model_type": "gpt2", "vocab_size": 65, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 4,
            "layer_norm_epsilon": 0.5}"#;
        assert_eq!(GptConfig::from_json(&good.replace("0.5", "0.50")), GptConfig::from_json(good));
        assert_eq!(GptConfig::from_json(&good.replace("0.5", "5e-1")), GptConfig::from_json(good));
        let number = r#"{"$serde_json::private::Number": "2"}"#;
        let text = r#"{"$serde_json::private::RawValue": "2"}"#;
        for (from, to, expected) in [
            (
                "_layer\": 2",
                format!("_layer\": {number}"),
                "n_layer is {\"$serde_json::private::Number\":\"2\"}: it must be",
            ),
            (
                "_layer\": 2",
                format!("_layer\": {text}"),
                "n_layer is {\"$serde_json::private::RawValue\":\"2\"}: it must be",
            ),
            ("0.5", number.to_string(), "layer_norm_epsilon is {\"$serde_json::private::Number\":\"2\"}: it must be"),
            ("_layer\": 2", "_layer\": 2e0".into(), "n_layer is 2.0: it must be a whole number"),
            ("_layer\": 2", "_layer\": 2.00".into(), "n_layer is 2.0: it must be a whole number"),
            ("_layer\": 2", "_layer\": -0".into(), "n_layer is -0.0: it must be a whole number"),
            ("_layer\": 2", format!("_layer\": {}", "9".repeat(300)), "n_layer is 1e+300: it must be a whole number"),
        ] {
            let error = GptConfig::from_json(&good.replacen(from, &to, 1)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_default_written_out_or_null_is_the_same_as_absent() {
        let text = r#"{"model_type": "gpt2", "vocab_size": 65, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 4,
            "pruned_heads": {}, "activation_function": "gelu_pytorch_tanh", "quantization_config": null, "n_ctx": 32}"#;
        assert_eq!(GptConfig::from_json(text), GptConfig::new(65, 32, 2, 4, 32));
    }

    #[test]
    fn text_that_is_no_json_object_is_refused() {
        let long = format!("\"{}\"", "x".repeat(100_000));
        let deep = format!("{{\"n_layer\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let open = format!("{{\"n_layer\": {}", "[".repeat(100_000));
        let digits = format!("{{\"n_layer\": {}}}", "9".repeat(1000));
        for (text, expected) in [
            ("", "EOF while parsing a value at line 1 column 0"),
            ("[]", "[] where an object with model_type, vocab_size and the other keys of a GPT-2 is needed"),
            ("1e2", "100.0 where an object with model_type"),
            ("{", "EOF while parsing an object"),
            ("nul", "EOF while parsing a value"),
            (&long, "\"xxx"),
            (&deep, "recursion limit exceeded at line 1 column 140"),
            (&open, "EOF while parsing a list"),
            ("{\"n_layer\": 2, \"n_layer\": 3}", "the key \"n_layer\" stands twice in the object at line 1"),
            ("{\"\\u001b[2J\": 2, \"\\u001b[2J\": 3}", "the key \"\\u{1b}[2J\" stands twice in the object at line 1"),
            ("{\"n_layer\": 1e400}", "number out of range at line 1 column 13"),
            ("{\"attn_pdrop\": -1e400}", "number out of range"),
            (&digits, "number out of range"),
        ] {
            let error = GptConfig::from_json(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("it is not the JSON of a configuration: {expected}")), "{error}");
            assert!(!error.contains(['\n', '\u{1b}']) && error.len() < 400, "{error}");
        }
    }
}
