//! The error budget of the kernels whose formulas round the most, on the adapter that is here; and planted errors that
//! break it. `headlight parity --report` measures every kernel and design.

mod device;

use std::sync::{Arc, Mutex};

use headlight::check::error_budget::{Budget, Measurement, measure};
use headlight::gpu::{Gpu, Pipelines};
use headlight::kernel::{
    attention_backward_key_value, attention_backward_query, attention_forward, cross_entropy, layer_norm, matmul,
    softmax,
};
use headlight::tape::{Kernel, Mutant, MutantKind};
use libtest_mimic::{Arguments, Failed, Trial};

const MEASURED: &[&Kernel] = &[
    &attention_backward_key_value::KERNEL,
    &attention_backward_query::KERNEL,
    &attention_forward::KERNEL,
    &cross_entropy::KERNEL,
    &layer_norm::KERNEL,
    &matmul::KERNEL,
    &softmax::KERNEL,
];

/// A relative error of 1e-4 in a design's result.
const PLANTED: &[(&Kernel, &str, Mutant)] = &[
    (
        &attention_forward::KERNEL,
        "tiled",
        Mutant::new(
            MutantKind::Formula,
            "the output is too large",
            "let factor = select(1.0 / sum, 0.0, nothing);",
            "let factor = select(1.0001 / sum, 0.0, nothing);",
        ),
    ),
    (
        &layer_norm::KERNEL,
        "vec4",
        Mutant::new(
            MutantKind::Formula,
            "rows are scaled by too much",
            "let rstd = 1.0 / sqrt(",
            "let rstd = 1.0001 / sqrt(",
        ),
    ),
    (
        &softmax::KERNEL,
        "shared",
        Mutant::new(
            MutantKind::Formula,
            "weights add up to too much",
            "let inverse = select(1.0 / total, 0.0, total == 0.0);",
            "let inverse = select(1.0001 / total, 0.0, total == 0.0);",
        ),
    ),
];

fn main() {
    let arguments = Arguments::from_args();
    let gpu = device::open();
    let pipelines = Arc::new(Mutex::new(Pipelines::default()));
    let mut trials = Vec::new();
    for &kernel in MEASURED {
        let pipelines = pipelines.clone();
        trials.push(trial(format!("{} keeps its error budget", kernel.name), gpu.as_ref(), move |gpu| {
            let mut pipelines = pipelines.lock().map_err(|_| Failed::from("an earlier trial panicked"))?;
            keeps_its_budget(gpu, &mut pipelines, kernel)
        }));
    }
    for (kernel, design, mutant) in PLANTED {
        let name = format!("{}/{design} breaks its error budget: {}", kernel.name, mutant.name);
        trials.push(trial(name, gpu.as_ref(), |gpu| breaks_its_budget(gpu, kernel, design, mutant)));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn trial(
    name: String,
    gpu: Option<&Arc<Gpu>>,
    run: impl FnOnce(&Arc<Gpu>) -> Result<(), Failed> + Send + 'static,
) -> Trial {
    match gpu.cloned() {
        Some(gpu) => Trial::test(name, move || run(&gpu)),
        None => Trial::test(name, || Err("there is no adapter".into())).with_ignored_flag(true),
    }
}

/// The design that a plan would choose, on every case.
fn keeps_its_budget(gpu: &Arc<Gpu>, pipelines: &mut Pipelines, kernel: &'static Kernel) -> Result<(), Failed> {
    let mut broken = String::new();
    for case in (kernel.cases)() {
        let design = kernel.choose(case.parameters.as_any(), &gpu.profile).ok_or("no design runs here")?;
        let measured = pollster::block_on(measure(gpu, pipelines, kernel, design, None, &case));
        let mut budget = Budget::new(kernel.name, design.name);
        budget.add(&case, measured);
        if !budget.kept() {
            broken += &format!("\n{budget}");
        }
    }
    if broken.is_empty() { Ok(()) } else { Err(broken.into()) }
}

fn breaks_its_budget(gpu: &Arc<Gpu>, kernel: &'static Kernel, design: &str, mutant: &Mutant) -> Result<(), Failed> {
    let mut pipelines = Pipelines::default();
    let design = (kernel.designs)().into_iter().find(|row| row.name == design).ok_or("there is no such design")?;
    let case = (kernel.cases)()
        .into_iter()
        .filter(|case| design.fits(case.parameters.as_any(), &gpu.profile).is_ok())
        .max_by_key(|case| case.operands.iter().map(headlight::tape::Operand::len).sum::<usize>())
        .ok_or("the design runs no case here")?;
    let source = design.mutated(case.parameters.as_any(), mutant).map_err(|error| error.to_string())?;
    let mut measured = |replaced| {
        pollster::block_on(measure(gpu, &mut pipelines, kernel, design, replaced, &case))
            .map_err(|error| Failed::from(error.to_string()))
    };
    if !measured(None)?.iter().all(Measurement::kept) {
        return Err("broken before the fault is planted".into());
    }
    match measured(Some(&source))?.iter().all(Measurement::kept) {
        true => Err(format!("the planted error went through on {}", case.name).into()),
        false => Ok(()),
    }
}
