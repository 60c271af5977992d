//! Time of every kernel, design by design, on the shapes of a training step, on the adapter that `auto` takes.
//!
//! Criterion chooses how often and reports; what is run, repeated and waited for is the timing core's, as in `headlight bench
//! kernels`. `elem/s` counts floating-point operations, so that `Gelem/s` reads as GFLOP/s. A filter picks: `cargo bench
//! --bench kernels -- matmul/subgroup`.

#[path = "../tests/device/mod.rs"]
mod device;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use headlight::bench::kernels::{KernelJob, designs};
use headlight::bench::{Clock, Timed, shapes};

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500))
        .without_plots()
        .configure_from_args();
    let Some(gpu) = device::open() else { return };
    for shape in shapes::all(&gpu.profile) {
        let mut group = criterion.benchmark_group(shape.kernel.name);
        for design in designs(&shape, &gpu.profile) {
            let cost = (shape.kernel.cost)(shape.parameters.as_any());
            group.throughput(if cost.flops > 0 {
                Throughput::Elements(cost.flops)
            } else {
                Throughput::Bytes(cost.bytes)
            });
            // Set up by the closure, so that what a filter leaves out is not compiled.
            let mut prepared = None;
            group.bench_function(BenchmarkId::new(design.name, &shape.name), |bencher| {
                let job = prepared.get_or_insert_with(|| {
                    pollster::block_on(KernelJob::new(&gpu, &shape, design)).unwrap_or_else(|error| panic!("{error}"))
                });
                bencher.iter_custom(|iterations| {
                    let repetitions = u32::try_from(iterations).unwrap_or(u32::MAX);
                    let sample = pollster::block_on(job.launch().sample(repetitions, Clock::WallClock));
                    let seconds = sample.unwrap_or_else(|error| panic!("{error}")).wall;
                    Duration::from_secs_f64(seconds * f64::from(repetitions))
                });
            });
        }
        group.finish();
    }
    criterion.final_summary();
}
