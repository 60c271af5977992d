//! `headlight train --attention FILE.star`: scripts that train, scripts that fail as their nature is, and scripts that
//! would do harm.

use crate::room::{NAMES, Room, TOY, devices};

const BUILTIN: &[&str] = &[
    "reference",
    "alibi",
    "cosine",
    "learned_temperature",
    "no_projection",
    "relu",
    "shared_qk",
    "window",
    "bugs/leaks_one_token",
    "bugs/mask_after_softmax",
    "bugs/missing_transpose",
    "bugs/no_row_maximum",
    "bugs/no_scale",
    "bugs/scale_too_small",
    "bugs/wrong_axis",
];

/// Those that let a position see later ones.
const LEAKS: &[&str] =
    &["bugs/leaks_one_token", "bugs/mask_after_softmax", "bugs/missing_transpose", "bugs/wrong_axis"];

/// What a run prints, less the speed.
fn losses(printed: &str) -> Vec<String> {
    let of_step = |line: &str| line.split("  ").filter(|part| part.contains(" loss ")).collect::<Vec<_>>().join(" ");
    printed.lines().filter(|line| line.starts_with("step ")).map(of_step).collect()
}

#[test]
fn every_built_in_attention_trains_and_those_that_leak_say_so() {
    for &device in devices() {
        for name in BUILTIN {
            let room = Room::new();
            let toy = crate::room::toy_on(device);
            let printed = room.run(&format!("train {NAMES} {toy} --attention builtin:{name} --out run")).fine();
            let leaks = LEAKS.contains(name);
            assert_eq!(printed.contains("LEAK: the model sees the future: "), leaks, "{name} on {device}: {printed}");
            assert!(printed.contains("  honest loss "), "{name}: {printed}");
            let script = room.text("run/last/attention.star");
            assert!(script.contains("def attention(x, q, k, v, ops, cfg):"), "{name}");
            assert!(room.text("run/last/config.json").contains("\"headlight_edited_attention\""), "{name}");
            // Text comes from it as from any other model.
            room.run(&format!("generate --model run --device {device} --prompt a --max-new-tokens 3")).fine();
            // A model that leaks is told from one that does not when it is trained, too.
            let ended = room.run(&format!("check --leak --model run --device {device}"));
            assert_eq!(ended.code, Some(if leaks { 1 } else { 0 }), "{name}: {} {}", ended.stdout, ended.stderr);
        }
    }
}

#[test]
fn the_file_of_the_reference_trains_as_the_built_in_attention_does_fused_or_not() {
    for &device in devices() {
        let room = Room::new();
        let toy = crate::room::toy_on(device);
        let train = |attention: &str, out: &str| {
            losses(&room.run(&format!("train {NAMES} {toy} --attention {attention} --out {out}")).fine())
                .iter()
                .map(|line| line.split(" honest").next().unwrap_or_default().trim().to_string())
                .collect::<Vec<_>>()
        };
        let fused = train("fused", "fused");
        assert_eq!(train("builtin:reference", "file"), fused);
        let naive = train("naive", "naive");
        assert_eq!(train("builtin:reference,naive", "file-naive"), naive);
        // Fused or not, it is one curve, up to the last digit that is printed.
        let numbers = |lines: &[String]| -> Vec<f64> {
            lines.iter().flat_map(|line| line.split_whitespace()).filter_map(|word| word.parse().ok()).collect()
        };
        let (fused_numbers, naive_numbers) = (numbers(&fused), numbers(&naive));
        assert!(fused_numbers.len() > 8 && fused_numbers.len() == naive_numbers.len(), "{fused:?}");
        for (fused, naive) in fused_numbers.iter().zip(&naive_numbers) {
            assert!((fused - naive).abs() < 1.5e-4, "{fused} {naive}");
        }
        assert_eq!(
            room.read("fused/last/model.safetensors").len(),
            room.read("file/last/model.safetensors").len(),
            "the same parameters"
        );
        assert!(room.read("fused/last/model.safetensors") == room.read("file/last/model.safetensors"));
    }
}

#[test]
fn an_infinity_times_zero_ends_training_at_its_first_step_and_saves_nothing_bad() {
    for &device in devices() {
        let room = Room::new();
        let toy = crate::room::toy_on(device);
        let ended = room.run(&format!("train {NAMES} {toy} --attention builtin:bugs/infinity_times_zero --out run"));
        assert_eq!(ended.code, Some(2), "{}", ended.stdout);
        assert!(ended.stderr.contains("step 1: ") && ended.stderr.contains("not finite"), "{}", ended.stderr);
        let note = "note: infinity_times_zero.star:10: an infinity as a factor: 0 times it is NaN";
        assert!(ended.stdout.contains(note), "{}", ended.stdout);
    }
}

#[test]
fn a_checkpoint_whose_attention_was_exchanged_is_refused() {
    let room = Room::new();
    room.run(&format!("train {NAMES} {TOY} --attention builtin:relu --out run")).fine();
    let refused = |what: &str| {
        for command in ["generate --model run/last --device cpu", "train --resume run", "check --leak --model run/last"]
        {
            let error = room.run(command);
            assert!(error.error().contains("attention.star is not the attention that the model"), "{what}: {command}");
        }
    };
    let (script, config) = (room.text("run/last/attention.star"), room.text("run/last/config.json"));
    room.write("run/last/attention.star", script.replace("ops.relu(scores)", "scores"));
    refused("another function");
    room.write("run/last/attention.star", script);
    room.write("run/last/config.json", config.replace("headlight_edited_attention", "gpt2"));
    refused("a GPT-2 with an attention.star beside it");
}

#[test]
fn a_script_of_ones_own_keeps_its_parameters_and_goes_on_bit_for_bit() {
    for &device in devices() {
        let room = Room::new();
        room.write("mine.star", MINE);
        let toy = crate::room::toy_on(device);
        let train = format!("train {NAMES} {toy} --attention mine.star");
        let printed = room.run(&format!("{train} --out whole")).fine();
        assert!(printed.contains("mine.star: traced for T = 8"), "{printed}");
        room.run(&format!("{train} --out run --stop-after 3")).fine();
        // What the checkpoint carries counts, whatever became of the file.
        room.write("mine.star", "broken");
        room.run("train --resume run").fine();
        crate::room::assert_same_run(&room, "run", "whole");
        let weights = room.read("run/last/model.safetensors");
        let header = String::from_utf8_lossy(&weights[..2000]).into_owned();
        assert!(header.contains("transformer.h.0.attn.sharpness"), "{header}");
        assert_eq!(room.text("run/last/attention.star"), MINE);
    }
}

const MINE: &str = "def attention(x, q, k, v, ops, cfg):
    print('traced for T =', q.shape[1])
    q = ops.split_heads(q, cfg.heads)
    k = ops.split_heads(k, cfg.heads)
    v = ops.split_heads(v, cfg.heads)
    sharpness = ops.parameter('sharpness', [cfg.heads, 1, 1], init=1.5)
    scores = q @ ops.transpose(k)
    scores *= sharpness / math.sqrt(cfg.d_head)
    weights = ops.softmax(ops.causal_mask(scores))
    return ops.merge_heads(weights @ v)
";

#[test]
fn a_script_that_cannot_be_used_is_refused_in_one_line_and_leaves_nothing_behind() {
    let long =
        format!("def attention(x, q, k, v, ops, cfg):\n    return {}q{}\n", "(".repeat(200_000), ")".repeat(200_000));
    for (source, expected) in [
        (
            "def attention(x, q, k, v, ops, cfg):\n    return ops.split_heads(q, 3)\n",
            "bad.star:2:12: split_heads: 3 heads do not",
        ),
        (
            "def attention(x, q, k, v, ops, cfg):\n    return ops.relx(q)\n",
            "bad.star:2:12: ops has no relx; did you mean ops.relu?",
        ),
        ("def attention(x, q, k, v, ops, cfg)\n    return q\n", "bad.star:1:"),
        (
            "def attention(x, q, k, v, ops, cfg):\n    return max(range(2000000000))\n",
            "bad.star: it was stopped after 1.5 s",
        ),
        ("x = [0] * 300000000\n", "bad.star: it was stopped: it needs more than the 256 MiB"),
        (
            "def attention(x, q, k, v, ops, cfg):\n    s = 'a'\n    for i in range(60):\n        s = s + s\n    return q\n",
            "bad.star: it was stopped: it needs more than the 256 MiB",
        ),
        (
            "def attention(x, q, k, v, ops, cfg):\n    n = 3\n    for i in range(60):\n        n = n * n\n    return q\n",
            "bad.star: it was stopped ",
        ),
        (
            "def attention(x, q, k, v, ops, cfg):\n    for i in range(1000000000):\n        pass\n    return q\n",
            "bad.star: it was stopped after 1.5 s",
        ),
        (
            "def attention(x, q, k, v, ops, cfg):\n    for i in range(100000):\n        q = q + 1\n    return q\n",
            "bad.star:3:13: add: attention calls more than 1000 ops",
        ),
        (&long, "bad.star: it was stopped: it is nested too deeply"),
        (
            "def attention(x, q, k, v, ops, cfg):\n    w = ops.parameter('w', [q.shape[1]])\n    return q\n",
            "bad.star:2: its learned parameters are w [8] at B=1, T=8 and w [4] at B=2, T=4: names and shapes may depend on",
        ),
    ] {
        let room = Room::new();
        room.write("bad.star", source);
        let ended = room.run(&format!("train {NAMES} {TOY} --attention bad.star --out run"));
        let error = ended.error();
        assert!(error.starts_with(&format!("error: {expected}")) || error.starts_with(expected), "{error}\n{expected}");
        assert!(!room.path("run").exists(), "{expected}");
    }
    let room = Room::new();
    let absent = room.run(&format!("train {NAMES} {TOY} --attention absent.star --out run"));
    assert!(absent.error().contains("absent.star: cannot be opened: "), "{}", absent.error());
    let unknown = room.run(&format!("train {NAMES} {TOY} --attention builtin:relus --out run"));
    assert!(unknown.error().contains("builtin:relus: there is no such attention; there are reference, "));
}
