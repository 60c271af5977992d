//! `headlight bench`: rows of what was timed, whatever the times are.

use serde_json::Value;

use crate::room::{Room, devices};

/// Sizes and limits that take moments.
const QUICK: &str = "--seconds 0.02 --precision 50";
const ATTENTION: &str = "bench attention --contexts 8,16 --heads 2 --head-dim 8 --batch 2";

/// The numbers of a report's rows that were timed.
fn rows(room: &Room, file: &str) -> Vec<Value> {
    let report: Value = serde_json::from_slice(&room.read(file)).unwrap();
    report["rows"].as_array().unwrap().clone()
}

#[test]
fn every_attention_and_pass_has_a_row_under_its_shape_and_no_time_is_zero() {
    let room = Room::new();
    for device in devices() {
        let text = room.run(&format!("{ATTENTION} {QUICK} --device {device}")).fine();
        let version = env!("CARGO_PKG_VERSION");
        let heading = format!("headlight {version} bench attention, seed 1337\nrunning on ");
        assert!(text.starts_with(&heading), "{text}");
        assert_eq!(text.contains("at most, as measured now: "), *device == "gpu", "{text}");
        let shapes: Vec<&str> = text.lines().filter(|line| line.starts_with("B=")).collect();
        assert_eq!(shapes, ["B=2 H=2 T=8 D=8", "B=2 H=2 T=16 D=8"], "{text}");
        for (attention, pass) in
            ["naive", "fused"].into_iter().flat_map(|name| ["forward", "backward", "both"].map(|pass| (name, pass)))
        {
            let found: Vec<&str> =
                text.lines().filter(|line| line.starts_with(&format!("  {attention} {pass} "))).collect();
            assert_eq!(found.len(), 2, "{attention} {pass}: {text}");
            for line in found {
                assert!(line.contains(" wall ") || line.contains(" gpu "), "{line}");
                assert!(line.contains('±') && !line.contains(" 0.00 ") && !line.contains("n/a"), "{line}");
                // A busy machine may give one of two rows another clock, and then they are not compared.
                let compared = line.matches('x').count() + line.matches("other clock").count();
                assert_eq!(compared, usize::from(attention == "fused"), "{line}");
            }
        }
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }
}

#[test]
fn files_hold_the_rows_and_a_later_run_is_compared_with_them() {
    let room = Room::new();
    let line = format!("{ATTENTION} {QUICK} --pass forward --device cpu");
    let text = room.run(&format!("{line} --out old")).fine();
    assert!(text.ends_with("bench-attention.json and old/bench-attention.csv hold the rows\n"), "{text}");
    let kept = rows(&room, "old/bench-attention.json");
    assert_eq!(kept.len(), 4);
    for row in &kept {
        let seconds = &row["timing"]["seconds"];
        let [low, median, high] = ["low", "median", "high"].map(|key| seconds[key].as_f64().unwrap());
        assert!(0.0 < low && low <= median && median <= high, "{row}");
        assert!(seconds["samples"].as_u64().unwrap() >= 10, "{row}");
        assert_eq!(row["timing"]["clock"], "wall_clock");
        assert!(row["flops"].as_u64().unwrap() > 0 && row["rates"]["flops"].as_f64().unwrap() > 0.0, "{row}");
    }
    let csv = room.text("old/bench-attention.csv");
    let columns = csv.lines().next().unwrap().split(',').count();
    assert_eq!(csv.lines().count(), 1 + kept.len(), "{csv}");
    assert!(csv.lines().all(|line| line.starts_with("bench,") || line.starts_with("attention,")), "{csv}");
    assert!(csv.lines().skip(1).all(|line| line.split(',').count() >= columns), "{csv}");

    let narrower = line.replace("8,16", "16,32");
    let text = room.run(&format!("{narrower} --baseline old/bench-attention.json")).fine();
    assert!(text.contains("baseline: old/bench-attention.json, of the same adapter and driver"), "{text}");
    assert!(text.contains("to baseline"), "{text}");
    assert_eq!(text.matches("not in it").count(), 2, "{text}");
    assert!(text.ends_with("2 rows of the baseline have no partner here\n"), "{text}");
    for (from, to, words) in [
        ("CPU executor", "other", "it is of another adapter, other"),
        ("\"driver\": \"\"", "\"driver\": \"2.0\"", "it is of another driver, none 2.0"),
    ] {
        room.write("changed.json", room.text("old/bench-attention.json").replace(from, to));
        let text = room.run(&format!("{line} --baseline changed.json")).fine();
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn rows_are_printed_as_csv_or_as_one_object_too() {
    let room = Room::new();
    let line = format!("{ATTENTION} {QUICK} --attention naive --pass both --device cpu");
    let text = room.run(&format!("{line} --format csv")).fine();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("bench,adapter,driver,"), "{text}");
    let text = room.run(&format!("{line} --format json")).fine();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&report["bench"], &report["on"]["adapter"]), (&"attention".into(), &"CPU executor".into()));
    let shapes: Vec<&str> =
        report["rows"].as_array().unwrap().iter().map(|row| row["shape"].as_str().unwrap()).collect();
    assert_eq!(shapes, ["B=2 H=2 T=8 D=8", "B=2 H=2 T=16 D=8"]);
}

#[test]
fn what_cannot_run_is_a_row_with_its_reason_and_the_others_run() {
    let room = Room::new();
    for device in devices() {
        // It runs only where T = d_head.
        let line = format!("{ATTENTION} {QUICK} --pass forward --attention naive builtin:bugs/missing_transpose");
        let text = room.run(&format!("{line} --device {device}")).fine();
        let named: Vec<&str> =
            text.lines().filter(|line| line.starts_with("  builtin:bugs/missing_transpose forward ")).collect();
        assert_eq!(named.len(), 2, "{text}");
        assert!(!named[0].contains("n/a"), "{text}");
        assert!(named[1].contains("n/a: missing_transpose.star:"), "{text}");
        assert!(text.contains("    not fused: missing_transpose.star:"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("  naive forward ")).count(), 2, "{text}");
    }
}

#[test]
fn a_training_step_is_taken_apart_with_its_gaps() {
    let room = Room::new();
    for device in devices() {
        let settings =
            "--data builtin:names --corpus-bytes 3000 --layers 1 --heads 1 --width 8 --context-length 8 --batch 2";
        let text = room.run(&format!("bench train {settings} {QUICK} --device {device} --out here")).fine();
        assert!(text.contains("tiny step: 1 layers, 1 heads, 8 wide, B=2x1 T=8, fused\n"), "{text}");
        assert!(text.contains("\n    gaps: "), "{text}");
        let rows = rows(&room, "here/bench-train.json");
        let step = rows.iter().find(|row| row["name"] == "step").unwrap();
        let kernels: Vec<&Value> = rows.iter().filter(|row| row["name"] != "step").collect();
        let launches: u64 = kernels.iter().map(|row| row["launches"].as_u64().unwrap()).sum();
        assert_eq!(step["launches"].as_u64().unwrap(), launches, "{text}");
        assert!(kernels.iter().any(|row| row["name"].as_str().unwrap().starts_with("adamw/")), "{text}");
        assert!(kernels.iter().all(|row| row["share"].as_f64().unwrap() > 0.0), "{text}");
    }
}

#[test]
fn every_design_of_a_kernel_is_timed_on_an_adapter_or_those_that_were_named() {
    let room = Room::new();
    if devices().contains(&"gpu") {
        let text = room.run(&format!("bench matmul 65x768x128 {QUICK} --device gpu")).fine();
        assert!(text.contains("\nmatmul logits, weight gradient TN 65x768x128\n"), "{text}");
        assert!(text.contains("\n  general "), "{text}");
        let designs = text.lines().filter(|line| line.starts_with("  ") && line.contains('±')).count();
        assert!(designs > 1, "{text}");
        let text = room.run(&format!("bench kernels 65x768x128 --design general {QUICK} --device gpu")).fine();
        assert_eq!(text.lines().filter(|line| line.starts_with("  ") && line.contains('±')).count(), 1, "{text}");
    }
    let ended = room.run("bench matmul --device cpu");
    assert_eq!(
        ended.error(),
        "the designs of kernels are for adapters, and there is none to time them on (CPU executor)"
    );
}

#[test]
fn bad_input_is_one_line_and_leaves_nothing_behind() {
    let room = Room::new();
    room.write("typo.star", "def attention(x, q, k, v, ops, cfg):\n    return ops.softmx(q)\n");
    room.write("other.json", "{\"format\": 9}");
    room.write("text.json", "rows");
    room.write("in_the_way", "");
    let before = room.names("");
    for (line, expected) in [
        ("attention --heads 0", "--heads is 0: it must be at least 1"),
        ("attention --attention flash", "'flash' is no attention: it may be naive, fused, FILE.star"),
        ("attention --attention typo.star", "typo.star:2:12: ops has no softmx; did you mean ops.softmax?"),
        ("attention --baseline missing.json", "cannot open missing.json: "),
        ("attention --baseline text.json", "text.json: it is no report of headlight bench: "),
        ("attention --baseline other.json", "other.json: it is a report of format 9, this version reads format 1"),
        ("attention --out in_the_way", "cannot make the directory in_the_way: "),
        ("matmul --design fast", "there is no design 'fast'; there are general, "),
        ("train --batch 0", "batch"),
    ] {
        let ended = room.run(&format!("bench {line} --device cpu"));
        let error = ended.error();
        assert!(error.starts_with(expected), "{line}: {error}");
        assert_eq!(room.names(""), before, "{line}");
    }
    for (line, expected) in [
        ("attention --contexts 0", "error: invalid value '0' for '--contexts <T,T,..|A..B>': '0' is no context length"),
        ("attention --seconds 0", "error: invalid value '0' for '--seconds <S>': a number above 0 is needed"),
        ("fly", "error: unrecognized subcommand 'fly'"),
    ] {
        let ended = room.run(&format!("bench {line}"));
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.starts_with(expected), "{}", ended.stderr);
    }
}

/// An interrupted bench prints the rows that it has, keeps them in its files, and ends with 130.
#[cfg(unix)]
#[test]
fn an_interrupted_bench_keeps_its_rows() {
    use crate::room::Ended;

    let room = Room::new();
    let line = "bench attention --contexts 8..64 --heads 1 --head-dim 8 --device cpu --seconds 1000 \
                --precision 0.000001 --attention naive --pass forward --out here";
    let Ended { code, stdout, stderr } = room.interrupt(line, "here/bench-attention.csv", 1);
    assert_eq!(code, Some(130), "{stdout}{stderr}");
    assert_eq!(stderr, "\ninterrupted: the rows that are there come now (once more to quit at once)\n");
    assert!(stdout.ends_with("interrupted: rows that were not reached are missing\n"), "{stdout}");
    let kept = rows(&room, "here/bench-attention.json");
    assert!(!kept.is_empty() && kept.iter().any(|row| !row["timing"].is_null()), "{kept:?}");
    for row in &kept {
        assert!(stdout.contains(row["shape"].as_str().unwrap()), "{stdout}");
    }
}
