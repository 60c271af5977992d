//! `headlight train`: the files of a run, going on after a stop, and the plan in words.

use crate::room::{NAMES, Room, TOY, assert_same_run, checkpoint_step, trained};

/// The lines of a run's metrics.
fn metrics(room: &Room, run: &str) -> Vec<serde_json::Value> {
    room.text(&format!("{run}/metrics.jsonl")).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_run_leaves_all_its_files() {
    let room = Room::new();
    let printed = room.train("runs/a", "").fine();
    assert!(printed.starts_with("running on the CPU executor: the CPU executor was asked for\n"), "{printed}");
    for part in
        ["\nmodel: 1 layers, 1 heads, 8 wide, context 8,", "\ntext: ", "\nstep     6  train loss ", "\ndone: runs/a "]
    {
        assert!(printed.contains(part), "{part:?} is missing: {printed}");
    }
    let names: Vec<String> = room.names("runs/a").into_iter().filter(|name| !name.starts_with('.')).collect();
    assert_eq!(names, ["best", "config.toml", "last", "loss.svg", "metrics.jsonl", "samples.txt"]);
    let model = ["config.json", "model.safetensors", "tokenizer.json"];
    assert_eq!(room.names("runs/a/best"), model);
    let checkpoint = ["config.json", "model.safetensors", "optimizer.safetensors", "tokenizer.json", "trainer.json"];
    assert_eq!(room.names("runs/a/last"), checkpoint);
    assert!(room.text("runs/a/loss.svg").starts_with("<svg"));
    assert!(room.text("runs/a/config.toml").contains("\nwidth = 8\n"));
    let samples = room.text("runs/a/samples.txt");
    let headings: Vec<&str> = samples.lines().filter(|line| line.starts_with("=== step ")).collect();
    assert_eq!(headings, ["=== step 3 ===", "=== step 6 ==="]);
}

#[test]
fn metrics_have_a_line_a_logged_step_with_every_key() {
    let room = Room::new();
    room.train("run", "").fine();
    let lines = metrics(&room, "run");
    let steps: Vec<u64> = lines.iter().map(|line| line["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, [0, 1, 2, 3, 4, 5, 6]);
    for line in &lines {
        let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
        let expected = ["step", "train_loss", "val_loss", "learning_rate", "grad_norm", "tokens_per_second", "seconds"];
        assert_eq!(keys, expected);
        let step = line["step"].as_u64().unwrap();
        assert_eq!(line["train_loss"].is_number(), step > 0, "{line}");
        assert_eq!(line["grad_norm"].is_number(), step > 0, "{line}");
        assert_eq!(line["val_loss"].is_number(), step % 3 == 0, "{line}");
        assert!(line["seconds"].as_f64().unwrap() > 0.0, "{line}");
    }
    // nanoGPT's schedule: two steps of warm-up to the preset's 3e-3.
    assert_eq!(lines[1]["learning_rate"], 1e-3);
    let losses: Vec<f64> = lines.iter().filter_map(|line| line["val_loss"].as_f64()).collect();
    assert!(losses[2] < losses[0], "nothing was learnt: {losses:?}");
}

#[test]
fn a_run_that_was_stopped_and_resumed_is_the_run_that_was_not() {
    let room = Room::new();
    room.train("whole", "").fine();
    // Once on a checkpoint's step and once between two.
    for (run, stop) in [("a", 3), ("b", 4)] {
        let printed = room.train(run, &format!("--stop-after {stop}")).fine();
        let last = format!("stopped after step {stop}; go on with: headlight train --resume {run}\n");
        assert!(printed.ends_with(&last), "{printed}");
        let printed = room.run(&format!("train --resume {run}")).fine();
        assert!(printed.contains(&format!("\nresuming after step {stop} of 6\n")), "{printed}");
        assert_same_run(&room, run, "whole");
    }
    let other = room.train("other", "--seed 2").fine();
    assert!(other.contains("\ndone: other "));
    assert!(room.read("other/last/model.safetensors") != room.read("whole/last/model.safetensors"));
}

#[test]
fn a_run_keeps_models_of_its_steps_and_resuming_leaves_and_completes_them() {
    let room = Room::new();
    let printed = room.train("whole", "--keep-checkpoints 4").fine();
    assert!(printed.contains("the models best/, last/ and steps/STEP/\n"), "{printed}");
    assert_eq!(room.names("whole/steps"), ["0", "4", "6"], "the first, each fourth, and the last");
    for step in ["0", "4", "6"] {
        let model = ["config.json", "model.safetensors", "tokenizer.json"];
        assert_eq!(room.names(&format!("whole/steps/{step}")), model, "step {step}");
    }
    let weights = |place: &str| room.read(&format!("{place}/model.safetensors"));
    assert!(weights("whole/steps/6") == weights("whole/last"));
    assert!(weights("whole/steps/0") != weights("whole/steps/4"));
    assert!(weights("whole/steps/4") != weights("whole/steps/6"));
    room.run("generate --device cpu --max-new-tokens 3 --model whole/steps/4").fine();

    // Stopped before the first, on one, and behind it.
    for stop in [3, 4, 5] {
        let run = format!("stopped-{stop}");
        room.train(&run, &format!("--keep-checkpoints 4 --stop-after {stop}")).fine();
        let kept = if stop < 4 { vec!["0"] } else { vec!["0", "4"] };
        assert_eq!(room.names(&format!("{run}/steps")), kept, "{run}");
        room.run(&format!("train --resume {run}")).fine();
        assert_eq!(room.names(&format!("{run}/steps")), ["0", "4", "6"], "{run}");
        for step in ["0", "4", "6"] {
            assert!(
                weights(&format!("{run}/steps/{step}")) == weights(&format!("whole/steps/{step}")),
                "{run}: {step}"
            );
        }
        assert_same_run(&room, &run, "whole");
    }
    assert!(!trained().join("steps").exists(), "a run that was not asked to keeps none");
}

#[test]
fn a_finished_run_that_is_resumed_stays_as_it_is() {
    let room = Room::new();
    crate::room::copy_directory(trained(), &room.path("run"));
    let files = ["last/model.safetensors", "last/trainer.json", "metrics.jsonl", "samples.txt"];
    let contents = || files.map(|file| room.read(&format!("run/{file}")));
    let before = contents();
    for more in ["", "--stop-after 2"] {
        let printed = room.run(&format!("train --resume run {more}")).fine();
        assert!(printed.contains("\ndone: run "), "{printed}");
        assert!(contents() == before, "{more:?} changed the run");
    }
}

#[test]
fn stopping_before_where_a_run_stands_stops_where_it_stands() {
    let room = Room::new();
    room.train("run", "--stop-after 4").fine();
    let printed = room.run("train --resume run --stop-after 2").fine();
    assert!(printed.ends_with("stopped after step 4; go on with: headlight train --resume run\n"), "{printed}");
}

#[test]
fn a_run_that_diverges_stops_at_its_step_and_keeps_its_last_checkpoint() {
    let room = Room::new();
    room.write("wild.toml", "learning_rate = 1e30\nminimum_learning_rate = 1e30\nclip = 0.0\n");
    let toy = TOY.replace("--steps 6", "--steps 40").replace("--checkpoint-every 3", "--checkpoint-every 1");
    let ended = room.run(&format!("train {toy} {NAMES} --out run --config wild.toml"));
    let error = ended.error();
    let step: u64 = error.strip_prefix("step ").unwrap().split(':').next().unwrap().parse().unwrap();
    assert!(error.ends_with("leads here again: train anew with a lower --learning-rate or with --clip 1"), "{error}");
    assert_eq!(checkpoint_step(&room, "run"), step - 1, "{error}");
    room.run("generate --device cpu --model run/last --max-new-tokens 0 --prompt B").fine();
}

#[test]
fn naive_and_fused_attention_are_two_plans_of_one_model() {
    let room = Room::new();
    let plan = |attention: &str| {
        room.run(&format!("train {TOY} {NAMES} --out run --print-plan --attention {attention}")).fine()
    };
    for (attention, present, absent) in [
        ("fused", "attention_forward/", " scaled_masked_softmax/"),
        ("naive", " scaled_masked_softmax/", "attention_forward/"),
    ] {
        let plan = plan(attention);
        for part in ["# graph of a micro-step", "# segment micro_step: ", "# segment update: ", "# segment evaluate: "]
        {
            assert!(plan.contains(part), "{part:?} is missing: {plan}");
        }
        assert!(plan.contains(present) && !plan.contains(absent), "{plan}");
        assert!(plan.contains("transformer.wte.weight.adamw") && plan.contains(" bytes"), "{plan}");
    }
    assert_eq!(room.names(""), [""; 0], "a plan writes nothing");
}

/// An interrupted program finishes its step, saves, says how to go on, and ends with 130.
#[cfg(unix)]
#[test]
fn an_interrupted_run_is_saved_and_can_be_resumed() {
    use crate::room::Ended;

    let room = Room::new();
    let line = "train --out run --steps 1000000 --checkpoint-every 0 --evaluate-every 0 --sample-every 0 \
                --log-every 1 --device cpu --data builtin:names --corpus-bytes 3000 --layers 1 --heads 1 \
                --width 8 --context-length 8";
    let Ended { code, stdout, stderr } = room.interrupt(line, "run/metrics.jsonl", 3);
    assert_eq!(code, Some(130), "{stdout}{stderr}");
    assert_eq!(stderr, "\ninterrupted: finishing the step and saving (once more to quit at once)\n");

    let step = checkpoint_step(&room, "run");
    let last = format!("interrupted after step {step}, which is saved; go on with: headlight train --resume run\n");
    assert!(step > 0 && stdout.ends_with(&last), "{stdout}");
    let lines = metrics(&room, "run");
    assert_eq!(lines.last().unwrap()["step"], step, "every step that was taken was told");
    let printed = room.run(&format!("train --resume run --stop-after {}", step + 2)).fine();
    assert!(printed.contains(&format!("resuming after step {step} of 1000000")), "{printed}");
}
