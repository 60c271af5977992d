//! Every kernel, design and case against its twin, on the adapter that is here; and every planted fault noticed.

mod device;

use std::sync::{Arc, Mutex};

use headlight::check::parity::{Outcome, run_case, run_case_with_source};
use headlight::gpu::{Gpu, Pipelines};
use headlight::kernel::KERNELS;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let gpu = device::open();
    let pipelines = Arc::new(Mutex::new(Pipelines::default()));
    let mut trials = Vec::new();
    for kernel in KERNELS {
        for design in (kernel.designs)() {
            for case in (kernel.cases)() {
                // A design that cannot run a case says so beforehand and has no trial for it; every design must have
                // some, which `shaders.rs` checks.
                let Some(gpu) = &gpu else {
                    let name = format!("{}/{}[{}]", kernel.name, design.name, case.name);
                    trials.push(Trial::test(name, || Err("there is no adapter".into())).with_ignored_flag(true));
                    continue;
                };
                if design.fits(case.parameters.as_any(), &gpu.profile).is_err() {
                    continue;
                }
                let (gpu, pipelines) = (gpu.clone(), pipelines.clone());
                trials.push(Trial::test(format!("{}/{}[{}]", kernel.name, design.name, case.name), move || {
                    let mut pipelines = pipelines.lock().map_err(|_| Failed::from("an earlier trial panicked"))?;
                    let outcome = pollster::block_on(run_case(&gpu, &mut pipelines, kernel, design, &case))
                        .map_err(|error| Failed::from(error.to_string()))?;
                    if outcome.passed() { Ok(()) } else { Err(Failed::from(outcome.to_string())) }
                }));
            }
        }
    }
    trials.extend(mutant_trials(gpu.as_ref()));
    libtest_mimic::run(&arguments, trials).exit();
}

/// One trial a mutant: some case must notice it by a wrong element. A shader that no longer compiles proves nothing.
fn mutant_trials(gpu: Option<&Arc<Gpu>>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for kernel in KERNELS {
        for design in (kernel.designs)() {
            for mutant in design.mutants {
                let name = format!("{}/{} notices: {}", kernel.name, design.name, mutant.name);
                let Some(gpu) = gpu.cloned() else {
                    trials.push(Trial::test(name, || Err("there is no adapter".into())).with_ignored_flag(true));
                    continue;
                };
                trials.push(Trial::test(name, move || {
                    let mut pipelines = Pipelines::default();
                    for case in (kernel.cases)() {
                        let parameters = case.parameters.as_any();
                        if design.fits(parameters, &gpu.profile).is_err() {
                            continue;
                        }
                        let source = design.mutated(parameters, mutant).map_err(|error| error.to_string())?;
                        let run = run_case_with_source(&gpu, &mut pipelines, kernel, design, &source, &case);
                        if let Outcome::Missed { .. } = pollster::block_on(run).map_err(|error| error.to_string())? {
                            return Ok(());
                        }
                    }
                    Err("no case noticed".into())
                }));
            }
        }
    }
    trials
}
