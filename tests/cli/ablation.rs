//! `headlight map --ablate`: a model without one of its heads.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::room::{Ended, NAMES, Room, TOY, copy_directory, devices};

/// A toy with two layers of two heads, trained once.
fn two_by_two() -> &'static Path {
    static TRAINED: OnceLock<PathBuf> = OnceLock::new();
    TRAINED.get_or_init(|| {
        let room = Room::new();
        let toy = TOY.replace("--layers 1 --heads 1", "--layers 2 --heads 2").replace("--steps 6", "--steps 60");
        room.run(&format!("train {toy} {NAMES} --qk-init unit --out run")).fine();
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("two-by-two");
        if kept.exists() {
            std::fs::remove_dir_all(&kept).unwrap();
        }
        copy_directory(&room.path("run"), &kept);
        kept
    })
}

fn ablate(room: &Room, device: &str, more: &[&str]) -> Ended {
    let words = ["--device", device, "--model", two_by_two().to_str().unwrap()];
    room.run_with("map --text Balesdo", &[&words, more].concat())
}

/// The rows of a table: the name of each, and its loss.
fn losses(printed: &str) -> Vec<(String, f64)> {
    let rows = printed.lines().skip(1).take_while(|line| !line.is_empty());
    let row = |line: &str| {
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        (cells[0].to_string(), cells[1].parse().unwrap())
    };
    rows.map(row).collect()
}

#[test]
fn every_head_has_a_row_that_any_device_fills_with_the_same_numbers() {
    let room = Room::new();
    let whole = {
        let model = two_by_two().to_str().unwrap();
        let words = ["--model", model, "--text", "Balesdo", "--format", "json"];
        let report: serde_json::Value =
            serde_json::from_str(&room.run_with("logits --device cpu", &words).fine()).unwrap();
        report["loss_mean"].as_f64().unwrap()
    };
    let mut found = Vec::new();
    for device in devices() {
        let printed = ablate(&room, device, &["--ablate", "all"]).fine();
        let heading = printed.lines().next().unwrap();
        assert!(heading.starts_with("without") && heading.contains("most likely next"), "{printed}");
        let rows = losses(&printed);
        let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["no head", "0.0", "0.1", "1.0", "1.1"], "{printed}");
        assert!((rows[0].1 - whole).abs() < 1e-3, "{printed}");
        for (at, (name, loss)) in rows.iter().enumerate().skip(1) {
            let rise = printed.lines().nth(at + 1).unwrap().split_whitespace().nth(2).unwrap();
            assert!((rise.parse::<f64>().unwrap() - (loss - rows[0].1)).abs() < 2e-4, "{name}: {printed}");
        }
        assert!(printed.lines().last().unwrap().starts_with("the text needs "), "{printed}");
        found.push(rows);
    }
    for rows in &found {
        for ((name, loss), (_, on_cpu)) in rows.iter().zip(&found[0]) {
            assert!((loss - on_cpu).abs() < 1e-3, "{name}: {found:?}");
        }
    }
    let different = found[0].iter().skip(1).filter(|(_, loss)| (loss - found[0][0].1).abs() >= 1e-4).count();
    assert!(different >= 2, "hardly any head counts: {found:?}");
}

#[test]
fn one_head_is_a_row_of_its_own() {
    let room = Room::new();
    let all = losses(&ablate(&room, "cpu", &["--ablate", "all"]).fine());
    let one = losses(&ablate(&room, "cpu", &["--ablate", "1.0"]).fine());
    assert_eq!(one, [all[0].clone(), all[3].clone()]);
}

#[test]
fn the_table_is_written_as_json_with_every_number_in_full() {
    let room = Room::new();
    let printed = ablate(&room, "cpu", &["--ablate", "all", "--out", "without.json"]).fine();
    assert!(printed.ends_with("written to without.json\n"), "{printed}");
    let report: serde_json::Value = serde_json::from_str(&room.text("without.json")).unwrap();
    assert_eq!(report["tokens"][1], "a");
    let whole = report["whole"]["loss_mean"].as_f64().unwrap();
    let rows = losses(&printed);
    assert!((whole - rows[0].1).abs() < 1e-4, "{printed}");
    let heads = report["heads"].as_array().unwrap();
    assert_eq!(heads.len(), 4);
    for (head, (name, loss)) in heads.iter().zip(&rows[1..]) {
        assert_eq!(&format!("{}.{}", head["layer"], head["head"]), name);
        let mean = head["loss_mean"].as_f64().unwrap();
        assert!((mean - loss).abs() < 1e-4, "{name}: {head}");
        assert_eq!(head["loss_rise"].as_f64().unwrap(), mean - whole);
        for share in ["moved", "probability_of_whole_next"] {
            assert!((0.0..=1.0).contains(&head[share].as_f64().unwrap()), "{name}: {head}");
        }
        assert!(head["next"]["token"].is_string() && head["next"]["probability"].as_f64().unwrap() > 0.0, "{head}");
    }
}

#[test]
fn heads_that_are_not_there_and_flags_of_pictures_are_refused() {
    let room = Room::new();
    for (more, expected) in [
        (&["--ablate", "2.0"][..], "no head is ablated, because there is no layer 2: the model has 2, counted from 0"),
        (&["--ablate", "0.2"], "no head is ablated, because there is no head 2: the model has 2, counted from 0"),
        (&["--ablate", "1"], "a layer and a head are needed, counted from 0, as in 1.3; or all"),
        (&["--ablate", "all", "--layer", "0"], "'--ablate <L.H|all>' cannot be used with '--layer <L>'"),
        (&["--ablate", "all", "--out", "map.png"], "--out map.png: what --ablate measures is written as .json"),
        (&["--ablate", "all", "--steps"], "'--ablate <L.H|all>' cannot be used with"),
    ] {
        let ended = ablate(&room, "cpu", more);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{more:?}");
        assert!(ended.stderr.contains(expected), "{more:?}: {}", ended.stderr);
    }
    assert!(!room.path("map.png").exists());
}
