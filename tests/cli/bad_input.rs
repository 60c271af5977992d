//! What cannot be used is refused in one clear line, with exit code 2, and leaves nothing behind.

use crate::room::{NAMES, Room, TOY, copy_directory, trained};

/// Runs the program and demands that it is refused with exactly one line, which begins with `error: ` and `expected`,
/// and that the room holds what it held before.
#[track_caller]
fn refused(room: &Room, line: &str, more: &[&str], expected: &str) {
    let before = room.names("");
    let ended = room.run_with(line, more);
    let words = format!("{line} {more:?}");
    assert_eq!(ended.code, Some(2), "{words}: {}{}", ended.stdout, ended.stderr);
    // What the program runs on may be told before; the error is one line and nothing follows it.
    let errors: Vec<&str> = ended.stderr.lines().filter(|line| !line.starts_with("running on ")).collect();
    assert_eq!(errors.len(), 1, "{words}: {}", ended.stderr);
    assert!(errors[0].starts_with(&format!("error: {expected}")), "{words}: {}", errors[0]);
    assert_eq!(room.names(""), before, "{words}: something was left behind");
}

#[test]
fn text_that_cannot_be_trained_on() {
    let room = Room::new();
    room.write("bad.txt", b"ab\xc3(");
    room.write("empty.txt", "");
    room.write("thirty.txt", "abcdefghi\n".repeat(3));
    room.write("six-hundred.txt", "abcdefghi\n".repeat(60));
    for (data, expected) in [
        ("missing.txt", "cannot read missing.txt: "),
        ("bad.txt", "bad.txt is not UTF-8: invalid at byte offset 2; save it as UTF-8"),
        ("empty.txt", "empty.txt is empty: a text file with at least one character is needed"),
        (
            "thirty.txt",
            "no room for one window in the training split: have 30 tokens in the whole text, need 65 (context length 64 \
             and the token after it); ",
        ),
        (
            "six-hundred.txt",
            "no room for one window in the validation split: have 60 of the text's 600 tokens, need 65 (context length \
             64 and the token after it); ",
        ),
        (
            "builtin:shakespeare",
            "there is no built-in corpus \"shakespeare\": there are coreference, induction, names, stories",
        ),
        ("builtin:names bad.txt", "--data mixes a built-in corpus with other text: give one builtin:NAME, or files"),
        ("thirty.txt builtin:names", "--data mixes a built-in corpus with other text: give one builtin:NAME, or files"),
    ] {
        for more in ["", "--print-plan"] {
            refused(&room, &format!("train --device cpu --out run {more} --data {data}"), &[], expected);
        }
    }
}

#[test]
fn settings_that_no_run_can_use() {
    let room = Room::new();
    room.write("misspelt.toml", "steps = 5\nlearning_rat = 1e-3\n");
    room.write("heads.toml", "heads = 3\n");
    room.write("bad.toml", b"device = \"\xff\"\n");
    for (flags, expected) in [
        ("--learning-rate NaN", "learning_rate is NaN: it must be a finite number above 0"),
        ("--learning-rate -0.001", "learning_rate is -0.001: it must be a finite number above 0"),
        ("--clip inf", "clip is inf: it must be a finite number of at least 0"),
        ("--batch 0", "batch is 0: it must be at least 1"),
        ("--validation-fraction 1", "validation_fraction is 1.0: it must be above 0 and below 1"),
        ("--heads 3 --width 8", "3 heads do not divide width 8: choose a width that is a multiple of the heads"),
        ("--config heads.toml --width 8", "3 heads do not divide width 8: "),
        ("--config misspelt.toml", "misspelt.toml:2: unknown field `learning_rat`, expected one of `preset`"),
        ("--config bad.toml", "bad.toml: it is not UTF-8 at byte 10"),
        ("--config missing.toml", "cannot open missing.toml: "),
        ("--device quantum-9", "no adapter matches 'quantum-9' (backends tried: "),
    ] {
        refused(&room, &format!("train --out run {NAMES} {flags}"), &[], expected);
    }
}

#[test]
fn directories_that_hold_what_they_should_not() {
    let room = Room::new();
    room.write("occupied/config.toml", "steps = 5\n");
    room.write("plain/notes.txt", "mine");
    room.write("file", "");
    for (line, expected) in [
        (
            format!("train {TOY} {NAMES} --out occupied"),
            "occupied already holds a run (config.toml): continue it with --resume occupied, or choose another --out",
        ),
        (format!("train {TOY} {NAMES} --out file"), "file is not a directory: choose another --out"),
        ("train --resume plain".into(), "plain holds no run: it has no config.toml"),
        ("train --resume nowhere".into(), "nowhere holds no run: it has no config.toml"),
        (
            "generate --model nowhere".into(),
            "nowhere is no model: it has no config.json, and no best or last directory",
        ),
        ("generate --model plain".into(), "plain is no model: it has no config.json, and no best or last directory"),
        ("parity no-such-kernel".into(), "no kernel, design or case has 'no-such-kernel' in its name"),
        ("parity no-such-kernel --json out.json".into(), "no kernel, design or case has 'no-such-kernel' in its name"),
        ("parity --json nowhere/out.json".into(), "cannot write nowhere/out.json: "),
        (
            "parity --report budget.txt".into(),
            "budget.txt ends in neither .md nor .json: --report writes Markdown or JSON",
        ),
        ("parity --report nowhere/budget.md".into(), "cannot write nowhere/budget.md: "),
        (
            "parity no-such-kernel --report budget.md".into(),
            "no kernel, design or case has 'no-such-kernel' in its name",
        ),
        ("parity --device cpu".into(), "parity compares an adapter with the CPU reference"),
        ("man --out file".into(), "cannot write manual pages to file: "),
    ] {
        refused(&room, &line, &[], expected);
    }
    assert_eq!(room.names("occupied"), ["config.toml"]);
    assert_eq!(room.names("plain"), ["notes.txt"]);
}

#[test]
fn a_resumed_run_that_would_not_be_the_same() {
    let room = Room::new();
    copy_directory(trained(), &room.path("run"));
    let before = room.read("run/last/trainer.json");
    for (flags, expected) in [
        ("--width 16", "a resumed run keeps its settings, but width was 8 and is now 16: "),
        ("--seed 8", "a resumed run keeps its settings, but seed was 1337 and is now 8: "),
        ("--steps 9", "a resumed run keeps its settings, but steps was 6 and is now 9: "),
        (
            "--layers 2 --batch 1",
            "a resumed run keeps its settings, but layers was 1 and is now 2, batch was 2 and is now 1: ",
        ),
    ] {
        refused(&room, &format!("train --resume run {flags}"), &[], expected);
    }
    room.write("run/config.toml", "steps = \"six\"\n");
    refused(&room, "train --resume run", &[], "run/config.toml:1: invalid type: string \"six\", expected u64");
    assert_eq!(room.read("run/last/trainer.json"), before);
}

#[test]
fn a_resumed_run_whose_text_has_changed() {
    let room = Room::new();
    let text = "the quick brown fox jumps over the lazy dog\n".repeat(20);
    let path = room.write("text.txt", &text);
    room.run(&format!("train {TOY} --data text.txt --out run --stop-after 2")).fine();
    std::fs::write(&path, text.replacen('q', "Z", 20)).unwrap();
    refused(
        &room,
        "train --resume run",
        &[],
        "the vocabulary of the text is not the one the run began with: added: \"Z\"; missing: \"q\"",
    );
    std::fs::write(&path, text.replacen("fox", "ofx", 1)).unwrap();
    refused(
        &room,
        "train --resume run",
        &[],
        "the text is not the one the run began with (same vocabulary, other contents)",
    );
    std::fs::write(&path, text).unwrap();
    room.run("train --resume run").fine();
}

#[test]
fn what_cannot_be_generated() {
    let room = Room::new();
    let model = trained().to_str().unwrap();
    for (more, expected) in [
        (&["--temperature", "-1"][..], "temperature -1 is refused: 0 takes the most likely token"),
        (&["--temperature", "NaN"], "temperature NaN is refused: 0 takes the most likely token"),
        (&["--top-k", "0"], "top-k 0 leaves no token to draw: 1 is the least"),
        (&["--prompt", "ab\u{20ac}"], "the vocabulary lacks the character '\u{20ac}' (U+20AC) at position 2"),
        (&["--device", "quantum-9"], "no adapter matches 'quantum-9' (backends tried: "),
    ] {
        refused(&room, "generate --model", &[&[model], more].concat(), expected);
    }
}

#[test]
fn a_damaged_model() {
    let damage = |file: &str, contents: &[u8], expected: &str| {
        let room = Room::new();
        copy_directory(&trained().join("best"), &room.path("model"));
        room.write(&format!("model/{file}"), contents);
        refused(&room, "generate --device cpu --model model", &[], expected);
    };
    let whole = |file: &str| std::fs::read(trained().join("best").join(file)).unwrap();
    damage("config.json", b"{", "model/config.json: ");
    damage("config.json", b"{\"model_type\": \"llama\"}", "model/config.json: ");
    damage("config.json", b"\xff", "model/config.json: it is not UTF-8 at byte 0");
    let weights = whole("model.safetensors");
    damage("model.safetensors", &weights[..weights.len() / 2], "model/model.safetensors ");
    damage("model.safetensors", b"", "model/model.safetensors ");
    damage("model.safetensors", &[0xff; 100], "model/model.safetensors ");
    let mut nan = weights.clone();
    let last = nan.len() - 4;
    nan[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    damage("model.safetensors", &nan, "model/model.safetensors ");
    damage("tokenizer.json", b"[]", "model/tokenizer.json: ");
    damage("tokenizer.json", b"\xff", "model/tokenizer.json: it is not UTF-8 at byte 0");
    let room = Room::new();
    copy_directory(&trained().join("best"), &room.path("model"));
    std::fs::remove_file(room.path("model/tokenizer.json")).unwrap();
    refused(&room, "generate --device cpu --model model", &[], "model has no tokenizer.json: ");
}
