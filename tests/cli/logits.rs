//! `headlight logits`: what a model expects at each position, and what that cost it.

use serde_json::Value;

use crate::room::{Ended, Room, copy_directory, trained};

fn logits(room: &Room, more: &[&str]) -> Ended {
    let model = trained().to_str().unwrap();
    room.run_with("logits --device cpu --model", &[&[model], more].concat())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn probabilities_and_losses_are_those_of_the_trace() {
    let room = Room::new();
    let text = "Bal\nesd";
    let report: Value =
        serde_json::from_str(&logits(&room, &["--text", text, "--format", "json", "--top", "1000"]).fine()).unwrap();
    let model = trained().to_str().unwrap();
    let words = [model, "--text", text];
    room.run_with("trace --out y.safetensors --device cpu --dtype f64 --model", &words).fine();
    let traced = room.read_tensors("y.safetensors");
    let (all, losses) = (traced["logits"].values(), traced["row_loss"].values());
    let vocabulary = traced["logits"].shape[2];

    let positions = report["positions"].as_array().unwrap();
    assert_eq!(positions.len(), 7);
    let mut total = 0.0;
    for (at, (position, character)) in positions.iter().zip(text.chars()).enumerate() {
        assert_eq!(position["token"], character.to_string());
        let row = &all[at * vocabulary..(at + 1) * vocabulary];
        let sum: f64 = row.iter().map(|logit| logit.exp()).sum();
        let likely = position["most_likely"].as_array().unwrap();
        assert_eq!(likely.len(), vocabulary, "all there are, where more were asked for");
        let mut last = f64::INFINITY;
        for candidate in likely {
            let (id, probability) = (candidate["id"].as_u64().unwrap() as usize, number(&candidate["probability"]));
            assert!((probability - row[id].exp() / sum).abs() < 1e-5, "position {at}: {candidate}");
            assert!(probability <= last, "position {at}: not in order");
            last = probability;
        }
        let next = &position["next"];
        let Some(follows) = text.chars().nth(at + 1) else {
            assert!(next.is_null(), "nothing stands behind the text: {next}");
            continue;
        };
        assert_eq!(next["token"], follows.to_string());
        assert!((number(&next["loss"]) - losses[at]).abs() < 1e-4, "position {at}: {next}");
        assert!((number(&next["loss"]) + number(&next["probability"]).ln()).abs() < 1e-9, "position {at}: {next}");
        let rank = next["rank"].as_u64().unwrap() as usize;
        assert_eq!(likely[rank - 1]["token"], next["token"], "position {at}");
        total += number(&next["loss"]);
    }
    assert_eq!(report["predicted_tokens"], 6);
    assert!((number(&report["loss_sum"]) - total).abs() < 1e-9);
    assert!((number(&report["loss_mean"]) - traced["loss"].values()[0]).abs() < 1e-4);
    assert!((number(&report["perplexity"]) - (total / 6.0).exp()).abs() < 1e-9);
}

#[test]
fn the_table_has_a_row_a_position_with_labels_that_can_be_seen_and_the_losses_at_its_end() {
    let room = Room::new();
    let printed = logits(&room, &["--text", "Ba\nl", "--top", "2"]).fine();
    let lines: Vec<&str> = printed.lines().collect();
    let cells = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
    assert_eq!(lines[0].trim_end(), lines[0]);
    assert_eq!(cells(lines[0]).join(" "), "at token next loss probability rank most likely next");
    for (line, expected) in lines[1..4].iter().zip([["0", "B", "a"], ["1", "a", "⏎"], ["2", "⏎", "l"]]) {
        // Then loss, probability and rank, and two tokens with a probability each.
        assert_eq!((&cells(line)[..3], cells(line).len()), (&expected.map(String::from)[..], 3 + 3 + 4), "{line}");
    }
    assert_eq!((&cells(lines[4])[..2], cells(lines[4]).len()), (&["3", "l"].map(String::from)[..], 2 + 4), "{printed}");
    assert_eq!((lines[5], lines.len()), ("", 7), "{printed}");
    let losses: f64 = lines[1..4].iter().map(|line| cells(line)[3].parse::<f64>().unwrap()).sum();
    let words = cells(lines[6]);
    assert_eq!([&words[0], &words[2], &words[3]], ["loss", "over", "3"], "{printed}");
    assert!((words[1].parse::<f64>().unwrap() - losses).abs() < 1e-3, "{printed}");

    let alone = logits(&room, &["--text", "B"]).fine();
    assert!(alone.ends_with("\n\none token: there is nothing to predict, and no loss\n"), "{alone}");
}

#[test]
fn what_the_model_cannot_read_is_named() {
    let room = Room::new();
    for (more, expected) in [
        (&["--text", "balbalbalbal"][..], "the text has 12 tokens, and the model reads 1 to 8"),
        (&["--text", ""], "the text has 0 tokens"),
        (&["--text", "ba€"], "U+20AC"),
        (&["--text", "ba", "--top", "0"], "invalid value '0' for '--top <N>'"),
    ] {
        let ended = logits(&room, more);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{more:?}");
        assert!(ended.stderr.contains(expected), "{more:?}: {}", ended.stderr);
    }
    copy_directory(&trained().join("best"), &room.path("mute"));
    std::fs::remove_file(room.path("mute/tokenizer.json")).unwrap();
    let ended = room.run("logits --device cpu --model mute --text ba");
    assert!(ended.error().contains("has no tokenizer.json"), "{}", ended.stderr);
}
