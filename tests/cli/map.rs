//! `headlight map`: pictures of attention maps, and what stands out in them.

use crate::room::{Ended, NAMES, Room, TOY, trained};

fn map(room: &Room, more: &[&str]) -> Ended {
    let model = trained().to_str().unwrap();
    room.run_with("map --device cpu --model", &[&[model], more].concat())
}

#[test]
fn a_map_is_drawn_in_plain_characters_where_there_is_no_terminal_with_sentences_underneath() {
    let shown = map(&Room::new(), &["--text", "Balesdo"]).fine();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "layer 0, head 0");
    assert_eq!(lines[1], "  B a l e s d o");
    assert!(lines[2].starts_with("B @@"), "{shown}");
    assert_eq!(lines[8].len(), "o ".len() + 2 * 7, "{shown}");
    assert!(!shown.contains('\x1b'), "{shown}");
    assert!(shown.contains("fixed scale: weights from 0 to 1\n"), "{shown}");
    assert!(shown.ends_with("the upper triangle is empty: no query sees a later key\n"), "{shown}");
}

#[test]
fn every_kind_of_file_is_written_and_pictures_say_layer_and_head_in_their_names() {
    let room = Room::new();
    for (out, written, begins) in [
        ("map.png", "map-layer0-head0.png", &b"\x89PNG\r\n\x1a\n"[..]),
        ("map.svg", "map-layer0-head0.svg", b"<svg xmlns="),
        ("map.html", "map.html", b"<!doctype html>"),
        ("map.json", "map.json", b"{\"tokens\":[\"B\",\"a\",\"l\"]"),
        ("map.safetensors", "map.safetensors", b""),
    ] {
        let said = map(&room, &["--text", "Bal", "--out", out, "--scale", "row"]).fine();
        assert!(said.ends_with(&format!("layer 0, head 0 written to {written}\n")), "{said}");
        assert!(std::fs::read(room.path(written)).unwrap().starts_with(begins), "{written}");
    }
    let weights = room.read_tensors("map.safetensors");
    assert_eq!(weights["attn.0.0"].shape, [3, 3]);
    let json: serde_json::Value = serde_json::from_str(&room.text("map.json")).unwrap();
    let rows = json["maps"][0]["weights"].as_array().unwrap();
    assert_eq!(rows[0], serde_json::json!([1.0, null, null]));
    for (row, weights) in rows.iter().zip(weights["attn.0.0"].values().chunks(3)) {
        for (cell, &weight) in row.as_array().unwrap().iter().zip(weights) {
            assert_eq!(cell.as_f64().unwrap_or(0.0) as f32, weight as f32);
        }
    }
    assert!(room.text("map-layer0-head0.svg").contains("scale by row"));
}

#[test]
fn a_map_is_that_of_the_trace() {
    let room = Room::new();
    map(&room, &["--text", "Balesdo", "--out", "map.safetensors"]).fine();
    let model = trained().to_str().unwrap();
    let trace = ["--text", "Balesdo", "--out", "trace.safetensors"];
    room.run_with("trace --device cpu --model", &[&[model], &trace[..]].concat()).fine();
    let (map, trace) = (room.read_tensors("map.safetensors"), room.read_tensors("trace.safetensors"));
    for (rebuilt, naive) in map["attn.0.0"].values().iter().zip(trace["attn.0"].values()) {
        assert!((rebuilt - naive).abs() < 1e-5, "{rebuilt} where the trace has {naive}");
    }
}

#[test]
fn a_pattern_that_no_head_shows_is_not_found_and_nothing_is_written() {
    let room = Room::new();
    let find = |kind: &str| map(&room, &["--text", "Balesdo", "--find", kind]).fine();
    assert_eq!(find("coreference"), "coreference: none found: it is not known what refers to what\n");
    // A model of six steps looks at the token before no more than at others.
    let said = find("previous");
    assert!(said.starts_with("previous: none found (best 0.") && said.lines().count() == 1, "{said}");
    // Where a file was asked for there is none, and a script can tell.
    let ended = map(&room, &["--text", "Balesdo", "--find", "previous", "--out", "map.png"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(ended.stdout, format!("{said}map.png is not written: nothing was found\n"));
    let said = map(&room, &["--text", "Balesdo", "--find", "coreference", "--refers", "o:l"]).fine();
    assert!(said.contains("coreference: ") && said.contains("over 1 query"), "{said}");
    assert!(std::fs::read_dir(room.path("")).unwrap().next().is_none(), "something was written");
}

#[test]
fn what_cannot_be_shown_is_named() {
    let room = Room::new();
    std::fs::create_dir(room.path("taken.html")).unwrap();
    for (more, expected) in [
        (
            &["--text", "Bal", "--layer", "1"][..],
            "no map, because there is no layer 1: the model has 1, counted from 0",
        ),
        (&["--text", "Bal", "--head", "7"], "no map, because there is no head 7"),
        (&["--text", ""], "no map, because the text has 0 tokens"),
        (&["--text", "balbalbalbal"], "no map, because the text has 12 tokens, and the model reads 1 to 8"),
        (&["--text", "ba€"], "U+20AC"),
        (&["--text", "Bal", "--out", "map.gif"], "--out map.gif: the name must end in one of .png, .svg, .html"),
        (&["--text", "Bal", "--out", "taken.html"], "taken.html"),
        (&["--text", "Bal", "--refers", "l:z"], "--refers: 'z' is neither one of the 2 tokens before the query"),
    ] {
        let ended = map(&room, more);
        assert_eq!(ended.code, Some(2), "{more:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{more:?}: {}", ended.stderr);
    }
    let ended = map(&room, &["--text", "Bal", "--find", "nothing"]);
    assert!(ended.stderr.contains("there is no such kind; there are previous, sink"), "{}", ended.stderr);
}

/// A run of six steps that keeps a model of every second one.
fn kept_run(room: &Room) -> String {
    room.run(&format!("train {TOY} {NAMES} --keep-checkpoints 2 --out run")).fine();
    room.path("run").to_str().unwrap().to_string()
}

fn json(room: &Room, name: &str) -> serde_json::Value {
    serde_json::from_str(&room.text(name)).unwrap()
}

/// The numbers of a map in a JSON file, 0 where masked.
fn numbers(panel: &serde_json::Value) -> Vec<f64> {
    let called = match panel["quantity"].as_str() {
        Some("difference") => "differences",
        Some("gradient") => "gradients",
        _ => "weights",
    };
    let rows = panel["maps"][0][called].as_array().unwrap().iter();
    rows.flat_map(|row| row.as_array().unwrap()).map(|cell| cell.as_f64().unwrap_or(0.0)).collect()
}

#[test]
fn two_texts_stand_beside_each_other_with_what_is_more_in_the_second() {
    let room = Room::new();
    let shown = map(&room, &["--text", "Balesdo", "--against", "Baresdo"]).fine();
    let captions: Vec<&str> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(captions, ["first", "second", "difference"], "{shown}");
    assert!(shown.contains("l|r ") && shown.contains("tenths of the scale"), "{shown}");
    assert!(shown.contains("first, second: fixed scale: weights from 0 to 1\n"), "{shown}");
    assert!(shown.contains("difference: fixed scale: differences from -1 to 1\n"), "{shown}");
    map(&room, &["--text", "Balesdo", "--against", "Baresdo", "--out", "two.json"]).fine();
    map(&room, &["--text", "Balesdo", "--out", "first.json"]).fine();
    map(&room, &["--text", "Baresdo", "--out", "second.json"]).fine();
    let two = json(&room, "two.json");
    let [first, second, difference] = [0, 1, 2].map(|at| numbers(&two["panels"][at]));
    assert_eq!(first, numbers(&json(&room, "first.json")));
    assert_eq!(second, numbers(&json(&room, "second.json")));
    assert_eq!(two["panels"][1]["about"], "Baresdo");
    assert_eq!(two["panels"][2]["quantity"], "difference");
    for ((first, second), difference) in first.iter().zip(&second).zip(difference) {
        assert!((second - first - difference).abs() < 1e-6);
    }
    // Of texts of other lengths the tokens at both ends are compared, and none where there are none.
    let said = map(&room, &["--text", "Balesdo", "--against", "Balsdo", "--out", "two.safetensors"]).fine();
    assert!(said.ends_with("layer 0, head 0 in 3 panels written to two.safetensors\n"), "{said}");
    assert_eq!(room.read_tensors("two.safetensors")["difference.attn.0.0"].shape, [6, 6]);
    let said = map(&room, &["--text", "Bal", "--against", "esdo", "--out", "none.svg"]).fine();
    assert!(said.contains("no difference is shown: the texts have different lengths and no token in common"), "{said}");
    assert!(said.contains("in 2 panels"), "{said}");
    let ended = map(&room, &["--text", "Bal", "--against", "balbalbalbal"]);
    assert!(ended.stderr.contains("error: --against: no map, because the text has 12 tokens"), "{}", ended.stderr);
}

#[test]
fn two_models_stand_beside_each_other_with_the_heads_that_both_have() {
    let room = Room::new();
    let model = trained().to_str().unwrap();
    let said = map(&room, &["--text", "Balesdo", "--compare", model]).fine();
    assert!(said.contains("the head looks the same in both: 0.00 of a row's weight lies elsewhere, at most"), "{said}");
    let wide = TOY.replace("--layers 1 --heads 1", "--layers 2 --heads 2");
    room.run(&format!("train {wide} {NAMES} --out wide")).fine();
    let said = map(&room, &["--text", "Balesdo", "--compare", "wide", "--out", "two.png"]).fine();
    let note = "only heads that both models have are shown: layers x heads are 1 x 1 in first, 2 x 2 in second\n";
    assert!(said.contains(note), "{said}");
    assert!(said.ends_with("layer 0, head 0 in 3 panels written to two-layer0-head0.png\n"), "{said}");
    let ended = map(&room, &["--text", "Balesdo", "--layer", "1", "--compare", "wide"]);
    assert!(ended.stderr.contains("toy-run: no map, because there is no layer 1: the model has 1"), "{}", ended.stderr);
    let ended = map(&room, &["--text", "Balesdo", "--compare", "nowhere"]);
    assert!(ended.error().starts_with("nowhere is no model"), "{}", ended.stderr);
}

#[test]
fn the_gradient_of_the_loss_stands_beside_the_weights() {
    let room = Room::new();
    let said = map(&room, &["--text", "Balesdo", "--gradients", "--out", "all.json"]).fine();
    assert!(said.contains("it would fall fastest with more weight of layer 0 head 0 from "), "{said}");
    // The first row sees one key, and nothing follows the last.
    assert!(said.contains(" of 5 rows ("), "{said}");
    let model = trained().to_str().unwrap();
    let logits = ["--text", "Balesdo", "--format", "json", "--model", model];
    let logits: serde_json::Value =
        serde_json::from_str(&room.run_with("logits --device cpu", &logits).fine()).unwrap();
    let loss = format!("the loss of the text is {:.4} nats a token", logits["loss_mean"].as_f64().unwrap());
    assert!(said.contains(&loss), "{loss}: {said}");
    let all = json(&room, "all.json");
    let [weights, on_weights, on_scores] = [0, 1, 2].map(|at| numbers(&all["panels"][at]));
    assert_eq!(all["panels"][2]["name"], "score gradient");
    for ((weights, on_weights), on_scores) in weights.chunks(7).zip(on_weights.chunks(7)).zip(on_scores.chunks(7)) {
        let mean: f64 = weights.iter().zip(on_weights).map(|(weight, gradient)| weight * gradient).sum();
        for ((weight, gradient), score) in weights.iter().zip(on_weights).zip(on_scores) {
            assert!((weight * (gradient - mean) - score).abs() < 1e-7);
        }
    }
    let ended = map(&room, &["--text", "B", "--gradients"]);
    assert!(ended.stderr.ends_with("error: no gradients, because one token predicts nothing: give a longer text\n"));
}

#[test]
fn the_steps_of_a_run_are_small_multiples() {
    let room = Room::new();
    let run = kept_run(&room);
    let steps = |more: &[&str]| {
        room.run_with("map --device cpu --steps --text Balesdo --model", &[&[run.as_str()], more].concat())
    };
    let shown = steps(&[]).fine();
    let captions: Vec<&str> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(captions, ["step", "0", "step", "2", "step", "4", "step", "6"], "{shown}");
    steps(&["--out", "steps.safetensors"]).fine();
    let tensors = room.read_tensors("steps.safetensors");
    let last = ["--text", "Balesdo", "--out", "last.safetensors"];
    room.run_with("map --device cpu --model run/steps/6", &last).fine();
    let whole = room.read_tensors("last.safetensors");
    assert_eq!(tensors["step_6.attn.0.0"].values(), whole["attn.0.0"].values());
    assert_ne!(tensors["step_0.attn.0.0"].values(), whole["attn.0.0"].values());
    assert_eq!(tensors.len(), 4);
    let ended = map(&room, &["--text", "Balesdo", "--steps"]);
    assert!(
        ended.error().contains("keeps no models of its steps: train with --keep-checkpoints EVERY"),
        "{}",
        ended.stderr
    );
}

#[test]
fn one_thing_is_set_beside_a_map_at_a_time() {
    let room = Room::new();
    for more in [
        &["--against", "Bal", "--steps"][..],
        &["--compare", ".", "--gradients"],
        &["--gradients", "--steps"],
        &["--ablate", "all", "--steps"],
        &["--ablate", "0.0", "--against", "Bal"],
    ] {
        let ended = map(&room, &[&["--text", "Bal"], more].concat());
        assert_eq!(ended.code, Some(2), "{more:?}");
        assert!(ended.stderr.contains("cannot be used with"), "{more:?}: {}", ended.stderr);
    }
}

#[test]
fn a_pair_of_tokens_need_be_in_one_of_two_texts_alone() {
    let room = Room::new();
    let said =
        map(&room, &["--text", "Balesdo", "--against", "Balesda", "--refers", "o:l", "--find", "coreference"]).fine();
    assert!(said.contains("coreference, second: none found: it is not known what refers to what"), "{said}");
    let ended = map(&room, &["--text", "Balesdo", "--against", "Balesda", "--refers", "z:l"]);
    assert!(ended.stderr.contains("error: --refers: 'z' is neither one of"), "{}", ended.stderr);
}
