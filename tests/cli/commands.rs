//! Help, wrong usage, `info`, `parity`, completions and manual pages.

use std::process::Stdio;

use crate::room::{NAMES, Room, TOY};

/// Every command that a user sees.
const COMMANDS: [&str; 15] = [
    "train",
    "attention",
    "generate",
    "parity",
    "check",
    "op",
    "trace",
    "map",
    "logits",
    "memory",
    "compare",
    "bench",
    "info",
    "completions",
    "man",
];

#[test]
fn help_lists_the_commands() {
    let help = Room::new().run("--help").fine();
    insta::assert_snapshot!(help, @"
    Train small GPTs on hand-written WGSL kernels, each checked element by element against a CPU
    reference

    Usage: headlight [OPTIONS] <COMMAND>

    Commands:
      train        Train a GPT and write samples, a loss curve, metrics and checkpoints
      attention    Print an attention file to edit, or list the files and the ops there are
      generate     Continue a prompt with a trained model
      parity       Check every kernel, design and case against its CPU twin, element by element
      check        Check an attention file against the closed form, and say what is wrong with it
      op           Run one op on tensors from a file, forward and backward, to compare with NumPy or
                   PyTorch
      trace        Write down what a model computes for a text: logits, losses, attention weights,
                   gradients
      map          Show which tokens each head of a model looks at in a text, and say what stands out
      logits       What a model expects next at each position of a text, and the loss of each token
      memory       What training takes in memory, by context length: every buffer, naive and fused,
                   predicted and measured
      compare      Naive and fused attention side by side: memory, time and results at each context
                   length
      bench        Time attention, kernels and training steps on this adapter
      info         List the adapters, and say which one is used and why
      completions  Print a completion script for a shell
      man          Print the manual page, or write one page a command into a directory
      help         Print this message or the help of the given subcommand(s)

    Options:
      -v, --verbose...  More detail on standard error (-v, -vv); HEADLIGHT_LOG takes tracing filters
      -h, --help        Print help
      -V, --version     Print version
    ");
}

#[test]
fn every_command_has_help_and_every_setting_a_flag() {
    let room = Room::new();
    for command in COMMANDS {
        let help = room.run(&format!("{command} --help")).fine();
        assert!(help.contains(&format!("Usage: headlight {command}")), "{help}");
    }
    let help = room.run("train --help").fine();
    for flag in
        ["--preset", "--data", "--out", "--resume", "--steps", "--stop-after", "--attention", "--device", "--seed"]
    {
        assert!(help.contains(flag), "{flag} is missing: {help}");
    }
}

#[test]
fn the_version_is_the_packages() {
    assert_eq!(Room::new().run("--version").fine(), concat!("headlight ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn wrong_usage_is_an_error_of_two_that_names_the_word() {
    for (line, expected) in [
        ("--wrong", "error: unexpected argument '--wrong' found"),
        ("train --wrong", "error: unexpected argument '--wrong' found"),
        ("fly", "error: unrecognized subcommand 'fly'"),
        ("train --batch many", "error: invalid value 'many' for '--batch <BATCH>': invalid digit found in string"),
        ("train --preset huge", "error: invalid value 'huge' for '--preset <PRESET>'"),
        ("train --batch -1", "error: unexpected argument '-1' found"),
        ("generate", "error: the following required arguments were not provided:"),
    ] {
        let room = Room::new();
        let ended = room.run(line);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{line}");
        assert_eq!(ended.stderr.lines().next(), Some(expected), "{line}");
        assert_eq!(room.names(""), [""; 0], "{line}");
    }
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let room = Room::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = room.run(&format!("completions {shell}")).fine();
        assert!(script.contains("print-plan") && script.contains("parity"), "{shell}");
    }
    let page = room.run("man").fine();
    assert!(page.starts_with(".ie") && page.contains("headlight"), "{page}");
    room.run("man --out pages").fine();
    let pages = room.names("pages");
    for command in COMMANDS {
        assert!(pages.contains(&format!("headlight-{command}.1")), "{pages:?}");
    }
}

/// Whether there is an adapter, in the program's own words.
fn adapters(room: &Room) -> bool {
    let info = room.run("info").fine();
    assert_eq!(info.lines().filter(|line| line.starts_with("--device auto takes ")).count(), 1, "{info}");
    !info.starts_with("no adapters")
}

#[test]
fn info_says_what_auto_takes_and_why() {
    let room = Room::new();
    let info = room.run("info").fine();
    let last = info.lines().last().unwrap();
    if adapters(&room) {
        assert!(info.starts_with("adapter 0: ") && info.contains("largest binding"), "{info}");
        assert!(!last.contains("CPU executor") && last.contains(": "), "{last}");
    } else {
        assert!(last.contains("takes the CPU executor: no adapter was found"), "{last}");
    }
}

#[test]
fn parity_reports_every_case_it_ran_and_writes_them_down() {
    let room = Room::new();
    let ended = room.run("parity fill/ --json parity.json");
    if !adapters(&room) {
        assert_eq!(ended.code, Some(2));
        assert!(ended.stderr.contains("there is no adapter to compare"), "{}", ended.stderr);
        return;
    }
    let printed = ended.fine();
    let report: serde_json::Value = serde_json::from_slice(&room.read("parity.json")).unwrap();
    let passed = report["passed"].as_u64().unwrap();
    assert!(passed > 0 && report["failed"] == 0, "{report:#}");
    assert_eq!(report["results"].as_array().unwrap().len() as u64, passed);
    for result in report["results"].as_array().unwrap() {
        assert!(result["name"].as_str().unwrap().starts_with("fill/") && result["result"] == "passed", "{result:#}");
    }
    assert_eq!(printed.lines().filter(|line| line.starts_with("ok     fill/")).count() as u64, passed);
    assert!(
        printed.ends_with(&format!("{passed} passed, 0 failed, 0 not supported by their design on this adapter\n"))
    );
}

#[test]
fn parity_reports_the_error_budget_in_markdown_and_json() {
    let room = Room::new();
    if !adapters(&room) {
        return;
    }
    let printed = room.run("parity softmax/ --designs chosen --report budget.json").fine();
    assert!(printed.contains("softmax/") && printed.ends_with(" within their error budget, 0 not\n"), "{printed}");
    let report: serde_json::Value = serde_json::from_slice(&room.read("budget.json")).unwrap();
    assert_eq!(report["command"], "headlight parity softmax/ --designs chosen --report budget.json");
    for design in report["designs"].as_array().unwrap() {
        assert!(design["kernel"].as_str().unwrap().ends_with("softmax") && design["kept"] == true, "{design:#}");
        assert!(design["plain_error"].as_f64().unwrap() > 0.0 && design["cases"].as_u64().unwrap() > 0, "{design:#}");
    }
    room.run("parity copy/ --report budget.md").fine();
    let report = String::from_utf8(room.read("budget.md")).unwrap();
    assert!(report.contains("`headlight parity copy/ --report budget.md`"), "{report}");
    assert!(report.contains("| copy | strided | ") && report.contains("2 of 2 designs keep"), "{report}");
}

#[test]
fn a_reader_that_closed_the_pipe_is_no_error() {
    let train = format!("train {TOY} {NAMES} --out run");
    let plan = format!("{train} --print-plan");
    for line in ["--help", "info", "completions bash", "man", &plan, &train] {
        let room = Room::new();
        let mut child =
            room.command().args(line.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&ended.stderr));
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{line}");
        // A run goes on to its end.
        assert_eq!(room.path("run/last/trainer.json").is_file(), line == train, "{line}");
    }
}
