//! `headlight op`: one op on a user's own tensors.

use headlight::tape::Tensor;

use crate::room::Room;
use crate::tensors::{real, words};

fn close(found: &Tensor, expected: &[f64], tolerance: f64) -> bool {
    let values = found.values();
    values.len() == expected.len()
        && values.iter().zip(expected).all(|(found, expected)| {
            found == expected || (found - expected).abs() <= tolerance * (1.0 + expected.abs())
        })
}

/// Two queries over five keys that are all 0: means of what is visible, from the bottom right.
#[test]
fn attention_gives_the_means_that_can_be_done_in_the_head() {
    let room = Room::new();
    room.write_tensors(
        "x.safetensors",
        &[
            ("q", real(&[1, 1, 2, 1], &[3.0, -2.0])),
            ("k", real(&[1, 1, 5, 1], &[0.0; 5])),
            ("v", real(&[1, 1, 5, 1], &[1.0, 2.0, 3.0, 4.0, 5.0])),
            ("do", real(&[1, 1, 2, 1], &[1.0, 10.0])),
        ],
    );
    let (four, five) = (4f64.ln(), 5f64.ln());
    for kernel in ["fused", "naive"] {
        for (dtype, tolerance) in [("f32", 1e-5), ("f64", 1e-12)] {
            let line = "op sdpa --in x.safetensors --out y.safetensors --causal --device cpu";
            room.run(&format!("{line} --kernel {kernel} --dtype {dtype}")).fine();
            let found = room.read_tensors("y.safetensors");
            for (name, expected) in [
                ("o", &[2.5, 3.0][..]),
                ("lse", &[four, five]),
                ("delta", &[2.5, 30.0]),
                ("dv", &[2.25, 2.25, 2.25, 2.25, 2.0]),
                ("dq", &[0.0, 0.0]),
                // 3/4 (v - 2.5) and -20/5 (v - 3), added
                ("dk", &[-1.125 + 8.0, -0.375 + 4.0, 0.375, 1.125 - 4.0, -8.0]),
            ] {
                assert!(close(&found[name], expected, tolerance), "{kernel} {dtype} {name}: {:?}", found[name]);
            }
            assert_eq!(found.contains_key("p"), kernel == "naive");
        }
    }
}

#[test]
fn a_query_that_sees_nothing_gives_zero_and_a_log_sum_exp_of_minus_infinity() {
    let room = Room::new();
    room.write_tensors(
        "x.safetensors",
        &[
            ("q", real(&[1, 1, 4, 2], &[1.0; 8])),
            ("k", real(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0])),
            ("v", real(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0])),
            ("do", real(&[1, 1, 4, 2], &[1.0; 8])),
        ],
    );
    for kernel in ["fused", "naive"] {
        room.run(&format!("op sdpa --in x.safetensors --out y.safetensors --causal --device cpu --kernel {kernel}"))
            .fine();
        let found = room.read_tensors("y.safetensors");
        assert_eq!(found["lse"].values()[..2], [f64::NEG_INFINITY; 2], "{kernel}");
        assert!(found["lse"].values()[2].is_finite());
        assert_eq!(found["o"].values()[..6], [0.0, 0.0, 0.0, 0.0, 1.0, 2.0], "{kernel}");
        assert_eq!(found["dq"].values()[..4], [0.0; 4], "{kernel}");
    }
}

#[test]
fn optimizer_steps_take_tensors_of_any_names() {
    let room = Room::new();
    room.write_tensors(
        "x.safetensors",
        &[
            ("p0.w", real(&[1, 2], &[1.0, -1.0])),
            ("g.w", real(&[2, 1, 2], &[0.1, 0.1, -0.2, 0.3])),
            ("p0.b", real(&[1], &[0.5])),
            ("g.b", real(&[2, 1], &[1.0, 1.0])),
        ],
    );
    let line = "op adamw --in x.safetensors --out y.safetensors --device cpu --dtype f64 --learning-rate 0.1,0.2 \
                --betas 0.5,0.5 --weight-decay 0.5";
    room.run(line).fine();
    let found = room.read_tensors("y.safetensors");
    // The first step of Adam has the length of the rate; w decays by 0.1 * 0.5 of itself before it, b does not.
    assert!(close(&found["p.b"], &[0.4, 0.2], 1e-6), "{:?}", found["p.b"]);
    assert!(close(&Tensor::real([2], found["p.w"].values()[..2].to_vec()), &[0.85, -1.05], 1e-6), "{:?}", found["p.w"]);
    assert_eq!(found["p.w"].shape, [2, 1, 2]);
    assert!(close(&found["m.b"], &[0.75], 1e-12) && close(&found["v.b"], &[0.75], 1e-12));
    assert!(close(&found["grad_norm"], &[1.02f64.sqrt(), 1.13f64.sqrt()], 1e-6), "{:?}", found["grad_norm"]);
}

#[test]
fn numbers_that_overflow_are_told_but_not_those_of_queries_that_see_nothing() {
    let room = Room::new();
    let told = |scale: f64, more: &str| {
        room.write_tensors(
            "x.safetensors",
            &[
                ("q", real(&[1, 1, 3, 2], &[scale; 6])),
                ("k", real(&[1, 1, 2, 2], &[scale; 4])),
                ("v", real(&[1, 1, 2, 2], &[1.0; 4])),
            ],
        );
        let ended = room.run(&format!("op sdpa --in x.safetensors --out y.safetensors --device cpu --causal {more}"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stderr.contains("of lse are not finite")
    };
    assert!(!told(1.0, ""), "a query without keys is no overflow");
    assert!(told(1e20, ""));
    assert!(!told(1e20, "--dtype f64"));
}

#[cfg(unix)]
#[test]
fn results_go_through_links_and_never_over_devices_or_their_own_input() {
    let room = Room::new();
    room.write_tensors("x.safetensors", &[("x", real(&[2], &[-1.0, 2.0]))]);
    room.write("target", "old");
    std::os::unix::fs::symlink("target", room.path("link")).unwrap();
    room.run("op relu --in x.safetensors --out link --device cpu").fine();
    assert!(room.path("link").is_symlink());
    assert_eq!(room.read_tensors("target")["y"].values(), [0.0, 2.0]);
    for (out, expected) in [
        ("/dev/null", "cannot write /dev/null: it is there and is no file"),
        (".", "cannot write .: it is there and is no file"),
        ("x.safetensors", "cannot write x.safetensors: the tensors are read from it; choose another file"),
    ] {
        let ended = room.run(&format!("op relu --in x.safetensors --out {out} --device cpu"));
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let vector = |count: usize| real(&[count], &vec![1.0; count]);
    let rows = |rows: usize, columns: usize| real(&[1, 1, rows, columns], &vec![1.0; rows * columns]);
    let attention = |more: &[(&'static str, Tensor)]| {
        [&[("q", rows(2, 4)), ("k", rows(3, 4)), ("v", rows(3, 4))][..], more].concat()
    };
    for (op, tensors, expected) in [
        ("sdpa", vec![("q", rows(2, 4))], "sdpa: k is missing; v is missing"),
        ("sdpa", attention(&[("mask", vector(1))]), "sdpa: mask is none of its tensors (q, k, v, do)"),
        ("sdpa", attention(&[("do", rows(2, 3))]), "do has shape [1, 1, 2, 3] where its output has [1, 1, 2, 4]"),
        (
            "sdpa",
            vec![("q", rows(2, 4)), ("k", rows(3, 5)), ("v", rows(3, 5))],
            "sdpa of k [1,1,3,5], q [1,1,2,4], v [1,1,3,5]: head width of q and k: 4 and 5 differ",
        ),
        (
            "sdpa",
            vec![("q", vector(4)), ("k", vector(4)), ("v", vector(4))],
            "q has shape [4] where [B, H, Tq, D] is needed",
        ),
        ("sdpa --epsilon 1", attention(&[]), "sdpa takes no --epsilon; it takes --causal, --scale, --kernel"),
        ("sdpa --scale nan", attention(&[]), "--scale is NaN, and must be a finite number"),
        ("softmax --causal", vec![("x", vector(3))], "softmax takes no --causal; it takes no options"),
        ("softmax", vec![("x", real(&[2], &[1.0, f64::INFINITY]))], "x has inf at element 1, and must be finite"),
        ("sdpa --scale 1e39", attention(&[]), "--scale is 1e39, and must be a finite number"),
        (
            "layernorm --epsilon 1e-60",
            vec![("x", vector(3)), ("w", vector(3)), ("b", vector(3))],
            "above 0 as it is stored",
        ),
        ("adamw", vec![("p0.w", vector(2)), ("g.w", real(&[1, 2], &[2e19, 2e19]))], "overflows in step 1: --dtype f64"),
        (
            "sdpa",
            vec![("q", rows(2, 130)), ("k", rows(3, 130)), ("v", rows(3, 130))],
            "head width 130 is beyond the fused kernel's 128: --kernel naive takes any",
        ),
        ("softmax", vec![("x", real(&[0], &[]))], "x has shape [0], which holds nothing"),
        (
            "matmul_nn",
            vec![("a", real(&[1, 2], &[1.0; 2])), ("b", real(&[3, 1], &[1.0; 3]))],
            "matmul_nn of a [1,2], b [3,1]: inner sizes: 2 and 3 differ",
        ),
        (
            "cross_entropy",
            vec![("logits", real(&[2, 3], &[0.0; 6])), ("targets", words(&[2], &[1, 3]))],
            "tensor targets has 3 at element 1, and must be below 3, or -1 where there is none",
        ),
        (
            "cross_entropy",
            vec![("logits", real(&[2, 3], &[0.0; 6])), ("targets", vector(2))],
            "targets holds numbers where integers are needed (I32, I64 or U32)",
        ),
        (
            "embedding",
            vec![("wte", real(&[2, 3], &[0.0; 6])), ("idx", words(&[2], &[1, u32::MAX]))],
            "tensor idx has -1 at element 1, and must be below 2 and not negative",
        ),
        (
            "adamw",
            vec![("p0.w", real(&[3], &[0.0; 3])), ("g.w", real(&[2, 4], &[0.0; 8]))],
            "g.w has shape [2, 4] where [steps, 3] is needed",
        ),
        ("adamw", vec![("p0.w", vector(3))], "adamw: g.w is missing"),
        ("adamw --betas 0.9,1", vec![("p0.w", vector(3))], "--betas is 1.0, and must be 0 or more and below 1"),
        ("conv", vec![("x", vector(3))], "there is no op 'conv'; there are sdpa, matmul_nn"),
        ("relu --dtype f64 --device gpu", vec![("x", vector(3))], "--dtype f64 needs --device cpu"),
    ] {
        let room = Room::new();
        room.write_tensors("x.safetensors", &tensors);
        let device = if op.contains("--device") { "" } else { "--device cpu" };
        let ended = room.run(&format!("op {op} --in x.safetensors --out y.safetensors {device}"));
        assert_eq!(ended.code, Some(2), "{op}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{op}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().filter(|line| line.starts_with("error")).count(), 1, "{}", ended.stderr);
        assert!(!room.path("y.safetensors").exists(), "{op} wrote a file");
    }
}
