//! `headlight memory`

use crate::room::{Room, devices};

/// A model small enough for every device.
const SMALL: &str = "--preset tiny --layers 1 --heads 2 --width 8 --batch 1 --data builtin:names";

#[test]
fn a_step_makes_what_was_predicted_and_the_report_says_so_on_every_device() {
    for device in devices() {
        let line = format!("memory {SMALL} --contexts 8..32 --measure --device {device}");
        let report = Room::new().run(&line).fine();
        let numbers = |before: &str| -> Vec<&str> {
            report.lines().filter_map(|line| line.split_once(before)?.0.rsplit(' ').next()).collect()
        };
        assert_eq!(numbers(" bytes were made").len(), 6, "{report}");
        assert_eq!(numbers(" bytes were made"), numbers(" bytes, one binding a buffer"), "{report}");
        let growth = "from T=16 to 32 the scores of naive grew 4.0x, the log-sum-exp of fused grew 2.0x";
        assert!(report.contains(growth), "{report}");
    }
}

#[test]
fn a_function_of_ones_own_stands_beside_its_fused_form_and_the_ledger_lists_its_tensors() {
    let room = Room::new();
    let line = format!("memory {SMALL} --contexts 16 --attention builtin:alibi --ledger --device cpu");
    let report = room.run(&line).fine();
    assert!(report.contains("builtin:alibi,naive: ") && report.contains("builtin:alibi: "), "{report}");
    let scores = "h.0.attn.scaled_masked_softmax [1, 2, 16, 16], 2048, micro_step ";
    assert!(report.contains(scores), "{report}");
}

#[test]
fn what_does_not_fit_is_refused_by_name_and_the_largest_that_does_is_told() {
    let room = Room::new();
    let line = format!("memory {SMALL} --contexts 64,1048576 --memory-limit 1MiB --device cpu --out report");
    let report = room.run(&line).fine();
    assert!(report.contains(" refused: it needs "), "{report}");
    assert!(report.contains(" bytes in all and there are 1048576 by --memory-limit"), "{report}");
    assert!(report.contains("naive: the largest T that fits is "), "{report}");
    let json: serde_json::Value = serde_json::from_str(&room.text("report/memory.json")).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    let largest = |at: usize| json["fits"][at]["largest_context_length"].as_u64().unwrap();
    assert!(largest(0) >= 64 && largest(0) < largest(1), "{json}");
    // 2 heads, 2^20 queries and keys, four bytes.
    let scores = rows[2]["predicted"]["attention_scores_bytes"].as_u64().unwrap();
    assert_eq!((&rows[2]["context_length"], scores % (8 << 40)), (&serde_json::json!(1 << 20), 0), "{json}");
    assert!(scores >= 8 << 40, "{json}");
    assert_eq!(room.text("report/memory.csv").lines().count(), 5);
}

#[test]
fn bad_input_is_one_line_that_says_what_would_be_right() {
    let room = Room::new();
    for (line, expected) in [
        ("memory --contexts 2000000", "--contexts names 2000000: the longest is 1048576"),
        ("memory --contexts 8 --heads 3 --width 8", "3 heads do not divide width 8"),
        ("memory --contexts 8 --batch 0", "batch is 0: it must be at least 1"),
        ("memory --contexts 8 --attention none.star", "none.star"),
        ("memory --contexts 8 --data none.txt", "none.txt"),
    ] {
        let ended = room.run(line);
        let error = ended.error();
        assert!(error.contains(expected), "{line}: {error}");
    }
}
