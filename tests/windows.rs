//! Buffers beyond what a binding holds, on the adapter: what runs in windows equals what runs whole.
//!
//! The device is told that a binding holds far less than it does; the launch check holds every launch to that.

mod device;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use headlight::check::TrainingStep;
use headlight::gpu::{Gpu, Pipelines, Profile};
use headlight::graph::ops::{
    Reduction, add, binary, causal_mask, concat, constant, cumulative_sum, input, linear, matmul, multiply, permute,
    reduce, reshape, scale, scaled_masked_softmax, select, slice, softmax, transpose,
};
use headlight::graph::{Graph, GraphError, Recompute, Reuse, TapeBuilder, TensorType, Value};
use headlight::kernel::elementwise::Binary;
use headlight::model::EditedAttention;
use headlight::script::TraceHere;
use headlight::tape::{BufferId, Category, ElementKind, GpuExecutor, Tape, TapeError, normal};
use headlight::train::Preset;
use headlight::train::attention_choice::{AttentionKind, read_script};
use headlight::train::settings::Settings;
use headlight::train::trainer::Trainer;
use libtest_mimic::{Arguments, Failed, Trial};

type Check = Box<dyn FnOnce(&Devices) -> Result<(), Failed> + Send>;

/// What a binding of the limited device holds.
const BINDING_BYTES: u64 = 4096;

/// A device as it is, and one that is told to bind little.
struct Devices {
    whole: Device,
    limited: Device,
}

struct Device {
    gpu: Arc<Gpu>,
    pipelines: Mutex<Pipelines>,
}

impl Device {
    fn open(binding_bytes: Option<u64>) -> Option<Self> {
        let mut gpu = device::open()?;
        if let Some(bytes) = binding_bytes {
            Arc::get_mut(&mut gpu)?.profile.limits.binding_bytes = bytes;
        }
        Some(Self { gpu, pipelines: Mutex::default() })
    }

    /// The values of an op on a device, and the launches that were bound in windows.
    fn run(&self, op: &Op) -> Result<(Vec<f32>, usize), Failed> {
        let planned = plan(op, &self.gpu.profile)?;
        let windows = in_windows(&planned.tape).count();
        let mut pipelines = self.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        pollster::block_on(async {
            let executor = GpuExecutor::new(self.gpu.clone(), planned.tape, &mut pipelines).await?;
            for (index, (&buffer, shape)) in planned.leaves.iter().zip(op.inputs).enumerate() {
                executor.write(buffer, &normal(31, index as u64, shape.iter().product(), 1.0))?;
            }
            executor.run(0)?;
            Ok((executor.read(planned.output).await?, windows))
        })
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let devices = Device::open(None).zip(Device::open(Some(BINDING_BYTES)));
    let devices = devices.map(|(whole, limited)| Arc::new(Devices { whole, limited }));
    let mut trials = Vec::new();
    let mut add = |name: String, check: Check| {
        let (devices, missing) = (devices.clone(), devices.is_none());
        let on_device = move || devices.as_ref().map_or(Err("there is no adapter".into()), |devices| check(devices));
        trials.push(Trial::test(name, on_device).with_ignored_flag(missing));
    };
    for op in OPS {
        let name = format!("{} in windows equals the whole", op.name);
        add(name, Box::new(|devices| is_equal(op, devices)));
    }
    for steps in STEPS {
        let name = format!("a training step of {} with {} passes in windows", steps.attention, steps.sizes);
        add(name, Box::new(|_| step_passes(steps)));
    }
    for (sizes, settings) in [("whole vec4", even as fn() -> Settings), ("odd sizes", odd)] {
        let name = format!("what is computed again in windows has the same bits with {sizes}");
        add(name, Box::new(move |_| recomputing_changes_no_bit(&settings())));
    }
    trials.push(Trial::test("scores are bound in windows from the first length on that no binding holds", field_case));
    trials.push(Trial::test("what cannot be divided is refused with both numbers", refusals));
    trials.push(Trial::test("tensors of 2^32 elements are planned for a device and refused without one", beyond_words));
    libtest_mimic::run(&arguments, trials).exit();
}

/// An op on inputs of these shapes.
struct Op {
    name: &'static str,
    inputs: &'static [&'static [usize]],
    build: fn(&mut Graph, &[Value]) -> Result<Value, GraphError>,
    /// What a result may be off, in proportion to the largest; 0 where the order of all sums is the same.
    tolerance: f64,
}

const fn exact(
    name: &'static str,
    inputs: &'static [&'static [usize]],
    build: fn(&mut Graph, &[Value]) -> Result<Value, GraphError>,
) -> Op {
    Op { name, inputs, build, tolerance: 0.0 }
}

const fn rounded(
    name: &'static str,
    inputs: &'static [&'static [usize]],
    build: fn(&mut Graph, &[Value]) -> Result<Value, GraphError>,
) -> Op {
    Op { name, inputs, build, tolerance: 2e-6 }
}

/// Every op that is divided, in layouts that put the cuts in every place.
static OPS: &[Op] = &[
    exact("a function of one tensor", &[&[3, 17, 41]], |g, x| scale(g, x[0], 0.3)),
    exact("a constant", &[], |g, _| constant(g, &[41, 53], 1.5)),
    exact("a function of two tensors", &[&[5, 19, 23], &[5, 19, 23]], |g, x| add(g, x[0], x[1])),
    exact("a matrix added to every head", &[&[4, 33, 33], &[33, 33]], |g, x| add(g, x[0], x[1])),
    exact("a matrix of whole vec4 added to every head", &[&[4, 36, 36], &[36, 36]], |g, x| add(g, x[0], x[1])),
    exact("a number for each row", &[&[4, 33, 33], &[4, 33, 1]], |g, x| multiply(g, x[0], x[1])),
    exact("a number for each column", &[&[4, 36, 36], &[36]], |g, x| multiply(g, x[0], x[1])),
    exact("a transposed tensor", &[&[4, 33, 37], &[4, 37, 33]], |g, x| {
        let transposed = transpose(g, x[1])?;
        multiply(g, x[0], transposed)
    }),
    exact("some columns of a tensor", &[&[64, 64]], |g, x| {
        let part = slice(g, x[0], 1, 3, 24)?;
        add(g, part, part)
    }),
    exact("a mask for all heads", &[&[33, 33], &[4, 33, 33]], |g, x| {
        let zero = constant(g, &[], 0.0)?;
        let positive = binary(g, zero, x[0], Binary::Less)?;
        select(g, positive, x[1], zero)
    }),
    exact("a mask of columns", &[&[2, 1, 36], &[2, 36, 36]], |g, x| {
        let zero = constant(g, &[], 0.0)?;
        let positive = binary(g, zero, x[0], Binary::Less)?;
        select(g, positive, zero, x[1])
    }),
    exact("a causal mask", &[&[4, 33, 33]], |g, x| causal_mask(g, x[0])),
    exact("a causal mask of fewer queries", &[&[3, 7, 100]], |g, x| causal_mask(g, x[0])),
    exact("a causal mask of more queries", &[&[2, 3, 40, 24]], |g, x| causal_mask(g, x[0])),
    exact("a softmax along rows", &[&[4, 33, 33]], |g, x| softmax(g, x[0], 2)),
    exact("a softmax across rows", &[&[64, 12, 5]], |g, x| softmax(g, x[0], 1)),
    exact("a masked softmax", &[&[4, 33, 33]], |g, x| scaled_masked_softmax(g, x[0], 0.2, true)),
    exact("a masked softmax of whole vec4", &[&[4, 36, 36]], |g, x| scaled_masked_softmax(g, x[0], 0.2, true)),
    exact("a masked softmax of fewer queries", &[&[2, 2, 21, 44]], |g, x| scaled_masked_softmax(g, x[0], 0.2, true)),
    exact("a sum along rows", &[&[130, 33]], |g, x| reduce(g, x[0], 1, Reduction::Sum)),
    exact("a maximum across rows", &[&[130, 5, 4]], |g, x| reduce(g, x[0], 1, Reduction::Maximum)),
    rounded("a sum across all rows", &[&[200, 16]], |g, x| reduce(g, x[0], 0, Reduction::Sum)),
    rounded("a mean across the rows of two matrices", &[&[2, 90, 8]], |g, x| reduce(g, x[0], 1, Reduction::Mean)),
    exact("a maximum across all rows", &[&[200, 16]], |g, x| reduce(g, x[0], 0, Reduction::Maximum)),
    exact("cumulative sums", &[&[130, 33]], |g, x| cumulative_sum(g, x[0], 1)),
    exact("a copy in another order", &[&[4, 33, 33]], |g, x| {
        let order = permute(g, x[0], &[2, 0, 1])?;
        reshape(g, order, &[33 * 4 * 33])
    }),
    exact("tensors side by side", &[&[40, 33], &[40, 20]], |g, x| concat(g, &[x[0], x[1]], 1)),
    exact("a product of many rows", &[&[300, 20], &[20, 24]], |g, x| matmul(g, x[0], x[1])),
    rounded("scores of heads", &[&[2, 3, 33, 20], &[2, 3, 33, 20]], |g, x| {
        let keys = transpose(g, x[1])?;
        matmul(g, x[0], keys)
    }),
    rounded("weights times values", &[&[2, 2, 65, 65], &[2, 2, 65, 12]], |g, x| matmul(g, x[0], x[1])),
    rounded("transposed weights times values", &[&[2, 2, 65, 65], &[2, 2, 65, 12]], |g, x| {
        let transposed = transpose(g, x[0])?;
        matmul(g, transposed, x[1])
    }),
    rounded("a long sum with a bias", &[&[60, 300], &[300, 16], &[16]], |g, x| linear(g, x[0], x[1], x[2])),
    rounded("a product of many columns with a bias", &[&[5, 12], &[12, 300], &[300]], |g, x| {
        linear(g, x[0], x[1], x[2])
    }),
];

struct Planned {
    tape: Tape,
    leaves: Vec<BufferId>,
    output: BufferId,
}

fn plan(op: &Op, profile: &Profile) -> Result<Planned, Failed> {
    let mut graph = Graph::new();
    let leaf = |graph: &mut Graph, shape: &[usize]| input(graph, "input", TensorType::real(shape));
    let values = op.inputs.iter().map(|&shape| leaf(&mut graph, shape)).collect::<Result<Vec<_>, _>>()?;
    let output = (op.build)(&mut graph, &values)?;
    let mut builder = TapeBuilder::new(Some(profile.clone()), Reuse::Pooled);
    let mut place = |value: Value| {
        let elements = graph.ty(value).elements().unwrap_or(u64::MAX);
        builder.persistent("tensor", elements, ElementKind::Real, Category::Workspace)
    };
    let leaves: Vec<BufferId> = values.iter().map(|&value| place(value)).collect();
    let placed = place(output);
    builder.begin_segment("op");
    let bound = values.iter().copied().zip(leaves.iter().copied()).collect();
    builder.lower(&graph, &bound, &[(output, Some(placed))])?;
    Ok(Planned { tape: builder.finish()?, leaves, output: placed })
}

/// The kernels of launches that are bound in windows.
fn in_windows(tape: &Tape) -> impl Iterator<Item = &'static str> {
    let launches = tape.segments.iter().flat_map(|segment| &segment.launches);
    launches.filter(|launch| launch.label.contains(" (window ")).map(|launch| launch.kernel.name)
}

fn is_equal(op: &Op, devices: &Devices) -> Result<(), Failed> {
    let (expected, windows) = devices.whole.run(op)?;
    assert_eq!(windows, 0, "windows of a device that needs none");
    let (found, windows) = devices.limited.run(op)?;
    assert!(windows > 1, "{windows} launches are bound in windows");
    let largest = expected.iter().fold(0.0, |largest, value| f64::from(value.abs()).max(largest));
    for (index, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
        let close = (f64::from(found) - f64::from(expected)).abs() <= op.tolerance * largest;
        assert!(found.to_bits() == expected.to_bits() || close, "[{index}] is {found} in windows, {expected} whole");
    }
    assert_eq!(found.len(), expected.len());
    Ok(())
}

/// A model of which one head's scores do not fit a binding.
struct Steps {
    attention: &'static str,
    sizes: &'static str,
    settings: fn() -> Settings,
    /// What must be bound in windows, beside others.
    kernels: &'static [&'static str],
}

/// What a binding holds there. The widest activations take as much.
const STEP_BINDING_BYTES: u64 = 96 * 64 * 4;

static STEPS: &[Steps] = &[
    Steps { attention: "naive", sizes: "whole vec4", settings: even, kernels: NAIVE },
    Steps { attention: "naive", sizes: "odd sizes", settings: odd, kernels: NAIVE },
    Steps {
        attention: "builtin:alibi",
        sizes: "whole vec4",
        settings: even,
        kernels: &["matmul", "scaled_masked_softmax", "binary", "unary"],
    },
    Steps {
        attention: "builtin:window",
        sizes: "odd sizes",
        settings: odd,
        kernels: &["matmul", "scaled_masked_softmax", "select", "binary"],
    },
];

const NAIVE: &[&str] = &["matmul", "scaled_masked_softmax", "scaled_masked_softmax_backward"];

fn even() -> Settings {
    Settings { layers: 1, heads: 2, width: 16, context_length: 96, batch: 1, ..Preset::Tiny.settings() }
}

fn odd() -> Settings {
    Settings {
        layers: 1,
        heads: 3,
        width: 15,
        context_length: 97,
        batch: 1,
        accumulation: 2,
        ..Preset::Tiny.settings()
    }
}

const VOCABULARY: usize = 23;

/// Every launch within its kernel's bounds, and gradients and losses as the CPU executor's.
fn step_passes(steps: &Steps) -> Result<(), Failed> {
    let device = Device::open(Some(STEP_BINDING_BYTES)).ok_or("there is no adapter")?;
    let settings = Settings { attention: AttentionKind::Naive.into(), ..(steps.settings)() };
    let mut config = settings.model(VOCABULARY)?;
    match steps.attention {
        "naive" => {}
        file => {
            let edited = EditedAttention::new(read_script(file)?, Arc::new(TraceHere), &config)?;
            config = config.with_attention(Some(Arc::new(edited)))?;
        }
    }
    let tokens: Vec<u32> = (0..4000u32).map(|i| (i / 3 + i / 50) % VOCABULARY as u32).collect();
    let step = TrainingStep::new(&settings, &tokens, config);
    let tape = step.tape(&device.gpu.profile)?;
    let kernels: BTreeSet<&str> = in_windows(&tape).collect();
    for kernel in steps.kernels {
        assert!(kernels.contains(kernel), "{kernel} is not bound in windows, only {kernels:?} are");
    }
    let mut pipelines = Pipelines::default();
    pollster::block_on(async {
        let launches = step.compare_launches(&device.gpu, &mut pipelines).await?;
        if let Some(launch) = launches.iter().find(|launch| !launch.passed()) {
            return Err(format!("{launch:?}").into());
        }
        let training = step.compare_training(&device.gpu, &mut pipelines, 3).await?;
        match training.passed() {
            true => Ok(()),
            false => Err(format!("{training:?}").into()),
        }
    })
}

/// Two steps with all kept, with scores computed again and with blocks computed again, all in windows.
fn recomputing_changes_no_bit(settings: &Settings) -> Result<(), Failed> {
    let device = Device::open(Some(STEP_BINDING_BYTES)).ok_or("there is no adapter")?;
    let tokens: Vec<u32> = (0..4000u32).map(|i| (i / 3 + i / 50) % VOCABULARY as u32).collect();
    let weights = |recompute| -> Result<(Vec<u32>, usize), Failed> {
        let settings = Settings { recompute, attention: AttentionKind::Naive.into(), ..settings.clone() };
        pollster::block_on(async {
            let mut trainer = Trainer::new(Some(&device.gpu), &settings, settings.model(VOCABULARY)?).await?;
            trainer.train_step(&tokens).await?;
            trainer.train_step(&tokens).await?;
            while trainer.next_report().await?.is_some() {}
            let windows = in_windows(&trainer.program.tape).count();
            Ok((trainer.snapshot().await?.0.concat().into_iter().map(f32::to_bits).collect(), windows))
        })
    };
    let (kept, windows) = weights(Recompute::None)?;
    for recompute in [Recompute::Attention, Recompute::Block] {
        let (computed_again, more_windows) = weights(recompute)?;
        assert!(more_windows > windows, "{recompute:?} computes nothing again in windows");
        assert!(computed_again == kept, "{recompute:?} gives other bits");
    }
    Ok(())
}

/// A profile that binds 128 MiB of buffers of up to 2 GiB.
fn bound(binding_bytes: u64, buffer_bytes: u64) -> Profile {
    let mut profile = Profile::webgpu_defaults();
    (profile.limits.binding_bytes, profile.limits.buffer_bytes) = (binding_bytes, buffer_bytes);
    profile
}

/// The launches of the naive attention of one head size, by kernel.
fn launches_of_attention(length: usize, profile: &Profile) -> Result<HashMap<&'static str, usize>, Failed> {
    let mut graph = Graph::new();
    let mut leaf = |name: &str| input(&mut graph, name, TensorType::real([1, 4, length, 32]));
    let [query, key, value] = [leaf("query")?, leaf("key")?, leaf("value")?];
    let keys = transpose(&mut graph, key)?;
    let scores = matmul(&mut graph, query, keys)?;
    let weights = scaled_masked_softmax(&mut graph, scores, 0.2, true)?;
    let output = matmul(&mut graph, weights, value)?;
    let mut builder = TapeBuilder::new(Some(profile.clone()), Reuse::Pooled);
    let elements = (4 * length * 32) as u64;
    let leaves = [query, key, value]
        .map(|value| (value, builder.persistent("leaf", elements, ElementKind::Real, Category::Input)));
    builder.begin_segment("attention");
    builder.lower(&graph, &leaves.into_iter().collect(), &[(output, None)])?;
    let mut counts = HashMap::new();
    for launch in &builder.finish()?.segments[0].launches {
        *counts.entry(launch.kernel.name).or_insert(0) += 1;
    }
    Ok(counts)
}

/// 4 * 2896^2 scores take 134,189,056 bytes, 4 * 2897^2 take 134,281,744; 128 MiB are 134,217,728.
fn field_case() -> Result<(), Failed> {
    let profile = bound(128 << 20, (2 << 30) - 1);
    for (length, [products, softmaxes]) in [(2896, [2, 1]), (2897, [4, 2]), (8192, [16, 8])] {
        let counts = launches_of_attention(length, &profile)?;
        assert_eq!([counts["matmul"], counts["scaled_masked_softmax"]], [products, softmaxes], "{length}: {counts:?}");
    }
    Ok(())
}

fn refusals() -> Result<(), Failed> {
    let columns = exact("a sum across rows of which there is a prime number", &[&[67, 64]], |g, x| {
        reduce(g, x[0], 0, Reduction::Sum)
    });
    let masked = exact("a causal mask", &[&[4, 64, 64]], |g, x| causal_mask(g, x[0]));
    for (op, profile, part) in [
        (&columns, bound(4096, 1 << 20), "binds 17152 bytes, the device's limit is 4096"),
        // Not even a row fits.
        (&masked, bound(128, 1 << 20), "binds 65536 bytes, the device's limit is 128"),
        // No device allocates it, so it is not divided.
        (&masked, bound(4096, 8192), "needs a buffer of 65536 bytes, the device's largest is 8192"),
    ] {
        let message = plan(op, &profile).err().map(|failed| failed.message().unwrap_or_default().to_string());
        assert!(message.as_ref().is_some_and(|message| message.contains(part)), "{}: {message:?}", op.name);
    }
    assert!(plan(&masked, &bound(4096, 65_536)).is_ok());
    Ok(())
}

/// 2 * 65536^2 scores are 2^33 elements.
fn beyond_words() -> Result<(), Failed> {
    let plan = |profile: Option<Profile>| -> Result<Result<usize, TapeError>, Failed> {
        let mut graph = Graph::new();
        let row = input(&mut graph, "row", TensorType::real([65_536, 1]))?;
        let column = input(&mut graph, "column", TensorType::real([2, 1, 65_536]))?;
        let scores = add(&mut graph, row, column)?;
        let scores = graph.label(scores, "scores");
        let masked = causal_mask(&mut graph, scores)?;
        let sums = reduce(&mut graph, masked, 2, Reduction::Sum)?;
        let mut builder = TapeBuilder::new(profile, Reuse::Pooled);
        let mut leaf = |elements: u64| builder.persistent("leaf", elements, ElementKind::Real, Category::Input);
        let leaves = HashMap::from([(row, leaf(65_536)), (column, leaf(131_072))]);
        builder.begin_segment("scores");
        builder.lower(&graph, &leaves, &[(sums, None)])?;
        Ok(builder.finish().map(|tape| in_windows(&tape).count()))
    };
    // 32 GiB in windows of 128 MiB, each of three kernels.
    assert_eq!(plan(Some(bound(128 << 20, 1 << 40)))?, Ok(3 * 256));
    for (profile, part) in [
        (None, "('scores') has 8589934592 elements, kernels count to 4294967295"),
        (
            Some(bound(128 << 20, 1 << 30)),
            "'scores' needs a buffer of 34359738368 bytes, the device's largest is 1073741824",
        ),
    ] {
        let message = plan(profile)?.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains(part), "{message}");
    }
    Ok(())
}
