//! `headlight parity --mutants`.

use super::room::Room;

#[test]
fn the_table_names_each_fault_its_kind_and_the_first_case_that_noticed_it() {
    let ended = Room::new().run("parity --mutants fill/");
    if ended.code == Some(2) {
        assert!(ended.stderr.contains("mutants are run on an adapter, and there is none"), "{}", ended.stderr);
        return;
    }
    let printed = ended.fine();
    let rows: Vec<&str> = printed.lines().filter(|line| line.starts_with("fill/vec4 ")).collect();
    assert_eq!(rows.len(), 5, "{printed}");
    for (row, kind) in rows.iter().zip(["index", "tile", "tile", "formula", "formula"]) {
        assert!(row.split_whitespace().nth(1) == Some(kind) && row.contains("[count="), "{row}");
        assert!(row.contains("operand 0 index "), "{row}");
    }
    assert!(printed.contains("kernel/design  kind"), "{printed}");
    assert!(
        printed.ends_with(
            "5 mutants noticed, 0 survived, 0 cannot show on this adapter, 0 not run by their design here\n"
        )
    );
}

#[test]
fn a_filter_without_a_mutant_and_flags_that_do_not_go_together_are_refused() {
    for (line, expected) in [
        (
            "parity --mutants no-such-kernel",
            "no mutant has 'no-such-kernel' in its name; a name is such as 'accumulate/",
        ),
        ("parity --mutants --json out.json", "--json <FILE>"),
        ("parity --mutants --designs chosen", "--designs <DESIGNS>"),
    ] {
        let ended = Room::new().run(line);
        assert_eq!(ended.code, Some(2), "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{line}: {}", ended.stderr);
    }
}
