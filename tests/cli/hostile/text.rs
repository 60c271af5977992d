//! Hostile text to train on.

use std::fs::File;

use super::refused;
use crate::room::{Room, TOY};

#[test]
fn hostile_texts_are_refused() {
    let room = Room::new();
    room.write("film.bin", [&b"text "[..], &vec![0xff; 200 << 20]].concat());
    refused(
        &room,
        "film",
        &format!("train {TOY} --data film.bin"),
        "film.bin is not UTF-8: invalid at byte offset 5; save it as UTF-8",
    );
    let room = Room::new();
    let file = File::create(room.path("zeros.txt")).unwrap();
    file.set_len(1 << 40).unwrap();
    refused(
        &room,
        "text of a tebibyte",
        &format!("train {TOY} --data zeros.txt"),
        "zeros.txt makes more than 1073741824 bytes of text: give a part of it",
    );
    let room = Room::new();
    room.write("one-word.txt", "\u{1}".repeat(6 << 20));
    refused(
        &room,
        "endless word",
        &format!("train {TOY} --tokens word --data one-word.txt"),
        "the vocabulary of the text takes ",
    );
}
