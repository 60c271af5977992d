//! `headlight parity --step` and `--bisect`: whole training steps on the adapter and on the CPU executor.

use serde_json::Value;

use crate::room::{NAMES, Room};

/// A step that is compared in moments.
const SMALL: &str = "--layers 1 --heads 2 --width 16 --context-length 12 --batch 2";

/// Whether there is an adapter; where there is none, that the program says so.
fn adapter(room: &Room, line: &str) -> bool {
    if !room.run("info").fine().starts_with("no adapters") {
        return true;
    }
    let ended = room.run(line);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("there is no adapter to compare"), "{}", ended.stderr);
    false
}

fn report(room: &Room) -> Value {
    serde_json::from_slice(&room.read("step.json")).unwrap()
}

#[test]
fn a_step_that_agrees_passes_with_both_kinds_of_attention() {
    let room = Room::new();
    let line = format!("parity --step {SMALL} {NAMES} --steps 3 --json step.json");
    if !adapter(&room, &line) {
        return;
    }
    let printed = room.run(&line).fine();
    for part in [
        "\nnaive attention, 1 layers, 2 heads, 16 wide, 1 x 2 x 12 tokens a step\n",
        "\nfused attention, 1 layers, 2 heads, 16 wide, 1 x 2 x 12 tokens a step\n",
        "\n1. each of ",
        "\n2. gradients of the first step, each element within 1e-5 of its tensor's largest,",
        "\n3. loss of each of 3 steps within 1e-3 of itself\n",
        "\n  adamw/vec4 ",
        "\n  step 3 ",
    ] {
        assert!(printed.contains(part), "{part:?} is missing: {printed}");
    }
    assert!(printed.ends_with("\npassed\n") && !printed.contains("FAILED"), "{printed}");

    let report = report(&room);
    assert_eq!((&report["passed"], report["results"].as_array().unwrap().len()), (&Value::Bool(true), 2));
    for result in report["results"].as_array().unwrap() {
        let rows = |name: &str| result[name].as_array().unwrap();
        assert_eq!((rows("gradients").len(), rows("losses").len()), (16, 3));
        for (place, row) in rows("launches").iter().enumerate() {
            assert_eq!(
                (&row["launch"]["place"], &row["passed"]),
                (&Value::from(place + 1), &Value::Bool(true)),
                "{row}"
            );
            assert!(row["compared"].as_u64().unwrap() > 0, "{row}");
        }
        assert!(rows("launches").len() > 60, "{}", rows("launches").len());
    }
}

#[test]
fn bisect_says_that_no_launch_parts_and_how_far_the_executors_drift() {
    let room = Room::new();
    let line = format!("parity --bisect {SMALL} {NAMES} --attention fused --accumulation 2 --json step.json");
    if !adapter(&room, &line) {
        return;
    }
    let printed = room.run(&line).fine();
    assert!(printed.contains(" launches parts from the CPU executor: each gives what its inputs give"), "{printed}");
    // Two micro-batches and the update.
    assert_eq!(printed.lines().filter(|line| line.starts_with("  largest drift in ")).count(), 3, "{printed}");
    assert!(printed.ends_with("\npassed\n"), "{printed}");
    let bisect = &report(&room)["results"][0]["bisect"];
    assert_eq!((&bisect["parting"], bisect["largest_drifts"].as_array().unwrap().len()), (&Value::Null, 3));
}

#[test]
fn a_fault_in_one_launch_is_named_and_ends_with_exit_code_one() {
    let room = Room::new();
    let line = format!("parity --step --bisect {SMALL} {NAMES} --attention naive --steps 2 --json step.json --plant");
    let mutant = "adamw/vec4:the first moment is not corrected";
    if !adapter(&room, &format!("{line} {mutant}")) {
        return;
    }
    let ended = room.run_with(&line, &[mutant]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""), "{}", ended.stdout);
    let printed = ended.stdout;
    assert!(printed.ends_with("\nFAILED\n"), "{printed}");
    let result = &report(&room)["results"][0];
    let failed: Vec<&Value> =
        result["launches"].as_array().unwrap().iter().filter(|row| row["passed"] == Value::Bool(false)).collect();
    let [failed] = failed[..] else { panic!("{failed:#?}") };
    // Bisect names the same launch.
    assert_eq!(failed["launch"]["kernel"], "adamw");
    assert_eq!(result["bisect"]["parting"]["result"]["launch"], failed["launch"]);
    let (place, label) = (&failed["launch"]["place"], failed["launch"]["label"].as_str().unwrap());
    let launch = format!("{place} (update, adamw/vec4)");
    for part in [format!("\n  FAILED launch {launch}: {label}\n"), format!("\nlaunch {launch} of ")] {
        assert!(printed.contains(&part), "{part:?} is missing: {printed}");
    }
    assert!(printed.contains(" where its inputs give "), "{printed}");
}

#[test]
fn flags_of_whole_steps_belong_together() {
    for (line, expected) in [
        ("parity --layers 2", "error: the following required arguments were not provided:"),
        ("parity --attention both", "error: the following required arguments were not provided:"),
        ("parity --bisect --steps 3", "error: the following required arguments were not provided:"),
        ("parity fill --step", "error: the argument '[FILTER]' cannot be used with '--step'"),
        (
            "parity --bisect --designs chosen",
            "error: the argument '--bisect' cannot be used with '--designs <DESIGNS>'",
        ),
        ("parity --step --steps 0", "error: invalid value '0' for '--steps <N>': 0 is not in 1.."),
        ("parity --step --heads 3", "error: 3 heads do not divide width 64"),
        ("parity --step --device cpu", "error: parity compares an adapter with the CPU reference,"),
        ("parity --step --data missing.txt", "error: cannot read missing.txt: "),
        ("parity --step --batch 0", "error: batch is 0: it must be at least 1"),
    ] {
        let room = Room::new();
        let ended = room.run(line);
        let first = ended.stderr.lines().next().unwrap_or_default();
        assert!(ended.code == Some(2) && first.starts_with(expected), "{line}: {}", ended.stderr);
        assert_eq!((ended.stdout.as_str(), room.names("")), ("", vec![]), "{line}");
    }
    let room = Room::new();
    let line = format!("parity --step {SMALL} {NAMES} --plant");
    if adapter(&room, &format!("{line} fill")) {
        let ended = room.run_with(&line, &["fill/vec4:no such mutant"]);
        let expected = "error: no launch of this step has the mutant 'fill/vec4:no such mutant'\n";
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(2), expected));
    }
}
