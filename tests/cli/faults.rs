//! Faults that are planted in a run: one line of error with the step and the way on, exit code 2, and a checkpoint from
//! which the run goes on as if nothing had been.

use crate::room::{NAMES, Room, assert_same_run, checkpoint_step, devices, measurements, toy_on};

/// A run of twelve steps on a device, with a checkpoint after every third.
fn train(device: &str, out: &str) -> String {
    format!("train {} {NAMES} --out {out}", toy_on(device).replace("--steps 6", "--steps 12"))
}

#[test]
fn a_fault_ends_a_run_in_one_line_with_its_step_and_the_way_on_and_the_resumed_run_is_the_undisturbed_one() {
    // Only a device can be lost.
    let anywhere = [
        (
            "nan:3",
            0,
            "step 3: the loss and the norm of the gradients are not finite, since transformer.wte.weight[0] is NaN (bits \
             0x7fc00000); the weights were left as they were after step 2; the checkpoint of step 0 is whole, go on with: \
             headlight train --resume run (if it ends at the same step again, train anew with a lower --learning-rate)",
        ),
        (
            "nan:3:transformer.wpe.weight:ffc00001",
            0,
            "step 3: the loss and the norm of the gradients are not finite, since transformer.wpe.weight[0] is NaN (bits \
             0xffc00001); the weights were left as they were after step 2; the checkpoint of step 0 is whole, go on with: \
             headlight train --resume run (if it ends at the same step again, train anew with a lower --learning-rate)",
        ),
        (
            "nan:12:transformer.h.0.mlp.c_fc.bias",
            9,
            "step 12: the loss and the norm of the gradients are not finite, since transformer.h.0.mlp.c_fc.bias[0] is NaN \
             (bits 0x7fc00000); the weights were left as they were after step 11; the checkpoint of step 9 is whole, go on \
             with: headlight train --resume run (if it ends at the same step again, train anew with a lower \
             --learning-rate)",
        ),
    ];
    let on_a_device = [
        (
            "device-lost:7",
            6,
            "step 7: the device was lost: it was destroyed; the checkpoint of step 6 is whole, go on with: headlight train \
             --resume run",
        ),
        (
            "device-lost:1",
            0,
            "step 1: the device was lost: it was destroyed; the checkpoint of step 0 is whole, go on with: headlight train \
             --resume run",
        ),
        // The loss hides what comes after it.
        (
            "nan:12,device-lost:12",
            9,
            "step 12: the device was lost: it was destroyed; the checkpoint of step 9 is whole, go on with: headlight train \
             --resume run",
        ),
    ];
    for &device in devices() {
        let room = Room::new();
        room.run(&train(device, "whole")).fine();
        let more = if device == "cpu" { &[][..] } else { &on_a_device[..] };
        for &(fault, checkpoint, expected) in anywhere.iter().chain(more) {
            let ended = room.run_with_fault(fault, &train(device, "run"));
            assert_eq!(ended.error(), expected, "{device} {fault}");
            let notice = format!("\nfaults are planted on purpose: HEADLIGHT_FAULT={fault}\n");
            assert!(ended.stdout.contains(&notice), "{}", ended.stdout);
            assert_eq!(checkpoint_step(&room, "run"), checkpoint, "{device} {fault}");
            room.run("generate --device cpu --model run/last --max-new-tokens 3 --prompt B").fine();
            room.run("train --resume run").fine();
            assert_same_run(&room, "run", "whole");
            std::fs::remove_dir_all(room.path("run")).unwrap();
        }
    }
}

#[test]
fn a_refused_allocation_names_the_buffer_its_bytes_and_a_smaller_setting() {
    if !devices().contains(&"gpu") {
        return;
    }
    let room = Room::new();
    let train = train("gpu", "run");
    let refused = |fault: &str, more: &str| {
        let ended = room.run_with_fault(fault, &train.replace("--batch 2", more));
        assert_eq!(room.names(""), [""; 0], "something was left behind");
        ended.error().to_string()
    };
    let advised = |error: &str, flags: &str| {
        let (_, advice) = error.split_once("; the run needs ").unwrap_or_else(|| panic!("no advice: {error}"));
        let (bytes, advice) = advice.split_once(" bytes in all; ").unwrap();
        let less = advice.strip_prefix(flags).unwrap_or_else(|| panic!("{advice}")).strip_prefix(" needs ").unwrap();
        assert!(less.parse::<u64>().unwrap() < bytes.parse().unwrap(), "{error}");
    };
    // The third buffer of a model is the scale of its first layer norm: eight numbers.
    let error = refused("allocation:3", "--batch 2");
    let begin = "out of memory: 'transformer.h.0.ln_1.weight' needs 32 bytes, which the device did not grant; ";
    assert!(error.starts_with(begin), "{error}");
    advised(&error, "--batch 1 --accumulation 2 learns the same and");
    for (asked, flags) in [
        ("--batch 2 --accumulation 3", "--batch 1 --accumulation 6 learns the same and"),
        ("--batch 3", "--batch 1"),
        ("--batch 1", "--context-length 4"),
    ] {
        advised(&refused("allocation:30", asked), flags);
    }
    // What is advised is accepted.
    room.run(&train.replace("--batch 2", "--batch 1 --accumulation 2")).fine();
}

#[test]
fn a_resumed_run_without_memory_keeps_its_checkpoint_and_its_settings() {
    if !devices().contains(&"gpu") {
        return;
    }
    let room = Room::new();
    room.run(&format!("{} --stop-after 4", train("gpu", "run"))).fine();
    let error = room.run_with_fault("allocation:3", "train --resume run");
    assert_eq!(
        error.error(),
        "out of memory: 'transformer.h.0.ln_1.weight' needs 32 bytes, which the device did not grant; the checkpoint is \
         untouched, free memory and go on with: headlight train --resume run"
    );
    room.run("train --resume run").fine();
    room.run(&train("gpu", "whole")).fine();
    assert_same_run(&room, "run", "whole");
}

/// The training losses of a run.
fn losses(room: &Room, run: &str) -> Vec<f64> {
    let number = |line: &String| serde_json::from_str::<serde_json::Value>(&format!("{line}}}")).unwrap();
    measurements(room, run).iter().filter_map(|line| number(line)["train_loss"].as_f64()).collect()
}

#[test]
fn a_device_with_less_trains_to_the_same_losses_and_the_run_says_what_it_has() {
    if !devices().contains(&"gpu") {
        return;
    }
    let room = Room::new();
    let more = "--width 24 --heads 3 --layers 2";
    let train = |out: &str| train("gpu", out).replace("--layers 1 --heads 1 --width 8", more);
    room.run(&train("whole")).fine();
    let whole = losses(&room, "whole");
    assert_eq!(whole.len(), 12);
    let limits = "granted: 134217728 bytes a binding, 268435456 a buffer, 16384 of workgroup memory, 256 invocations a \
                  workgroup, ";
    for (fault, parts) in [
        ("default-limits", &[limits][..]),
        ("no-subgroups", &["\ngranted: ", ", no subgroups\n"]),
        ("default-limits,no-subgroups", &[limits, ", no subgroups\n"]),
    ] {
        let printed = room.run_with_fault(fault, &train(fault)).fine();
        for part in parts {
            assert!(printed.contains(part), "{part:?} is missing: {printed}");
        }
        let losses = losses(&room, fault);
        assert_eq!(losses.len(), 12);
        for (step, (less, whole)) in losses.iter().zip(&whole).enumerate() {
            assert!((less - whole).abs() <= 1e-4 * whole, "{fault}, step {}: {less} against {whole}", step + 1);
        }
    }
}

#[test]
fn a_run_goes_on_under_another_plan_and_says_that_it_is_not_bit_for_bit() {
    if !devices().contains(&"gpu") {
        return;
    }
    let room = Room::new();
    let notice = |printed: &str| printed.lines().any(|line| line.contains("but not bit for bit as it would have"));
    room.run(&format!("{} --stop-after 4", train("gpu", "run"))).fine();
    let printed = room.run("train --resume run --stop-after 6").fine();
    assert!(!notice(&printed), "the plan is the same: {printed}");
    let printed = room.run("train --resume run --stop-after 8 --device cpu").fine();
    assert!(notice(&printed), "the CPU executor is another plan: {printed}");
    let state: serde_json::Value = serde_json::from_slice(&room.read("run/last/trainer.json")).unwrap();
    let kept = state["state"]["plan_fingerprint"].as_str().unwrap();
    let printed = room.run("train --resume run --device gpu").fine();
    let line = printed.lines().find(|line| line.starts_with("resuming under plan ")).unwrap_or_default();
    assert!(line.contains(&format!(" a run of plan {kept}, which another adapter, ")), "{printed}");
}

#[test]
fn without_subgroups_no_design_that_needs_them_is_planned() {
    if !devices().contains(&"gpu") {
        return;
    }
    let room = Room::new();
    let plan = |fault: &str| {
        room.run_with_fault(fault, &format!("{} --print-plan", train("gpu", "run").replace("--width 8", "--width 32")))
            .fine()
    };
    let without = plan("no-subgroups");
    assert!(without.contains("matmul/") && !without.contains("/subgroup"), "{without}");
    assert_eq!(room.names(""), [""; 0]);
}

#[test]
fn a_fault_that_cannot_happen_is_refused_by_name() {
    let room = Room::new();
    let refused = |fault: &str, line: &str, expected: &str| {
        let ended = room.run_with_fault(fault, line);
        let error = ended.error().strip_prefix("HEADLIGHT_FAULT").unwrap_or_else(|| panic!("{}", ended.stderr));
        assert!(error.starts_with(expected), "{fault}: {error}");
        assert_eq!(room.names(""), [""; 0], "{fault}: something was left behind");
    };
    let on_cpu = train("cpu", "run");
    for fault in ["device-lost:7", "allocation:3", "default-limits", "no-subgroups"] {
        let name = fault.split(':').next().unwrap();
        let expected = format!(": {name} needs an adapter, and this run is on the CPU executor");
        refused(fault, &on_cpu, &expected);
        refused(fault, &format!("{on_cpu} --print-plan"), &expected);
        refused(&format!("nan:3,{fault}"), &on_cpu, &expected);
    }
    let never = ": nan at step 3 never happens: this run takes no step";
    refused("nan:3", &format!("{on_cpu} --print-plan"), never);
    for (fault, expected) in [
        (
            "meteor",
            ": there is no fault 'meteor'; there are device-lost:STEP, allocation:N, default-limits, no-subgroups, \
             nan:STEP[:TENSOR[:BITS]]; several are joined by commas",
        ),
        ("nan", ": there is no fault 'nan'; there are "),
        ("nan:13", ": nan at step 13 never happens: this run takes steps 1 to 12"),
        (
            "nan:3:lm_head",
            ": nan: there is no parameter 'lm_head': they are named as in model.safetensors, such as transf",
        ),
    ] {
        refused(fault, &on_cpu, expected);
    }
    refused("nan:5", &format!("{on_cpu} --stop-after 4"), ": nan at step 5 never happens: this run takes steps 1 to 4");
    for line in ["info", "parity fill/", "completions bash"] {
        refused("nan:3", line, "=nan:3: faults are planted in headlight train only");
    }
    if devices().contains(&"gpu") {
        refused("allocation:100000", &train("gpu", "run"), ": allocation 100000 never happens: this run makes ");
    }
}

#[test]
fn a_learning_rate_of_ten_stops_at_the_first_bad_step_and_keeps_the_last_good_checkpoint() {
    let room = Room::new();
    let ended = room.run(
        "train --device cpu --data builtin:names --corpus-bytes 9000 --steps 60 --learning-rate 10 \
         --minimum-learning-rate 10 --warm-up 0 --checkpoint-every 1 --evaluate-every 0 --sample-every 0 --log-every 1 \
         --out run",
    );
    let error = ended.error();
    let step: u64 = error.strip_prefix("step ").unwrap().split(':').next().unwrap().parse().unwrap();
    let way_on = format!(
        "; the weights were left as they were after step {before}; the checkpoint of step {before} is whole, but going on \
         from it leads here again: train anew with a lower --learning-rate",
        before = step - 1
    );
    assert!(error.ends_with(&way_on) && error.contains(" not finite; "), "{error}");
    assert_eq!(checkpoint_step(&room, "run"), step - 1);
    assert_eq!(losses(&room, "run").len() as u64, step - 1, "every step before has a finite loss");
    room.run("generate --device cpu --model run/last --max-new-tokens 0 --prompt B").fine();
    assert_eq!(room.run("train --resume run").error(), error, "a resumed run comes to the same end");
}

#[test]
fn weights_that_a_step_made_infinite_are_not_saved_over_good_ones() {
    for &device in devices() {
        let room = Room::new();
        // The loss of step 1 is fine, its update is beyond what an f32 holds.
        let ended = room.run(&format!(
            "train {} {NAMES} --out run --learning-rate 3.4e38 --minimum-learning-rate 3.4e38 \
             --weight-decay 10",
            toy_on(device)
                .replace("--warm-up 2", "--warm-up 0")
                .replace("--checkpoint-every 3", "--checkpoint-every 1")
        ));
        let error = ended.error();
        assert!(error.starts_with("step 1: transformer.wte.weight[0] is "), "{device}: {error}");
        let way_on = "; the checkpoint of step 0 is whole, but going on from it leads here again: train anew with a lower \
                      --learning-rate";
        assert!(error.ends_with(way_on), "{device}: {error}");
        assert_eq!(checkpoint_step(&room, "run"), 0);
        room.run("generate --device cpu --model run/last --max-new-tokens 3 --prompt B").fine();
    }
}
