//! `headlight check`: an attention file against the closed form.

use serde_json::Value;

use crate::room::{Room, devices};

#[test]
fn the_reference_passes_on_every_device_and_says_that_this_is_no_proof() {
    let room = Room::new();
    for device in devices() {
        let text = room.run(&format!("check builtin:reference --trace --device {device}")).fine();
        for words in [
            "reference.star against the closed form",
            "output  f64     agrees",
            "dv      f32     agrees",
            "in f32 it runs fused",
            "no line departs from the reference",
            "outputs before a change, T=64, f64 do not move",
            "strong evidence, not proof",
        ] {
            assert!(text.contains(words), "{device}: {words}\n{text}");
        }
        assert_eq!(text.contains("no adapter"), *device == "cpu", "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 160), "{text}");
    }
}

#[test]
fn a_bug_fails_with_its_diagnosis_on_every_device() {
    let room = Room::new();
    for device in devices() {
        for (name, words) in [
            ("no_scale", "WRONG: the scores are 8.0 times as large as q k^T / sqrt(d_head)"),
            (
                "no_row_maximum",
                "WRONG: with 100 added to every score, 512 of the output's 512 numbers are not finite in f32",
            ),
            ("wrong_axis", "WRONG: columns sum to 1, and rows to "),
            ("missing_transpose", "WRONG: it runs only where T = d_head"),
        ] {
            let ended = room.run(&format!("check builtin:bugs/{name} --device {device}"));
            assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
            assert!(ended.stdout.contains(words), "{device}: {words}\n{}", ended.stdout);
            assert!(ended.stderr.is_empty(), "{}", ended.stderr);
        }
    }
}

#[test]
fn a_file_is_compared_with_another() {
    let room = Room::new();
    let reference = include_str!("../../assets/attention/reference.star");
    room.write("mine.star", reference);
    room.write("other.star", reference.replace("cfg.d_head)", "cfg.d)"));
    let text = room.run("check mine.star --against builtin:reference --device cpu").fine();
    assert!(text.starts_with("mine.star against reference.star\n"), "{text}");
    assert!(text.contains("PASSED: it agrees with reference.star on 13 random inputs"), "{text}");
    let ended = room.run("check mine.star --against other.star --device cpu");
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("FAILED: it is not other.star"), "{}", ended.stdout);
    // Different, and perhaps on purpose: the line is named, and nothing is claimed.
    let ended = room.run("check builtin:alibi --device cpu");
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    for words in [
        " is the first that departs: ",
        "FAILED: it is not the reference; nothing measured tells a mistake from a different function: --trace shows every line",
    ] {
        assert!(ended.stdout.contains(words), "{words}\n{}", ended.stdout);
    }
}

#[test]
fn json_is_one_object_with_every_number() {
    let room = Room::new();
    let ended = room.run("check builtin:bugs/leaks_one_token --json --trace --device cpu");
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["passed"], false);
    assert_eq!(report["rows"].as_array().unwrap().len(), 8);
    assert_eq!(report["findings"][0]["kind"], "looks_ahead");
    assert_eq!(report["measured"]["theirs"]["reach"], 1);
    assert_eq!(report["measured"]["reference"]["reach"], 0);
    assert_eq!(report["causality"][0]["moved"], 15);
    assert_eq!(report["trace"]["departure"]["op"], "where");
    assert_eq!(report["f32_on_adapter"], false);
}

#[test]
fn what_cannot_be_checked_is_one_line_with_its_place() {
    let room = Room::new();
    room.write("typo.star", "def attention(x, q, k, v, ops, cfg):\n    return ops.softmx(q)\n");
    room.write("syntax.star", "def attention(x, q, k, v, ops, cfg)\n    return q\n");
    room.write("shape.star", "def attention(x, q, k, v, ops, cfg):\n    return ops.split_heads(q, cfg.heads)\n");
    room.write("bytes.star", b"\xff");
    for (line, expected) in [
        ("check typo.star", "typo.star:2:12: ops has no softmx; did you mean ops.softmax?"),
        ("check syntax.star", "syntax.star:"),
        ("check shape.star", "shape.star:2:12: attention returned [1,2,64,64], wanted [B,T,d] = [1,64,128]"),
        ("check missing.star", "missing.star: cannot be opened: "),
        ("check bytes.star", "bytes.star: it is not UTF-8 at byte 0"),
        ("check builtin:nothing", "builtin:nothing: there is no such attention; there are reference, alibi, "),
        ("check builtin:reference --against typo.star", "typo.star:2:12: ops has no softmx"),
    ] {
        let ended = room.run(&format!("{line} --device cpu"));
        assert!(ended.error().starts_with(expected), "{line}: {}", ended.error());
    }
}
