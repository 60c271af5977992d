//! Hostile files of a run that is to be resumed.

use super::{damaged_run, edited_weights, fault, none, whole};
use crate::room::{Room, copy_directory};

#[test]
fn hostile_states_of_a_run_are_refused() {
    let state = String::from_utf8(whole("last/trainer.json")).unwrap();
    let changed = |from: &str, to: &str| {
        let text = state.replacen(from, to, 1);
        assert_ne!(text, state, "{from} is not in the file");
        text.into_bytes()
    };
    let metrics = String::from_utf8(whole("metrics.jsonl")).unwrap();
    let moments = |name: &str, value: f32| {
        edited_weights("last/optimizer.safetensors", name, |bytes| bytes[4..8].copy_from_slice(&value.to_le_bytes()))
    };
    let config = String::from_utf8(whole("last/config.json")).unwrap();
    let mut faults = Vec::new();
    for (case, file, contents, expected) in [
        (
            "step below 0",
            "last/trainer.json",
            changed("\"step\": 6", "\"step\": -6"),
            "{path} is not the state of a trainer: invalid value: integer `-6`, expected u64",
        ),
        (
            "step after the last",
            "last/trainer.json",
            changed("\"step\": 6", "\"step\": 18446744073709551615"),
            "{path}: the checkpoint is at step 18446744073709551615, beyond the run's 6 steps",
        ),
        (
            "state with a key twice",
            "last/trainer.json",
            changed("\"step\": 6", "\"step\": 6, \"step\": 5"),
            "{path} is not the state of a trainer: duplicate field `step`",
        ),
        (
            "state with a key that clears the screen",
            "last/trainer.json",
            changed("\"step\": 6", "\"step\": 6, \"\\u001b[2J\\n\": 5"),
            "{path} is not the state of a trainer: unknown field `\\u{1b}[2J\\n`, expected one of",
        ),
        (
            "seconds below 0",
            "last/trainer.json",
            changed("\"elapsed_seconds\": ", "\"elapsed_seconds\": -1"),
            "{path} has elapsed_seconds -1",
        ),
        (
            "seconds beyond the numbers",
            "last/trainer.json",
            changed("\"elapsed_seconds\": ", "\"elapsed_seconds\": 1e999, \"x\": "),
            "{path} is not the state of a trainer: number out of range",
        ),
        (
            "state of another version",
            "last/trainer.json",
            changed("\"version\": 1", "\"version\": 4294967295"),
            "{path} has version 4294967295: this program reads version 1",
        ),
        (
            "deep nesting of a state",
            "last/trainer.json",
            format!("{{\"version\":1,\"state\":{}", "[".repeat(500_000)).into(),
            "{path} is not the state of a trainer: EOF while parsing a list",
        ),
        (
            "state of half a million numbers",
            "last/trainer.json",
            changed("\"settings\": {", &format!("\"settings\": {{\"x\":[{}0],", "0,".repeat(500_000))),
            "a resumed run keeps its settings, but x is none that this program has: ",
        ),
        (
            "state of many numbers",
            "last/trainer.json",
            changed("\"settings\": {", &format!("\"settings\": {{\"x\":[{}0]}},\"settings\":{{", "0,".repeat(500_000))),
            "{path} is not the state of a trainer: duplicate field `settings`",
        ),
        (
            "settings that clear the screen",
            "last/trainer.json",
            changed("\"attention\": \"fused\"", "\"attention\": \"\\u001b[2J\""),
            "a resumed run keeps its settings, but attention was \"\\u001b[2J\" and is now \"fused\"",
        ),
        (
            "tokenizer of a run with a gap",
            "last/tokenizer.json",
            whole("last/tokenizer.json").iter().map(|&byte| if byte == b'3' { b'9' } else { byte }).collect(),
            "{path}: the tokenizer.json gives ",
        ),
        (
            "other heads",
            "last/config.json",
            config.replace("\"n_head\": 1", "\"n_head\": 2").into(),
            "{path}: it describes another model than the run's settings: heads is 2 where 1 is needed",
        ),
        (
            "moment that is NaN",
            "last/optimizer.safetensors",
            moments("m.transformer.ln_f.bias", f32::NAN),
            "{path} tensor m.transformer.ln_f.bias has NaN at element 1: every number must be finite in f32",
        ),
        (
            "square below 0",
            "last/optimizer.safetensors",
            moments("v.transformer.ln_f.bias", -1.0),
            "{path} tensor v.transformer.ln_f.bias has -1 at element 1: a mean of squares is at least 0",
        ),
        (
            "moments of a weight",
            "last/optimizer.safetensors",
            whole("last/model.safetensors"),
            "{path} does not hold the expected tensors: m.transformer.wte.weight is missing; ",
        ),
        (
            "line of metrics without an end",
            "metrics.jsonl",
            "x".repeat(10 << 20).into(),
            "{path}:1: it is no line of metrics: it is longer than 4096 bytes",
        ),
        (
            "line of metrics that clears the screen",
            "metrics.jsonl",
            format!("{metrics}\"\u{1b}[2J\"\n").into(),
            "{path}:",
        ),
        (
            "step of metrics below 0",
            "metrics.jsonl",
            metrics.replacen("\"step\":0", "\"step\":-1", 1).into(),
            "{path}:1: it is no line of metrics: invalid value: integer `-1`, expected u64",
        ),
        (
            "settings of a run of 10^9 layers",
            "config.toml",
            String::from_utf8(whole("config.toml")).unwrap().replace("layers = 1", "layers = 1000000000").into(),
            "layers is 1000000000: the largest supported is 1024",
        ),
    ] {
        let room = damaged_run(file, contents);
        let expected = expected.replace("{path}", &format!("run/{file}"));
        faults.extend(fault(&room, case, "train --resume run", &expected));
    }
    none(faults);
}

#[test]
fn a_resumed_run_goes_on_from_the_largest_counts_a_state_can_hold() {
    let room = Room::new();
    room.train("run", "--stop-after 2").fine();
    let state = room.text("run/last/trainer.json");
    let set = |name: &str, value: &str| {
        let start = state.rfind(&format!("\"{name}\": ")).unwrap();
        let end = start + state[start..].find([',', '\n']).unwrap();
        (start..end, format!("\"{name}\": {value}"))
    };
    for (name, value) in [
        ("tokens", "18446744073709551615"),
        ("samples_length", "18446744073709551615"),
        ("elapsed_seconds", "1.7976931348623157e308"),
        ("best_validation_loss", "1.7976931348623157e308"),
    ] {
        let (range, text) = set(name, value);
        let mut changed = state.clone();
        changed.replace_range(range, &text);
        let other = Room::new();
        copy_directory(&room.path("run"), &other.path("run"));
        other.write("run/last/trainer.json", changed);
        let ended = other.run("train --resume run");
        assert_eq!(ended.code, Some(0), "{name}: {}", ended.stderr);
    }
}
