//! Hostile safetensors files.

use std::fs::File;

use super::{damaged_model, edited_weights, fault, none, refused, whole};

fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

fn tensor(name: &str, dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
}

#[test]
fn hostile_weights_are_refused() {
    let many = |count: usize| {
        let tensors: Vec<String> = (0..count).map(|i| tensor(&i.to_string(), "F32", "[0]", "[0,0]")).collect();
        format!("{{{}}}", tensors.join(","))
    };
    let one = |dtype: &str, shape: &str, offsets: &str, data: usize| {
        safetensors(&format!("{{{}}}", tensor("x", dtype, shape, offsets)), &vec![0; data])
    };
    let two = |offsets: &str, data: usize| {
        let [x, y] = [tensor("x", "F32", "[2]", "[0,8]"), tensor("y", "F32", "[2]", offsets)];
        safetensors(&format!("{{{x},{y}}}"), &vec![0; data])
    };
    let twice = format!("{{{0},{0}}}", tensor("x", "F32", "[1]", "[0,4]"));
    let notes: Vec<String> = (0..1_000_000).map(|i| format!("\"{i}\":\"\"")).collect();
    let notes = format!("{{\"__metadata__\":{{{}}}}}", notes.join(","));
    let long_name = format!("{{{}}}", tensor(&"n".repeat(15 << 20), "F32", "[1]", "[0,4]"));
    let long_type = format!("{{{}}}", tensor("x", &"F".repeat(15 << 20), "[1]", "[0,4]"));
    let long_shape = format!("[{}1]", "1,".repeat(5_000_000));
    let half = u64::MAX / 2;
    let eighth = half / 8;
    let set = |value: f32| move |bytes: &mut [u8]| bytes[8..12].copy_from_slice(&value.to_le_bytes());
    let norm = "transformer.ln_f.weight";
    let mut faults = Vec::new();
    for (case, contents, expected) in [
        (
            "header of 2^63 bytes",
            (1u64 << 63).to_le_bytes().to_vec(),
            "is not a safetensors file: its header would have 9223372036854775808 bytes of the file's 8 (limit 16777216)",
        ),
        (
            "header longer than the file",
            safetensors("{}", b"")[..9].to_vec(),
            "is not a safetensors file: its header would have 2 bytes of the file's 9",
        ),
        (
            "elements beyond 2^64",
            one("F32", &format!("[{half},{half}]"), "[0,8]", 8),
            "has a malformed header: tensor x has shape [9223372036854775807, 9223372036854775807]: no file has room for it",
        ),
        ("size beyond 2^64", one("F32", "[18446744073709551616]", "[0,8]", 8), "has a malformed header: invalid "),
        (
            "negative size",
            one("F32", "[-1]", "[0,4]", 4),
            "has a malformed header: invalid value: integer `-1`, expected usize",
        ),
        (
            "offsets reversed",
            one("F32", "[1]", "[4,0]", 4),
            "has a malformed header: tensor x ends at byte 0, before byte 4, its first",
        ),
        (
            "offsets overlapping",
            two("[4,12]", 12),
            "has a malformed header: tensor y begins at byte 4 where byte 8 is next: tensors must follow each other",
        ),
        (
            "offsets with a gap",
            two("[12,20]", 20),
            "has a malformed header: tensor y begins at byte 12 where byte 8 is next: tensors must follow each other",
        ),
        (
            "offsets beyond the end",
            one("F32", "[1000]", "[0,4000]", 4),
            "holds 4 bytes of tensors where its header describes 4000: it is cut short or has a tail",
        ),
        (
            "offsets near 2^64",
            one("U8", &format!("[{eighth}]"), &format!("[0,{eighth}]"), 4),
            "holds 4 bytes of tensors where its header describes 1152921504606846975",
        ),
        (
            "shape that is not the bytes",
            one("F32", "[2]", "[0,4]", 4),
            "has a malformed header: tensor x has 4 bytes where shape [2] of F32 takes 8",
        ),
        (
            "unknown type",
            one("Q4_K", "[1]", "[0,4]", 4),
            "has a malformed header: tensor x has elements of type Q4_K: F32, F16, BF16 and F64 are read",
        ),
        (
            "endless type",
            safetensors(&long_type, &[0; 4]),
            "has a malformed header: tensor x has elements of type FFFF",
        ),
        (
            "one name twice",
            safetensors(&twice, &[0; 4]),
            "has a malformed header: tensor x is there twice: a name must stand once",
        ),
        (
            "name that clears the screen",
            safetensors(&format!("{{{}}}", tensor("\\u001b[2J\\n\\u202e", "F32", "[1]", "[0,4]")), &[0; 4]),
            "does not hold the expected tensors: transformer.wte.weight is missing; ",
        ),
        (
            "endless name",
            safetensors(&long_name, &[0; 4]),
            "does not hold the expected tensors: transformer.wte.weight is missing; ",
        ),
        (
            "endless shape",
            one("F32", &long_shape, "[0,4]", 4),
            "has a malformed header: invalid length 9, expected a list of at most 8 sizes",
        ),
        (
            "deep nesting",
            safetensors(&format!("{{\"x\":{}", "[".repeat(10 << 20)), b""),
            "has a malformed header: invalid type: sequence, expected a string",
        ),
        ("too many tensors", safetensors(&many(200_000), b""), "has a malformed header: more than 65536 tensors"),
        (
            "many tensors that nobody asked for",
            safetensors(&many(65_000), b""),
            "does not hold the expected tensors: transformer.wte.weight is missing; ",
        ),
        (
            "a million notes",
            safetensors(&notes, b""),
            "does not hold the expected tensors: transformer.wte.weight is missing; ",
        ),
        (
            "header that is no JSON",
            safetensors("\u{1b}[31m", b""),
            "has a malformed header: expected value at line 1 column 1",
        ),
        (
            "weight that is NaN",
            edited_weights("best/model.safetensors", norm, set(f32::NAN)),
            "tensor transformer.ln_f.weight has NaN at element 2: every number must be finite in f32",
        ),
        (
            "weight that is infinite",
            edited_weights("best/model.safetensors", norm, set(f32::NEG_INFINITY)),
            "tensor transformer.ln_f.weight has -inf at element 2: every number must be finite in f32",
        ),
    ] {
        let room = damaged_model("model.safetensors", contents);
        faults.extend(fault(&room, case, "generate --model model", &format!("model/model.safetensors {expected}")));
    }
    none(faults);
}

#[test]
fn an_output_layer_of_gigabytes_is_not_read_to_be_compared() {
    let bytes = whole("best/model.safetensors");
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&bytes[8..8 + length]).unwrap().trim_end();
    let data = (bytes.len() - 8 - length) as u64;
    let extra = 8u64 << 30;
    let output = tensor("lm_head.weight", "F32", &format!("[{}]", extra / 4), &format!("[{data},{}]", data + extra));
    let header = format!("{},{output}}}", header.strip_suffix('}').unwrap());
    let room = damaged_model("model.safetensors", safetensors(&header, &bytes[8 + length..]));
    // A hole: no disk is taken.
    let file = File::options().write(true).open(room.path("model/model.safetensors")).unwrap();
    file.set_len(file.metadata().unwrap().len() + extra).unwrap();
    let line = "generate --model model";
    refused(
        &room,
        "output layer of gigabytes",
        line,
        "model/model.safetensors holds an lm_head.weight that is not its wte.weight: ",
    );
}
