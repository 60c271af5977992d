//! `headlight map`: pictures of attention maps, and what stands out in them.

use crate::room::{Ended, Room, trained};

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
    let find = |kind: &str| map(&room, &["--text", "Balesdo", "--find", kind, "--out", "map.png"]).fine();
    assert_eq!(find("coreference"), "coreference: none found: it is not known what refers to what\n");
    // A model of six steps looks at the token before no more than at others.
    let said = find("previous");
    assert!(said.starts_with("previous: none found (best 0.") && said.lines().count() == 1, "{said}");
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
        (&["--text", "Bal", "--refers", "l:z"], "--refers: 'z' is neither one of the 2 tokens"),
    ] {
        let ended = map(&room, more);
        assert_eq!(ended.code, Some(2), "{more:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{more:?}: {}", ended.stderr);
    }
    let ended = map(&room, &["--text", "Bal", "--find", "nothing"]);
    assert!(ended.stderr.contains("there is no such kind; there are previous, sink"), "{}", ended.stderr);
}
