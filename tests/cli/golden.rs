//! `parity --golden`: what passes, and everything that must not.

use crate::room::Room;

/// A reference file: `description` without its `tensors`, the described outputs, and all tensors with their numbers.
fn file(description: &str, outputs: &str, tensors: &[(&str, &[usize], &[f32])]) -> Vec<u8> {
    let (mut header, mut data) = (Vec::new(), Vec::new());
    for (name, shape, values) in tensors {
        let start = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        header.push(format!(r#""{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{start},{}]}}"#, data.len()));
    }
    let golden = format!("{{{description},\"tensors\":{{{outputs}}}}}").replace('"', "\\\"");
    header.push(format!(r#""__metadata__":{{"golden":"{golden}"}}"#));
    let header = format!("{{{}}}", header.join(","));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// `[2, 3] [3, 1]`: 1*1 + 2*10 + 3*100, 4*1 + 5*10 + 6*100.
const A: (&str, &[usize], &[f32]) = ("nn_small.a", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
const B: (&str, &[usize], &[f32]) = ("nn_small.b", &[3, 1], &[1.0, 10.0, 100.0]);
const MATMUL: &str = r#""op":"matmul""#;
const OUTPUT: &str = r#""nn_small.c":{"atol":1e-6}"#;

fn c(values: &[f32]) -> (&'static str, &'static [usize], &[f32]) {
    ("nn_small.c", &[2, 1], values)
}

#[test]
fn reference_files_pass_only_if_all_of_them_was_compared_and_agrees() {
    let right = [321.0, 654.0];
    let unknown = r#""op":"rope""#;
    let rope: [(&str, &[usize], &[f32]); 1] = [("half.y", &[1], &[1.0])];
    for (name, bytes, code, expected) in [
        ("right", file(MATMUL, OUTPUT, &[A, B, c(&right)]), 0, "1 outputs compared, 1 passed, 0 failed"),
        (
            "one element off",
            file(MATMUL, OUTPUT, &[A, B, c(&[321.0, 654.1])]),
            1,
            "FAILED nn_small.c  cpu        error 1.00e-1 at [1,0]",
        ),
        (
            "a reference that is no number",
            file(MATMUL, OUTPUT, &[A, B, c(&[321.0, f32::NAN])]),
            1,
            "nn_small.c (cpu): the reference is NaN at [1, 0], which the file does not declare",
        ),
        (
            "an output nobody computes",
            file(
                MATMUL,
                r#""nn_small.c":{"atol":1e-6},"nn_small.d":{"atol":1e-6}"#,
                &[A, B, c(&right), ("nn_small.d", &[1], &[0.0])],
            ),
            1,
            "FAULT  output nn_small.d is not compared",
        ),
        (
            "a tensor that is used for nothing",
            file(MATMUL, OUTPUT, &[A, B, c(&right), ("nn_small.bias", &[1], &[0.0])]),
            1,
            "FAULT  tensor nn_small.bias is used for nothing",
        ),
        ("an input is missing", file(MATMUL, OUTPUT, &[A, c(&right)]), 1, "matmul_nn: b is missing"),
        (
            "another shape",
            file(MATMUL, OUTPUT, &[A, B, ("nn_small.c", &[1, 2], &right)]),
            1,
            "it has shape [2, 1], the reference [1, 2]",
        ),
        ("no outputs", file(MATMUL, "", &[]), 1, "it describes no outputs"),
        (
            "a rounded reference that is not its f64 copy",
            file(MATMUL, OUTPUT, &[A, B, c(&[321.0, f32::NAN]), ("nn_small.c.f64", &[2, 1], &right)]),
            1,
            "nn_small.c is NaN at element 1, its f64 copy 654",
        ),
        (
            "elements that are not there are left out",
            file(MATMUL, r#""nn_small.c":{"atol":1e-6,"ignore":[2,1]}"#, &[A, B, c(&right)]),
            1,
            "nn_small.c ignores 2..1 of 2 elements",
        ),
        ("no tolerance", file(MATMUL, r#""nn_small.c":{}"#, &[A, B, c(&right)]), 1, "nn_small.c has no atol"),
        ("no op", file(r#""note":"x""#, OUTPUT, &[A, B, c(&right)]), 1, "its description names no op"),
        ("cut short", file(MATMUL, OUTPUT, &[A, B, c(&right)])[..200].to_vec(), 1, "is not a safetensors file"),
        ("an op that is not built", file(unknown, r#""half.y":{"atol":1e-6}"#, &rope), 1, "not built: rope (half)"),
        (
            "an input from elsewhere",
            file(r#""op":"matmul","inputs_from":"../x""#, OUTPUT, &[c(&right)]),
            1,
            "its inputs_from is no plain name",
        ),
    ] {
        let room = Room::new();
        std::fs::create_dir(room.path("references")).unwrap();
        room.write("references/one.safetensors", bytes);
        let ended = room.run("parity --golden references --device cpu");
        assert!(ended.stdout.contains(expected), "{name}: {}\n{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(code), "{name}: {}\n{}", ended.stdout, ended.stderr);
    }
}

#[test]
fn ops_that_are_not_built_pass_only_where_that_is_allowed_and_something_else_was_compared() {
    let room = Room::new();
    std::fs::create_dir(room.path("references")).unwrap();
    let rope = file(r#""op":"rope""#, r#""half.y":{"atol":1e-6}"#, &[("half.y", &[1], &[1.0])]);
    room.write("references/rope.safetensors", rope);
    assert_eq!(room.run("parity --golden references --device cpu --allow-missing-ops").code, Some(1));
    room.write("references/matmul.safetensors", file(MATMUL, OUTPUT, &[A, B, c(&[321.0, 654.0])]));
    assert_eq!(room.run("parity --golden references --device cpu").code, Some(1));
    let line = "parity --golden references --device cpu --allow-missing-ops --json report.json";
    let ended = room.run(line);
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    let report: serde_json::Value = serde_json::from_str(&room.text("report.json")).unwrap();
    assert_eq!((&report["passed"], &report["faults"]), (&true.into(), &serde_json::json!([])));
    room.write("references/garbage.safetensors", "garbage");
    assert_eq!(room.run(line).code, Some(1));
    let report: serde_json::Value = serde_json::from_str(&room.text("report.json")).unwrap();
    assert_eq!((&report["passed"], report["faults"].as_array().unwrap().len()), (&false.into(), 1), "{report}");
    assert!(ended.stdout.contains("not built (allowed): rope (half) in rope"), "{}", ended.stdout);
}

#[test]
fn a_directory_without_reference_files_is_named() {
    let room = Room::new();
    std::fs::create_dir(room.path("empty")).unwrap();
    for (line, expected) in [
        ("parity --golden empty --device cpu", "empty holds no .safetensors file: there is nothing to compare"),
        ("parity --golden nowhere --device cpu", "nowhere: No such file or directory"),
    ] {
        let ended = room.run(line);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
}
