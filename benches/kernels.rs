//! Time of every kernel, design by design, on the shapes of a training step, on the adapter that `auto` takes.
//!
//! An iteration is one tape of several equal launches, run and waited for; `elem/s` counts floating-point operations, so
//! that `Gelem/s` reads as GFLOP/s. A filter picks: `cargo bench --bench kernels -- matmul/subgroup`.

#[path = "../tests/device/mod.rs"]
mod device;
mod shapes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use headlight::gpu::{Gpu, Pipelines};
use headlight::tape::{
    BufferWindow, Category, DesignInfo, ElementKind, ExecutionError, GpuExecutor, Launch, Segment, Tape, TapeBuffer,
    normal,
};
use shapes::Shape;

/// What one iteration should take, so that the wait at its end does not count.
const ITERATION: Duration = Duration::from_millis(20);
/// Launches in one iteration at most.
const MOST_LAUNCHES: u128 = 256;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500))
        .without_plots()
        .configure_from_args();
    let Some(gpu) = device::open() else { return };
    for shape in shapes::all() {
        let mut group = criterion.benchmark_group(shape.kernel.name);
        for design in (shape.kernel.designs)() {
            if design.fits(shape.parameters.as_any(), &gpu.profile).is_err() {
                continue;
            }
            let flops = (shape.kernel.cost)(shape.parameters.as_any()).flops;
            let id = BenchmarkId::new(design.name, &shape.name);
            // Set up by the closure, so that what a filter leaves out is not compiled.
            let mut prepared = None;
            group.throughput(Throughput::Elements(flops));
            group.bench_function(id, |bencher| {
                let (executor, launches) = prepared.get_or_insert_with(|| {
                    pollster::block_on(prepare(&gpu, &shape, design)).unwrap_or_else(|error| panic!("{error}"))
                });
                bencher.iter_custom(|iterations| {
                    let elapsed: Duration = (0..iterations).map(|_| timed(executor)).sum();
                    elapsed / *launches as u32
                });
            });
        }
        group.finish();
    }
    criterion.final_summary();
}

/// An executor of a tape whose launches fill one iteration, and how many there are.
async fn prepare(gpu: &Arc<Gpu>, shape: &Shape, design: DesignInfo) -> Result<(GpuExecutor, usize), ExecutionError> {
    let mut pipelines = Pipelines::default();
    let single = GpuExecutor::new(gpu.clone(), tape(shape, design, 1), &mut pipelines).await?;
    fill(&single, shape)?;
    timed(&single); // compiles
    let launches = (ITERATION.as_nanos() / timed(&single).as_nanos().max(1)).clamp(1, MOST_LAUNCHES) as usize;
    let executor = GpuExecutor::new(gpu.clone(), tape(shape, design, launches), &mut pipelines).await?;
    fill(&executor, shape)?;
    Ok((executor, launches))
}

/// The shape's launch so many times over, and one more buffer to wait by.
fn tape(shape: &Shape, design: DesignInfo, launches: usize) -> Tape {
    let buffers = shape.operands.iter().chain(&[4]).map(|&elements| TapeBuffer {
        name: shape.name.clone(),
        elements,
        kind: ElementKind::Real,
        category: Category::Workspace,
        persistent: true,
    });
    let buffers: Vec<TapeBuffer> = buffers.collect();
    let windows =
        (0..shape.operands.len()).map(|buffer| BufferWindow { buffer, offset: 0, bytes: buffers[buffer].bytes() });
    let launch = Launch {
        kernel: shape.kernel,
        design: Some(design),
        parameters: shape.parameters.clone(),
        operands: windows.collect(),
        label: shape.name.clone(),
    };
    Tape::new(buffers, vec![Segment { name: "bench".into(), launches: vec![launch; launches] }])
}

/// Gives every operand ordinary numbers: zeros or subnormal numbers may be faster or slower.
fn fill(executor: &GpuExecutor, shape: &Shape) -> Result<(), ExecutionError> {
    for (buffer, &elements) in shape.operands.iter().enumerate() {
        executor.write(buffer, &normal(1, buffer as u64, elements as usize, 1.0))?;
    }
    Ok(())
}

/// The time from queueing the tape to its end: a read of the last buffer returns once everything before it is done.
fn timed(executor: &GpuExecutor) -> Duration {
    let start = Instant::now();
    let done = executor.run(0).and_then(|()| pollster::block_on(executor.read(executor.tape().buffers.len() - 1)));
    done.unwrap_or_else(|error| panic!("{error}"));
    start.elapsed()
}
