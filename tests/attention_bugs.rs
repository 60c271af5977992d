//! The files of attention bugs against what PyTorch makes of the same formulas (`tests/golden/attention_bugs`), and the
//! check of all files on this adapter.

mod device;

use std::path::Path;
use std::sync::Arc;

use headlight::check::attention::{Request, check};
use headlight::gpu::Gpu;
use headlight::graph::ops::input;
use headlight::graph::{Graph, TensorType, Value, evaluate};
use headlight::model::tensor_file::TensorFile;
use headlight::script::{BUGS, GALLERY, Inputs, REFERENCE, TraceHere, TraceSizes, builtin, replay, trace_here};
use headlight::tape::{RunOn, Tensor};
use libtest_mimic::{Arguments, Failed, Trial};

/// Our files, and PyTorch's names of the same formulas.
const FILES: [(&str, &str); 6] = [
    ("reference", "correct"),
    ("bugs/mask_after_softmax", "mask_after_softmax"),
    ("bugs/missing_transpose", "no_transpose"),
    ("bugs/no_scale", "no_scale"),
    ("bugs/scale_too_small", "scale_inv_d2"),
    ("bugs/wrong_axis", "wrong_axis"),
];

fn main() {
    let arguments = Arguments::from_args();
    let gpu = device::open();
    let mut trials = Vec::new();
    for (file, golden) in FILES {
        for spread in ["std1", "std0p1"] {
            let on_cpu = move || equals_pytorch(file, golden, spread, &RunOn::CpuWide, 1e-12);
            trials.push(Trial::test(format!("{file} {spread} equals PyTorch on the CPU executor"), on_cpu));
            // What a correct f32 program on a CPU needs, times the ten that the golden files allow a GPU.
            let on_gpu = with(&gpu, move |gpu| equals_pytorch(file, golden, spread, &RunOn::Gpu(gpu), 5e-5));
            let trial = Trial::test(format!("{file} {spread} equals PyTorch on this adapter"), on_gpu);
            trials.push(trial.with_ignored_flag(gpu.is_none()));
        }
    }
    for file in [REFERENCE].into_iter().chain(GALLERY) {
        let on_gpu = with(&gpu, move |gpu| is_checked(file.name, &gpu));
        trials.push(
            Trial::test(format!("{} is checked on this adapter", file.name), on_gpu).with_ignored_flag(gpu.is_none()),
        );
    }
    for file in BUGS {
        let on_gpu = with(&gpu, move |gpu| is_checked(&format!("bugs/{}", file.name), &gpu));
        trials.push(
            Trial::test(format!("{} is caught on this adapter", file.name), on_gpu).with_ignored_flag(gpu.is_none()),
        );
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// The CPU executor must not stand in for the adapter.
fn with<F: FnOnce(Arc<Gpu>) -> Result<(), Failed> + Send + 'static>(
    gpu: &Option<Arc<Gpu>>,
    test: F,
) -> impl FnOnce() -> Result<(), Failed> + Send + 'static {
    let gpu = gpu.clone();
    move || test(gpu.ok_or("there is no adapter")?)
}

/// `[B, H, T, D]` as `[B, T, H D]` with B = 1.
fn merged(tensor: &Tensor) -> Tensor {
    let [batch, heads, length, width] = tensor.shape[..] else { panic!("{:?}", tensor.shape) };
    let values = tensor.values();
    let at = |position: usize, column: usize| values[(column / width * length + position) * width + column % width];
    let merged = (0..length).flat_map(|position| (0..heads * width).map(move |column| at(position, column)));
    Tensor::real([batch, length, heads * width], merged.collect())
}

fn equals_pytorch(file: &str, golden: &str, spread: &str, on: &RunOn, tolerance: f64) -> Result<(), Failed> {
    let path = format!("tests/golden/attention_bugs/bugs_b1h2t16d16_{spread}.safetensors");
    let mut tensors = TensorFile::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path))?;
    let mut read = |name: &str| tensors.read_tensor(name).map(|tensor| merged(&tensor));
    let [q, k, v] = [read("q")?, read("k")?, read("v")?];
    let expected = read(&format!("causal.o.{golden}.f64"))?;

    let script = builtin(file).ok_or("no such file")?.script();
    let sizes = TraceSizes { batch: 1, length: 16, width: 32, heads: 2, context_length: 16, layers: 1 };
    let recording = trace_here(&script, &sizes)?.remove(0);
    let mut graph = Graph::new();
    let leaves: Vec<Value> = ["x", "q", "k", "v"]
        .map(|name| input(&mut graph, name, TensorType::real([1, 16, 32])))
        .into_iter()
        .collect::<Result<_, _>>()?;
    let inputs = Inputs { x: leaves[0], query: leaves[1], key: leaves[2], value: leaves[3] };
    let output = replay(&mut graph, &script, &recording, &inputs, &[])?.output;
    let bound = [(leaves[1], &q), (leaves[2], &k), (leaves[3], &v)];
    let found = pollster::block_on(evaluate(&graph, &bound, &[output], on))?;
    for (index, (found, expected)) in found[0].values().iter().zip(expected.values()).enumerate() {
        if !((found - expected).abs() <= tolerance) {
            return Err(format!("element {index}: {found:e} against PyTorch's {expected:e}").into());
        }
    }
    Ok(())
}

/// The reference passes with room to spare, the gallery differs without blame, a bug fails with it; and the file agrees
/// with itself.
fn is_checked(name: &str, gpu: &Arc<Gpu>) -> Result<(), Failed> {
    let script = builtin(name).ok_or("no such file")?.script();
    let on = RunOn::Gpu(gpu.clone());
    let request = Request { script: &script, against: None, seed: 11, trace: false, planted: None };
    let report = pollster::block_on(check(&request, &TraceHere, &on))?;
    let blamed = report.findings.iter().any(|finding| finding.mistake);
    let passes = ["reference", "learned_temperature"].contains(&name);
    if blamed != name.starts_with("bugs/") || report.passed != passes {
        return Err(format!("passed: {}, {:?}", report.passed, report.findings).into());
    }
    if passes && let Some(row) = report.rows.iter().find(|row| row.worst.relative > 0.25 * row.worst.allowed) {
        return Err(format!("no quarter of the tolerance: {row:?}").into());
    }
    let against = pollster::block_on(check(&Request { against: Some(&script), ..request }, &TraceHere, &on))?;
    match against.passed || name == "bugs/infinity_times_zero" {
        true => Ok(()),
        false => Err(format!("it differs from itself: {:?}", against.rows).into()),
    }
}
