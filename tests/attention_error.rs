//! Fused attention against the plain formula in f32, both measured against f64: the criterion of the FlashAttention
//! tests, at a length where tiles meet. The fused error may be at most twice the plain one, plus the floor of the error
//! budget in units of the values' scale.

mod device;

use std::sync::{Arc, Mutex};

use headlight::check::error_budget::{FACTOR, floor};
use headlight::gpu::{Gpu, Pipelines};
use headlight::kernel::attention_forward::{KERNEL, Parameters};
use headlight::tape::{
    BufferWindow, Category, CpuExecutor, DesignInfo, ElementKind, GpuExecutor, Launch, Plain, Segment, Tape,
    TapeBuffer, TwinStorage, Wide, normal,
};
use libtest_mimic::{Arguments, Failed, Trial};

const LENGTH: usize = 200;
const HEAD_DIM: usize = 40;

/// Query, key and value `[T, D]` of one causal head.
struct Inputs {
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
}

fn main() {
    let arguments = Arguments::from_args();
    let gpu = device::open();
    let pipelines = Arc::new(Mutex::new(Pipelines::default()));
    let mut trials = Vec::new();
    for design in (KERNEL.designs)() {
        for value_scale in [1.0, 1000.0] {
            for seed in 1..=5 {
                let name = format!("{}[T={LENGTH} D={HEAD_DIM} causal V x {value_scale} seed={seed}]", design.name);
                let Some(gpu) = gpu.clone() else {
                    trials.push(Trial::test(name, || Err("there is no adapter".into())).with_ignored_flag(true));
                    continue;
                };
                if design.fits(&parameters(), &gpu.profile).is_err() {
                    continue;
                }
                let pipelines = pipelines.clone();
                trials.push(Trial::test(name, move || {
                    let mut pipelines = pipelines.lock().map_err(|_| Failed::from("an earlier trial panicked"))?;
                    compare(&gpu, &mut pipelines, design, seed, value_scale)
                }));
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn compare(
    gpu: &Arc<Gpu>,
    pipelines: &mut Pipelines,
    design: DesignInfo,
    seed: u64,
    value_scale: f64,
) -> Result<(), Failed> {
    let count = LENGTH * HEAD_DIM;
    let inputs = Inputs {
        query: normal(seed, 0, count, 1.0),
        key: normal(seed, 1, count, 1.0),
        value: normal(seed, 2, count, value_scale),
    };
    let exact = twin_output::<f64>(&inputs)?;
    let plain = worst_error(&twin_output::<Plain>(&inputs)?, &exact);
    let fused = worst_error(&fused_output(gpu, pipelines, design, &inputs)?, &exact);
    let allowed = FACTOR * plain + floor(KERNEL.name).relative() * value_scale;
    if fused <= allowed {
        return Ok(());
    }
    Err(format!("the fused error {fused:e} exceeds {allowed:e}; the plain formula's is {plain:e}").into())
}

/// NaN counts as infinitely wrong.
fn worst_error(found: &[f64], exact: &[f64]) -> f64 {
    let errors = found.iter().zip(exact).map(|(found, exact)| (found - exact).abs());
    errors.fold(0.0, |worst, error| {
        if error <= worst {
            worst
        } else if error.is_nan() {
            f64::INFINITY
        } else {
            error
        }
    })
}

fn parameters() -> Parameters {
    let (length, head_dim) = (LENGTH as u32, HEAD_DIM as u32);
    Parameters {
        batch: 1,
        heads: 1,
        key_value_heads: 1,
        query_length: length,
        key_length: length,
        head_dim,
        causal: 1,
        scale: 1.0 / f64::from(head_dim).sqrt(),
        query_offset: 0,
        query_batch_stride: 0,
        query_head_stride: 0,
        query_row_stride: head_dim,
        key_offset: 0,
        key_batch_stride: 0,
        key_head_stride: 0,
        key_row_stride: head_dim,
        value_offset: 0,
        value_batch_stride: 0,
        value_head_stride: 0,
        value_row_stride: head_dim,
        output_offset: 0,
        output_batch_stride: 0,
        output_head_stride: 0,
        output_row_stride: head_dim,
    }
}

const OUTPUT: usize = 3;

/// Query, key, value, output and what the forward pass says of its softmax, and the one launch.
fn tape(design: Option<DesignInfo>) -> Tape {
    let rows = (LENGTH * HEAD_DIM) as u64;
    let length = LENGTH as u64;
    let statistics = [("log_sum_exp", length), ("softmax_statistics", 2 * length)];
    let buffers: Vec<TapeBuffer> = [("query", rows), ("key", rows), ("value", rows), ("output", rows)]
        .into_iter()
        .chain(statistics)
        .map(|(name, elements)| TapeBuffer {
            name: name.into(),
            elements,
            kind: ElementKind::Real,
            category: Category::Workspace,
            persistent: true,
        })
        .collect();
    let operands =
        (0..buffers.len()).map(|buffer| BufferWindow { buffer, offset: 0, bytes: buffers[buffer].bytes() }).collect();
    let launch = Launch::new(&KERNEL, design, parameters(), operands, "attention");
    Tape::new(buffers, vec![Segment { name: "attention".into(), launches: vec![launch] }])
}

/// What the twin makes of the inputs when its numbers are stored as `S`.
fn twin_output<S: TwinStorage>(inputs: &Inputs) -> Result<Vec<f64>, Failed> {
    let executor = CpuExecutor::<S>::new(tape(None)).map_err(|error| error.to_string())?;
    for (buffer, values) in [&inputs.query, &inputs.key, &inputs.value].into_iter().enumerate() {
        let values: Vec<S> = values.iter().map(|&value| S::narrow(S::Wide::of(f64::from(value)))).collect();
        executor.write(buffer, &values).map_err(|error| error.to_string())?;
    }
    executor.run(0);
    let output = executor.read(OUTPUT).map_err(|error| error.to_string())?;
    Ok(output.into_iter().map(|value| value.wide().into()).collect())
}

fn fused_output(
    gpu: &Arc<Gpu>,
    pipelines: &mut Pipelines,
    design: DesignInfo,
    inputs: &Inputs,
) -> Result<Vec<f64>, Failed> {
    let executor = pollster::block_on(GpuExecutor::new(gpu.clone(), tape(Some(design)), pipelines))
        .map_err(|error| error.to_string())?;
    for (buffer, values) in [&inputs.query, &inputs.key, &inputs.value].into_iter().enumerate() {
        executor.write(buffer, values).map_err(|error| error.to_string())?;
    }
    executor.run(0).map_err(|error| error.to_string())?;
    let output = pollster::block_on(executor.read(OUTPUT)).map_err(|error| error.to_string())?;
    Ok(output.into_iter().map(f64::from).collect())
}
