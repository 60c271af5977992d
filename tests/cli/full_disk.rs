//! A disk that fills up while a run writes to it: an error that names the path, and the old checkpoint goes on.

use std::io::Write;
use std::process::Command;

use crate::room::{Ended, NAMES, Room, assert_same_run, checkpoint_step, copy_directory};

/// A model whose checkpoint takes about 400 KiB, most of it moments.
fn train(out: &str) -> String {
    format!(
        "train --device cpu {NAMES} --layers 1 --heads 2 --width 48 --context-length 16 --batch 1 --steps 6 --warm-up 2 \
         --log-every 1 --evaluate-every 0 --sample-every 0 --sample-length 10 --checkpoint-every 2 --out {out}"
    )
}

/// Runs a shell script in the room, with the program as `$HEADLIGHT`; `wrapper` are the words before the shell.
fn script(room: &Room, wrapper: &[&str], text: &str) -> Ended {
    let words = [wrapper, &["sh", "-c", text]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(room.path("")).env_remove("HEADLIGHT_FAULT").env("RUST_BACKTRACE", "1");
    command.env("HEADLIGHT", room.command().get_program());
    Ended::of(&mut command)
}

/// The words that run a command in a mount namespace of its own, which ends with the command and takes its mounts
/// along; `None` where the system grants none, as root or otherwise.
///
/// # Panics
/// With `HEADLIGHT_REQUIRE_MOUNT=1` where it grants none: continuous integration must not pass by leaving this out.
fn unshare(room: &Room) -> Option<&'static [&'static str]> {
    let ways: [&[&str]; 2] = [&["unshare", "--mount"], &["unshare", "--mount", "--map-root-user"]];
    std::fs::create_dir(room.path("probe")).unwrap();
    let mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "probe"];
    let granted = |way: &&&[&str]| {
        let words = [**way, &mount].concat();
        let ended = Command::new(words[0]).args(&words[1..]).current_dir(room.path("")).output();
        ended.is_ok_and(|output| output.status.success())
    };
    let way = ways.iter().find(granted).copied();
    let required = std::env::var("HEADLIGHT_REQUIRE_MOUNT").is_ok_and(|value| value == "1");
    assert!(way.is_some() || !required, "HEADLIGHT_REQUIRE_MOUNT=1 and nothing can be mounted");
    way
}

#[test]
fn a_full_disk_is_an_error_that_names_the_path_and_the_old_checkpoint_goes_on() {
    let room = Room::new();
    let Some(unshare) = unshare(&room) else {
        // Not by a macro: the test harness keeps what those print in a test that passes.
        let _ = writeln!(
            std::io::stderr(),
            "\nNOT TESTED: a full disk. No file system can be mounted here; run the tests as root.\n"
        );
        return;
    };
    std::fs::create_dir(room.path("disk")).unwrap();
    let fill = |free: u32| {
        format!(
            "avail=$(df -k disk | awk 'NR == 2 {{ print $4 }}')\n\
             dd if=/dev/zero of=disk/ballast bs=1k count=$((avail - {free})) 2>dd || exit 91\n"
        )
    };
    let ended = script(
        &room,
        unshare,
        &format!(
            "mount -t tmpfs -o size=1m tmpfs disk || exit 90\n\
             \"$HEADLIGHT\" {} --stop-after 2 >out || exit 92\n\
             {}\"$HEADLIGHT\" train --resume disk/run >out 2>full; echo $? >>codes\n\
             cp -r disk/run kept\n\
             rm disk/ballast\n\
             {}\"$HEADLIGHT\" train --resume disk/run >out 2>fuller; echo $? >>codes\n\
             rm disk/ballast\n\
             \"$HEADLIGHT\" train --resume disk/run >out || exit 93\n\
             cp -r disk/run run\n",
            train("disk/run"),
            fill(200),
            fill(0),
        ),
    );
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(room.text("codes"), "2\n2\n");
    let no_space = "No space left on device (os error 28); the checkpoint of step 2 is whole, make room on the disk and \
                    go on with: headlight train --resume disk/run\n";
    assert_eq!(
        room.text("full"),
        format!("error: step 4: cannot write disk/run/last.partial/optimizer.safetensors: {no_space}")
    );
    assert_eq!(room.text("fuller"), format!("error: cannot write disk/run/metrics.jsonl: {no_space}"));
    assert_eq!(checkpoint_step(&room, "kept"), 2);
    room.run("generate --device cpu --model kept/last --max-new-tokens 3 --prompt B").fine();
    room.run(&train("whole")).fine();
    assert_same_run(&room, "run", "whole");
}

#[test]
fn a_file_that_may_not_grow_is_an_error_that_names_the_path_and_the_old_checkpoint_goes_on() {
    let room = Room::new();
    room.run(&format!("{} --stop-after 2", train("run"))).fine();
    // Blocks of 512 bytes: the weights fit, the moments do not.
    let ended = script(&room, &[], "trap '' XFSZ; ulimit -f 400 && exec \"$HEADLIGHT\" train --resume run");
    assert_eq!(
        ended.error(),
        "step 4: cannot write run/last.partial/optimizer.safetensors: File too large (os error 27); the checkpoint of step \
         2 is whole, make room on the disk and go on with: headlight train --resume run"
    );
    assert_eq!(checkpoint_step(&room, "run"), 2);
    copy_directory(&room.path("run/last"), &room.path("kept"));
    room.run("generate --device cpu --model kept --max-new-tokens 3 --prompt B").fine();
    room.run("train --resume run").fine();
    room.run(&train("whole")).fine();
    assert_same_run(&room, "run", "whole");
}

#[test]
fn results_that_cannot_be_printed_are_an_error() {
    let room = Room::new();
    for line in [
        "bench attention --contexts 8 --heads 1 --head-dim 8 --pass forward --seconds 0.01 --device cpu --format json",
        "bench attention --contexts 8 --heads 1 --head-dim 8 --pass forward --seconds 0.01 --device cpu --format csv",
        "compare --contexts 8 --heads 1 --head-dim 8 --pass forward --seconds 0.01 --device cpu",
        "memory --preset tiny --contexts 8 --device cpu",
    ] {
        let ended = script(&room, &[], &format!("$HEADLIGHT {line} > /dev/full"));
        let last = ended.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with("error: No space left on device"), "{line}: {}", ended.stderr);
        assert_eq!(ended.code, Some(2), "{line}");
    }
}
