//! The check of every attention file that comes with the program, with this adapter as the f32 column.

mod device;

use std::sync::Arc;

use headlight::check::attention::{Request, check};
use headlight::gpu::Gpu;
use headlight::script::{BUGS, GALLERY, REFERENCE, TraceHere, Tracer, builtin};
use headlight::tape::RunOn;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let gpu = device::open();
    let mut trials = Vec::new();
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

fn here() -> Arc<dyn Tracer> {
    Arc::new(TraceHere)
}

fn is_checked(name: &str, gpu: &Arc<Gpu>) -> Result<(), Failed> {
    [11, 12, 13].into_iter().try_for_each(|seed| is_checked_with(seed, name, gpu))
}

/// The reference passes with room to spare, the gallery differs without blame, a bug fails with it; and every file agrees
/// with itself.
fn is_checked_with(seed: u64, name: &str, gpu: &Arc<Gpu>) -> Result<(), Failed> {
    let script = builtin(name).ok_or("no such file")?.script();
    let on = RunOn::Gpu(gpu.clone());
    let request = Request { script: &script, against: None, seed, trace: false, planted: None };
    let report = pollster::block_on(check(&request, &here(), &on))?;
    let blamed = report.findings.iter().any(|finding| finding.mistake);
    let passes = ["reference", "learned_temperature"].contains(&name);
    if blamed != name.starts_with("bugs/") || report.passed != passes {
        return Err(format!("passed: {}, {:?}", report.passed, report.findings).into());
    }
    if passes && let Some(row) = report.rows.iter().find(|row| row.worst.share() > 0.25) {
        return Err(format!("no quarter of the tolerance: {row:?}").into());
    }
    // What is no number in f64 need not be the same elements in f32.
    if name == "bugs/infinity_times_zero" {
        return Ok(());
    }
    let against = pollster::block_on(check(&Request { against: Some(&script), ..request }, &here(), &on))?;
    match against.rows.iter().find(|row| !row.agrees) {
        None => Ok(()),
        Some(row) => Err(format!("it differs from itself: {row:?}").into()),
    }
}
