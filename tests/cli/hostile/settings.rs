//! Hostile settings.

use super::{fault, none, refused};
use crate::room::Room;

#[test]
fn hostile_settings_are_refused() {
    let billion = 1_000_000_000;
    let list = |item: &str, count: usize| format!("data = [{}]", vec![item; count].join(","));
    let mut faults = Vec::new();
    for (case, contents, expected) in [
        (
            "layers of 10^9 asked for",
            format!("layers = {billion}"),
            "layers is 1000000000: the largest supported is 1024",
        ),
        (
            "heads of 10^9 asked for",
            format!("heads = {billion}"),
            "heads is 1000000000: the largest supported is 65536",
        ),
        (
            "width of 10^9 asked for",
            format!("width = {billion}"),
            "width is 1000000000: the largest supported is 65536",
        ),
        (
            "context of 10^9 asked for",
            format!("context_length = {billion}\nbatch = 1"),
            "context_length is 1000000000: the largest supported is 1048576",
        ),
        (
            "batch of 10^9 asked for",
            format!("batch = {billion}"),
            "batch 1000000000 times context_length 64 is 64000000000 tokens: at most 2147483647 fit",
        ),
        (
            "accumulation of 10^9 asked for",
            format!("accumulation = {billion}"),
            "accumulation is 1000000000: the largest is 65536",
        ),
        (
            "corpus of 10^9 bytes asked for",
            format!("corpus_bytes = {billion}"),
            "corpus_bytes is 1000000000: the largest is 268435456",
        ),
        (
            "sample of 10^9 tokens asked for",
            format!("sample_length = {billion}"),
            "sample_length is 1000000000: the largest is 1048576",
        ),
        (
            "model of 10^12 parameters asked for",
            "layers = 1024\nwidth = 65536\nheads = 64".into(),
            "the model would have ",
        ),
        ("negative steps", "steps = -1".into(), "hostile.toml:1: invalid value: integer `-1`, expected u64"),
        (
            "negative rate",
            "learning_rate = -1e300".into(),
            "learning_rate is -1e300: it must be a finite number above 0",
        ),
        (
            "rate that is no number",
            "learning_rate = nan".into(),
            "learning_rate is NaN: it must be a finite number above 0",
        ),
        (
            "integer beyond 2^64",
            "batch = 99999999999999999999".into(),
            "hostile.toml:1: invalid type: integer `99999999999999999999`",
        ),
        (
            "fraction for a count",
            "batch = 1e9".into(),
            "hostile.toml:1: invalid type: floating point `1000000000.0`, expected usize",
        ),
        ("list for a count", "batch = [1]".into(), "hostile.toml:1: invalid type: sequence, expected usize"),
        ("table for a count", "[batch]\nx = 1".into(), "hostile.toml:1: invalid type: map, expected usize"),
        ("number for a text", "device = 3".into(), "hostile.toml:1: invalid type: integer `3`, expected a string"),
        (
            "endless text for a count",
            format!("\nbatch = \"{}\"", "x".repeat(240_000)),
            "hostile.toml:2: invalid type: string \"xxx",
        ),
        ("endless key", format!("{} = 1", "k".repeat(240_000)), "hostile.toml:1: unknown field `kkk"),
        (
            "key that clears the screen",
            "\"\\u001b[2J\\u202e\" = 1".into(),
            "hostile.toml:1: unknown field `\\u{1b}[2J\\u{202e}`, expected one of `preset`",
        ),
        (
            "deep nesting of lists",
            format!("data = {}", "[".repeat(240_000)),
            "hostile.toml:1: cannot recurse further; max recursion depth met",
        ),
        (
            "deep nesting of tables",
            format!("data = {}", "{a=".repeat(120_000)),
            "hostile.toml:1: cannot recurse further; max recursion depth met",
        ),
        ("deep nesting of keys asked for", format!("{}a = 1", "a.".repeat(240_000)), "hostile.toml:1: recursion limit"),
        (
            "list of numbers for texts",
            list("0", 240_000),
            "hostile.toml:1: invalid type: integer `0`, expected a string",
        ),
        ("list of empty names", list("''", 120_000), "data is [\"\", \"\""),
        (
            "fifty thousand keys",
            (0..50_000).map(|i| format!("k{i}=0\n")).collect(),
            "hostile.toml:1: unknown field `k0`",
        ),
        (
            "fifty thousand tables",
            (0..50_000).map(|i| format!("[k{i}]\n")).collect(),
            "hostile.toml:1: unknown field `k0`",
        ),
        (
            "thirty thousand dotted keys",
            (0..30_000).map(|i| format!("a.b{i}.c=0\n")).collect(),
            "hostile.toml:1: unknown field `a`",
        ),
        ("key twice asked for", "steps = 1\nsteps = 2".into(), "hostile.toml:2: duplicate key"),
        ("file that clears the screen", "data = [\"\\u001b[2J\"]".into(), "cannot read \\u{1b}[2J: "),
        ("file with a zero in its name", "data = [\"a\\u0000b\"]".into(), "cannot read a\\0b: "),
        (
            "corpus that clears the screen",
            "data = [\"builtin:\\u001b[2J\"]".into(),
            "there is no built-in corpus \"\\u{1b}[2J\": there are ",
        ),
    ] {
        let room = Room::new();
        room.write("hostile.toml", contents);
        faults.extend(fault(&room, case, "train --config hostile.toml", expected));
    }
    none(faults);
    let room = Room::new();
    room.write("hostile.toml", b"steps = 5\nout = \"\xff\"");
    refused(
        &room,
        "settings that are no text",
        "train --config hostile.toml",
        "hostile.toml: it is not UTF-8 at byte 17",
    );
    room.write("hostile.toml", "#".repeat(2 << 20));
    refused(
        &room,
        "settings of two mebibytes",
        "train --config hostile.toml",
        "cannot read hostile.toml: larger than the 524288 bytes that such a file may have",
    );
}
