//! `headlight compare`: both forms of an attention, whatever the times are.

use serde_json::Value;

use crate::room::{Room, devices};

const QUICK: &str = "--heads 2 --head-dim 8 --batch 2 --seconds 0.02";

fn read(room: &Room, file: &str) -> Value {
    serde_json::from_slice(&room.read(file)).unwrap()
}

/// The lines that begin with a context length, and what stands behind it.
fn rows(text: &str, context_length: u64) -> Vec<&str> {
    let start = format!("{context_length} ");
    text.lines().map(str::trim_start).filter_map(|line| line.strip_prefix(start.as_str())).collect()
}

#[test]
fn both_forms_stand_side_by_side_with_bytes_that_are_as_predicted() {
    for device in devices() {
        let room = Room::new();
        let ended = room.run(&format!("compare --contexts 64,128 {QUICK} --device {device} --out here"));
        assert_eq!(ended.stderr.matches("T=").count(), 2, "{}", ended.stderr);
        assert!(ended.stderr.contains("T=128, 2 of 2\n    naive "), "{}", ended.stderr);
        let text = ended.fine();
        assert!(text.starts_with("naive and fused attention, B=2, H=2, d_head=8, forward and backward, seed 1337\n"));
        for context_length in [64, 128] {
            let found = rows(&text, context_length);
            assert_eq!(found.len(), 3, "{text}");
            // Memory, with both forms as predicted; time, in both; a difference of each of four tensors.
            assert_eq!((found[0].matches(" = ").count(), found[1].matches(" to ").count()), (2, 2), "{text}");
            assert_eq!(found[2].matches(" of ").count(), 4, "{text}");
            for row in &found[..2] {
                let verdict =
                    ["fused wins", "fused loses", "even"].iter().filter(|words| row.ends_with(*words)).count();
                assert_eq!(verdict, 1, "{row}");
            }
        }
        assert!(!text.contains("NOT AS PREDICTED") && !text.contains("DIFFERS") && !text.contains("n/a"), "{text}");
        assert!(text.contains("\nmemory: fused ") && text.contains("\ntime: "), "{text}");
        assert!(text.contains("the longest context that fits naive attention here is T="), "{text}");
        let last = text.lines().last().unwrap();
        assert!(
            last.starts_with("from T=64 to 128 naive scores grew 4.0x, what fused keeps 2.0x; all bytes "),
            "{last}"
        );

        let report = read(&room, "here/compare.json");
        let forms = report["rows"].as_array().unwrap().iter().flat_map(|row| [&row["naive"], &row["fused"]]);
        for form in forms {
            assert_eq!(form["outcome"]["measured"]["bytes"], form["predicted"]["total"], "{form}");
            assert!(form["outcome"]["measured"]["time"]["low"].as_f64().unwrap() > 0.0, "{form}");
        }
        let predicted =
            |row: usize, form: &str, what: &str| report["rows"][row][form]["predicted"][what].as_u64().unwrap();
        assert_eq!(predicted(1, "naive", "scores"), 4 * predicted(0, "naive", "scores"));
        assert_eq!(predicted(1, "fused", "statistics"), 2 * predicted(0, "fused", "statistics"));
        assert_eq!((predicted(1, "naive", "statistics"), predicted(1, "fused", "scores")), (0, 0));
        assert!(report["longest_naive"]["context_length"].as_u64().unwrap() > 128, "{report}");
        assert_eq!(report["said"].as_array().unwrap().last().unwrap(), last);
        assert_eq!(room.text("here/compare.csv").lines().count(), 3);
        for chart in ["compare_memory.svg", "compare_time.svg"] {
            let svg = room.text(&format!("here/{chart}"));
            assert!(svg.starts_with("<svg ") && svg.contains("slope 1") && svg.contains("slope 2"), "{chart}");
        }
        assert_eq!(room.names("here").len(), 4);
    }
}

#[test]
fn the_forward_pass_alone_has_an_output_and_no_gradients() {
    for device in devices() {
        let text = Room::new().run(&format!("compare --contexts 16 {QUICK} --pass forward --device {device}")).fine();
        let found = rows(&text, 16);
        assert_eq!((found.len(), found[2].matches(" of ").count()), (3, 1), "{text}");
        assert!(text.contains("\n      T                output\n"), "{text}");
        assert!(text.ends_with("\nboth ran at T=16 alone: growth takes two lengths\n"), "{text}");
    }
}

#[test]
fn a_file_that_can_be_fused_is_compared_with_itself() {
    let room = Room::new();
    room.write("mine.star", room.run("attention reference").fine());
    for device in devices() {
        let text = room.run(&format!("compare --contexts 8,16 {QUICK} --attention mine.star --device {device}")).fine();
        assert!(text.contains("forward and backward, mine.star, seed 1337\n"), "{text}");
        assert_eq!(rows(&text, 16).len(), 3, "{text}");
    }
}

#[test]
fn what_cannot_be_compared_is_refused_in_one_line_and_leaves_no_directory() {
    let room = Room::new();
    room.write("taken", "a file");
    for (more, expected) in [
        ("--attention naive", "--attention naive: it takes a file alone"),
        ("--attention builtin:reference,naive", "--attention builtin:reference,naive: it takes a file alone"),
        ("--attention builtin:none", "builtin:none: there is no such attention"),
        ("--attention none.star", "none.star: cannot be opened"),
        ("--attention builtin:relu", "there is no fused form to compare the naive one with: "),
        ("--heads 0", "every size must be at least 1"),
        ("--batch 0", "every size must be at least 1"),
        ("--head-dim 129", "there is no fused form to compare the naive one with: "),
        ("--seconds 0", "--seconds 0: it must be a number above 0"),
        ("--seconds NaN", "--seconds NaN: it must be a number above 0"),
        ("--out taken/x", "cannot write into "),
    ] {
        let out = if more.starts_with("--out") { "" } else { "--out here" };
        let ended = room.run(&format!("compare --contexts 8 --device cpu {out} {more}"));
        assert!(ended.error().contains(expected), "{more}: {}", ended.stderr);
        assert_eq!(room.names("."), ["taken"], "{more}");
    }
}

#[test]
fn lengths_that_fit_nowhere_are_told_with_their_reason() {
    let room = Room::new();
    let ended = room.run("compare --contexts 1024,2048 --batch 1000000 --device cpu --out here");
    assert_eq!(ended.code, Some(2), "{}{}", ended.stdout, ended.stderr);
    let last = ended.stderr.lines().last().unwrap();
    assert_eq!(last, "error: nothing fits here: every context length was refused in both forms");
    for form in ["naive", "fused"] {
        let start = format!("{form} was refused at T=1024: ");
        assert!(ended.stdout.lines().any(|line| line.starts_with(&start)), "{}", ended.stdout);
    }
    assert!(read(&room, "here/compare.json")["rows"][1]["naive"]["outcome"]["refused"].is_object());
    assert!(room.text("here/compare_time.svg").contains("nothing was measured"));
}

/// An interrupted comparison prints the rows that it has, keeps them in its files, and ends with 130.
#[cfg(unix)]
#[test]
fn an_interrupted_comparison_keeps_its_rows() {
    use crate::room::Ended;

    let room = Room::new();
    let line = "compare --contexts 8,1024 --batch 4 --pass forward --device cpu --seconds 0.05 --out here";
    let Ended { code, stdout, stderr } = room.interrupt(line, "here/compare.csv", 1);
    assert_eq!(code, Some(130), "{stdout}{stderr}");
    assert!(stderr.contains("\ninterrupted: keeping the rows that are done (once more to quit at once)\n"), "{stderr}");
    assert_eq!((rows(&stdout, 8).len(), rows(&stdout, 1024).len()), (3, 0), "{stdout}");
    assert_eq!(read(&room, "here/compare.json")["rows"].as_array().unwrap().len(), 1);
}
