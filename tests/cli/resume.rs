//! Going on after a stop, a fault or a kill, bit for bit; and one run at a time in a directory.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::room::{NAMES, Room, TOY, assert_same_run, checkpoint_step, devices};

/// Forty steps of three micro-batches, with a checkpoint after every tenth.
fn forty_steps(device: &str, attention: &str) -> String {
    format!(
        "train --device {device} --attention {attention} {NAMES} --layers 2 --heads 2 --width 12 --context-length 9 \
         --batch 2 --accumulation 3 --steps 40 --warm-up 4 --log-every 1 --evaluate-every 8 --sample-every 16 \
         --sample-length 10 --checkpoint-every 10"
    )
}

#[test]
fn forty_steps_are_twenty_and_a_resumed_twenty_wherever_they_are_cut() {
    for &device in devices() {
        for attention in ["naive", "fused"] {
            let room = Room::new();
            let train = forty_steps(device, attention);
            room.run(&format!("{train} --out whole")).fine();
            // On a checkpoint's step, and between two.
            for stop in [20, 23] {
                let run = format!("stopped-{stop}");
                room.run(&format!("{train} --out {run} --stop-after {stop}")).fine();
                assert_eq!(checkpoint_step(&room, &run), stop);
                room.run(&format!("train --resume {run}")).fine();
                assert_same_run(&room, &run, "whole");
            }
            // Ended by a fault, without a word to its files: steps 21 to 25 are taken a second time.
            room.run_with_fault("nan:26", &format!("{train} --out failed")).error();
            assert_eq!(checkpoint_step(&room, "failed"), 20);
            room.run("train --resume failed").fine();
            assert_same_run(&room, "failed", "whole");
        }
    }
}

#[test]
fn a_resumed_run_names_the_setting_that_was_edited_in_its_directory() {
    let room = Room::new();
    room.train("run", "--stop-after 4").fine();
    let config = room.text("run/config.toml");
    for (kept, edited, expected) in [
        ("steps = 6", "steps = 9", "a resumed run keeps its settings, but steps was 6 and is now 9: "),
        ("seed = 1337", "seed = 3", "a resumed run keeps its settings, but seed was 1337 and is now 3: "),
        (
            "attention = \"fused\"",
            "attention = \"naive\"",
            "a resumed run keeps its settings, but attention was \"fused\" and is now \"naive\": ",
        ),
    ] {
        assert!(config.contains(kept), "{config}");
        room.write("run/config.toml", config.replace(kept, edited));
        let ended = room.run("train --resume run");
        assert!(ended.error().starts_with(expected), "{}", ended.error());
    }
    room.write("run/config.toml", config.replace("log_every = 1", "log_every = 2"));
    room.run("train --resume run").fine();
}

/// A run in a process of its own, which is ended without a word, as by a power cut, once this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // A process that is gone already is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a run that goes on for ever and saves after every step, and waits until it has taken some.
fn endless(room: &Room) -> Running {
    let line = endless_toy();
    let mut command = room.command();
    command.args(line.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Running(command.spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(60);
    let begun = || std::fs::read_to_string(room.path("run/metrics.jsonl")).is_ok_and(|text| text.lines().count() > 5);
    while !begun() {
        let ended = running.0.try_wait().unwrap();
        assert!(ended.is_none() && Instant::now() < deadline, "the run did not begin: {ended:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    running
}

fn endless_toy() -> String {
    let toy = TOY.replace("--steps 6", "--steps 1000000").replace("--checkpoint-every 3", "--checkpoint-every 1");
    format!("train {toy} {NAMES} --out run")
}

#[test]
fn two_processes_do_not_train_in_one_directory() {
    let room = Room::new();
    let running = endless(&room);
    let expected = "another process is writing to the run in run: wait for it, or choose another directory";
    assert_eq!(room.run("train --resume run --stop-after 1").error(), expected);
    let expected = "run already holds a run (config.toml): continue it with --resume run, or choose another --out";
    assert_eq!(room.run(&endless_toy()).error(), expected);
    drop(running);
    // The lock ends with its process, however that ended.
    let step = checkpoint_step(&room, "run");
    room.run(&format!("train --resume run --stop-after {}", step + 1)).fine();
}

#[test]
fn what_a_killed_run_left_half_written_is_cleaned_away_at_the_next_start() {
    let room = Room::new();
    drop(endless(&room));
    // Whatever moment the kill met, these are what it can leave.
    for name in ["last.partial/model.safetensors", "best.partial/config.json.partial", "last.old/trainer.json"] {
        room.write(&format!("run/{name}"), "half");
    }
    for name in ["config.toml.partial", "metrics.jsonl.partial", "loss.svg.partial"] {
        room.write(&format!("run/{name}"), "half");
    }
    let torn = [room.read("run/metrics.jsonl"), b"{\"step\":7,\"train_l".to_vec()].concat();
    room.write("run/metrics.jsonl", torn);
    let step = checkpoint_step(&room, "run");
    room.run(&format!("train --resume run --stop-after {}", step + 2)).fine();
    let names = room.names("run");
    let known = [".lock", "best", "config.toml", "last", "loss.svg", "metrics.jsonl", "samples.txt"];
    assert!(names.iter().all(|name| known.contains(&name.as_str())), "{names:?}");
    assert_eq!(checkpoint_step(&room, "run"), step + 2);
    let steps: Vec<u64> = room
        .text("run/metrics.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["step"].as_u64().unwrap())
        .collect();
    assert_eq!(steps, (0..=step + 2).collect::<Vec<_>>(), "each step is told once");
}
