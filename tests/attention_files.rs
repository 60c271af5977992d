//! Attention files on the adapter, in f32, against the CPU executor in f64: the output and the gradients of x, q, k, v and
//! of every learned parameter, unfused and fused; and the same where a binding holds less than the scores take.

mod attention_functions;
mod device;

use std::sync::{Arc, Mutex, PoisonError};

use headlight::gpu::{Gpu, Pipelines};
use headlight::graph::ops::input;
use headlight::graph::{Graph, Reuse, Rewrites, TapeBuilder, TensorType, Value, differentiate_from, rewrite};
use headlight::tape::{BufferId, Category, Contents, CpuExecutor, ElementKind, GpuExecutor, WideExecutor, normal};
use libtest_mimic::{Arguments, Failed, Trial};

use attention_functions::{Built, Function, SMALL, Sizes, every};

/// What an element may be off, as a share of its tensor's largest. On lavapipe the worst is off by 4.3e-6, in the gradient
/// of a parameter: a sum over all rows.
const SHARE: f64 = 1e-5;
/// What it may be off beside that, for a tensor whose terms cancel: numbers here are about 1, and the gradient of what a
/// softmax of one score is made of, which is 0, comes out as up to 1.9e-7.
const ROUNDING: f64 = 5e-7;

/// A tile and one more, and T = d_head beyond the tiles of most designs.
const LARGER: [Sizes; 2] = [
    Sizes { batch: 2, length: 33, heads: 3, head_width: 16, layers: 1 },
    Sizes { batch: 1, length: 40, heads: 1, head_width: 40, layers: 1 },
];

/// What a binding holds where the scores of [`IN_WINDOWS`] take 25 KiB and more.
const BINDING_BYTES: u64 = 16 << 10;

/// What needs more of a buffer at once than a binding holds: a softmax and running sums that do not run along rows, and the
/// gradient of a matrix that all batches share. And what has no scores.
const UNDIVIDED: [&str; 4] = ["wrong_axis.star", "running_sums.star", "folded.star", "called_fused.star"];

/// Odd sizes, then whole vec4.
const IN_WINDOWS: [Sizes; 2] = [
    Sizes { batch: 2, length: 33, heads: 3, head_width: 16, layers: 1 },
    Sizes { batch: 1, length: 40, heads: 4, head_width: 12, layers: 1 },
];

fn main() {
    let arguments = Arguments::from_args();
    let limited = device::open().and_then(|mut gpu| {
        Arc::get_mut(&mut gpu)?.profile.limits.binding_bytes = BINDING_BYTES;
        Some(gpu)
    });
    let whole_sizes: Vec<Sizes> = SMALL.into_iter().chain(LARGER).collect();
    let mut trials = Vec::new();
    let divided = |function: &Function| !UNDIVIDED.contains(&function.script.file.as_str());
    for (gpu, sizes, what, functions) in [
        (device::open(), whole_sizes, "equals the CPU executor in f64, gradients included", every()),
        (limited, IN_WINDOWS.to_vec(), "does so in windows", every().into_iter().filter(divided).collect()),
    ] {
        let pipelines = Arc::new(Mutex::new(Pipelines::default()));
        for function in functions {
            let (device, missing, pipelines, sizes) = (gpu.clone(), gpu.is_none(), pipelines.clone(), sizes.clone());
            let name = format!("{} {what}", function.script.file);
            let on_device = move || {
                let device = device.ok_or("there is no adapter")?;
                // A trial that failed has left no pipeline half made.
                let mut pipelines = pipelines.lock().unwrap_or_else(PoisonError::into_inner);
                compare(&function, &sizes, &device, &mut pipelines)
            };
            trials.push(Trial::test(name, on_device).with_ignored_flag(missing));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn compare(function: &Function, sizes: &[Sizes], gpu: &Arc<Gpu>, pipelines: &mut Pipelines) -> Result<(), Failed> {
    for sizes in sizes.iter().filter(|sizes| function.accepts(sizes)) {
        let written = Differentiated::new(function, sizes, None)?;
        let expected = written.run(None)?.results;
        for rewrites in [Rewrites::Naive, Rewrites::Fused] {
            let rewritten = Differentiated::new(function, sizes, Some(rewrites))?;
            let Run { results: found, in_windows } = rewritten.run(Some((gpu, &mut *pipelines)))?;
            if rewrites == Rewrites::Naive {
                let limited = gpu.profile.limits.binding_bytes == BINDING_BYTES;
                assert_eq!(in_windows, limited, "windows at {sizes:?}");
            }
            for (name, (found, expected)) in written.names.iter().zip(found.iter().zip(&expected)) {
                let place = format!("{name} at {sizes:?}, {rewrites:?}");
                equal(found, expected).map_err(|fault| format!("{place}: {fault}"))?;
            }
        }
    }
    Ok(())
}

fn equal(found: &[f64], expected: &[f64]) -> Result<(), String> {
    let largest = expected.iter().fold(0.0f64, |largest, element| largest.max(element.abs()));
    let allowed = SHARE * largest + ROUNDING;
    for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        // Written so that NaN fails.
        let close = (found - expected).abs() <= allowed;
        if !close {
            return Err(format!("[{index}] is {found} against {expected}; the largest is {largest}"));
        }
    }
    match found.len() == expected.len() && !found.is_empty() {
        true => Ok(()),
        false => Err(format!("{} elements against {}", found.len(), expected.len())),
    }
}

/// What came of a function.
struct Run {
    results: Vec<Vec<f64>>,
    /// Whether a launch was bound in windows.
    in_windows: bool,
}

/// A function with its gradients, for a drawn gradient of its output.
struct Differentiated {
    graph: Graph,
    /// The leaves and what they hold.
    leaves: Vec<(Value, Vec<f64>)>,
    /// The output, then the gradient of each leaf.
    results: Vec<Value>,
    /// What the results are.
    names: Vec<String>,
}

impl Differentiated {
    fn new(function: &Function, sizes: &Sizes, rewrites: Option<Rewrites>) -> Result<Self, Failed> {
        let Built { mut graph, leaves, output } = function.build(sizes)?;
        if let Some(rewrites) = rewrites {
            rewrite(&mut graph, rewrites, &[]);
        }
        let shape = graph.shape(output).to_vec();
        let upstream = input(&mut graph, "d.output", TensorType::real(shape.clone()))?;
        let wanted: Vec<Value> = leaves.iter().map(|leaf| leaf.value).collect();
        let gradients = differentiate_from(&mut graph, &[(output, upstream)], &wanted)?;
        let names = std::iter::once("the output".to_string())
            .chain(leaves.iter().map(|leaf| format!("the gradient of {}", leaf.name)))
            .collect();
        let drawn = normal(18, 0, shape.iter().product(), 1.0).into_iter().map(f64::from).collect();
        let leaves = leaves.into_iter().map(|leaf| (leaf.value, leaf.contents));
        Ok(Self {
            graph,
            leaves: leaves.chain([(upstream, drawn)]).collect(),
            results: std::iter::once(output).chain(gradients).collect(),
            names,
        })
    }

    /// The results, on a device or, without one, in f64.
    fn run(&self, device: Option<(&Arc<Gpu>, &mut Pipelines)>) -> Result<Run, Failed> {
        let profile = device.as_ref().map(|(gpu, _)| gpu.profile.clone());
        let mut builder = TapeBuilder::new(profile, Reuse::Pooled);
        let mut place = |value: Value, category: Category| -> BufferId {
            let elements = self.graph.shape(value).iter().product::<usize>() as u64;
            builder.persistent(&self.graph.nodes[value.node].label, elements, ElementKind::Real, category)
        };
        let leaves: Vec<BufferId> = self.leaves.iter().map(|&(value, _)| place(value, Category::Input)).collect();
        let results: Vec<BufferId> = self.results.iter().map(|&value| place(value, Category::Workspace)).collect();
        let bound = self.leaves.iter().map(|&(value, _)| value).zip(leaves.iter().copied()).collect();
        let roots: Vec<_> = self.results.iter().copied().zip(results.iter().copied().map(Some)).collect();
        builder.begin_segment("attention");
        builder.lower(&self.graph, &bound, &roots)?;
        let tape = builder.finish()?;
        let in_windows = tape.segments[0].launches.iter().any(|launch| launch.label.contains(" (window "));
        pollster::block_on(async {
            let executor = match device {
                Some((gpu, pipelines)) => {
                    WideExecutor::Gpu(Box::new(GpuExecutor::new(gpu.clone(), tape, pipelines).await?))
                }
                None => WideExecutor::CpuWide(CpuExecutor::new(tape)?),
            };
            for (&buffer, (_, contents)) in leaves.iter().zip(&self.leaves) {
                executor.write(buffer, &Contents::Real(contents.clone()))?;
            }
            executor.run(0)?;
            let mut found = Vec::with_capacity(results.len());
            for &buffer in &results {
                found.push(executor.read(buffer).await?);
            }
            Ok(Run { results: found, in_windows })
        })
    }
}
