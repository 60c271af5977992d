//! Every kernel, design and case against its twin, on the adapter that is here; and every planted fault noticed.

mod device;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use headlight::check::mutants::{Planted, References, Table, Tally, Verdict};
use headlight::check::parity::run_case;
use headlight::gpu::{Gpu, Pipelines};
use headlight::kernel::{KERNELS, fill};
use headlight::tape::{Case, Mutant, MutantKind};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let gpu = device::open();
    let pipelines = Arc::new(Mutex::new(Pipelines::default()));
    let mut trials = Vec::new();
    for kernel in KERNELS {
        let cases: Vec<Arc<Case>> = (kernel.cases)().into_iter().map(Arc::new).collect();
        for design in (kernel.designs)() {
            for case in cases.iter().cloned() {
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
    let judged = Arc::new(Mutex::new(Vec::new()));
    let mutants = Planted::all(KERNELS);
    trials.extend(mutant_trials(gpu.as_ref(), &mutants, &judged));
    trials.extend(harmless_trials(gpu.as_ref()));
    let conclusion = libtest_mimic::run(&arguments, trials);
    print_table(&mutants, &judged);
    conclusion.exit();
}

/// The numbers of mutants and what became of them.
type Judged = Arc<Mutex<Vec<(usize, Verdict)>>>;

/// One trial a mutant: some case must notice it by a wrong element.
fn mutant_trials(gpu: Option<&Arc<Gpu>>, mutants: &[Planted], judged: &Judged) -> Vec<Trial> {
    let mut references: HashMap<&str, Arc<OnceLock<References>>> = HashMap::new();
    let mut trials = Vec::new();
    for (number, &planted) in mutants.iter().enumerate() {
        let (gpu, judged) = (gpu.cloned(), judged.clone());
        let references = references.entry(planted.kernel.name).or_default().clone();
        let missing = gpu.is_none();
        let run = move || {
            let Some(gpu) = gpu else { return Err("there is no adapter".into()) };
            let references = references.get_or_init(|| References::of(planted.kernel));
            let verdict = pollster::block_on(planted.judge(&gpu, references));
            let result = if verdict.failed() { Err(Failed::from(verdict.to_string())) } else { Ok(()) };
            judged.lock().map_err(|_| Failed::from("an earlier trial panicked"))?.push((number, verdict));
            result
        };
        trials.push(Trial::test(format!("mutant {}", planted.name()), run).with_ignored_flag(missing));
    }
    trials
}

/// A name, an edit of the kernel `fill`, and what must become of it.
type Harmless = (&'static str, &'static Mutant, fn(&Verdict) -> bool);

/// Edits that no case can notice: they must be told from mutants that were noticed.
fn harmless_trials(gpu: Option<&Arc<Gpu>>) -> Vec<Trial> {
    const HARMLESS: Mutant =
        Mutant::new(MutantKind::Formula, "factors change places", "let first = index * 4u;", "let first = 4u * index;");
    const NOT_FOUND: Mutant = Mutant::new(MutantKind::Formula, "nothing changes", "no such text", "");
    const NO_SHADER: Mutant = Mutant::new(MutantKind::Formula, "a bracket is lost", "let first = index * 4u;", "{");
    let rows: [Harmless; 3] = [
        ("a harmless edit survives", &HARMLESS, |verdict| matches!(verdict, Verdict::Survived { tried } if *tried > 1)),
        ("an edit without its text proves nothing", &NOT_FOUND, |verdict| matches!(verdict, Verdict::Broken { .. })),
        ("an edit that leaves no shader proves nothing", &NO_SHADER, |verdict| {
            matches!(verdict, Verdict::Broken { .. })
        }),
    ];
    let trial = |(name, mutant, expected): Harmless| {
        let gpu = gpu.cloned();
        let missing = gpu.is_none();
        let run = move || {
            let Some(gpu) = gpu else { return Err("there is no adapter".into()) };
            let design = (fill::KERNEL.designs)()[0];
            let planted = Planted { kernel: &fill::KERNEL, design, mutant };
            let verdict = pollster::block_on(planted.judge(&gpu, &References::of(&fill::KERNEL)));
            match expected(&verdict) && verdict.failed() {
                true => Ok(()),
                false => Err(Failed::from(verdict.to_string())),
            }
        };
        Trial::test(format!("mutant: {name}"), run).with_ignored_flag(missing)
    };
    rows.into_iter().map(trial).collect()
}

/// What became of the mutants that were tried, in the order of the lists.
fn print_table(mutants: &[Planted], judged: &Judged) {
    let Ok(mut judged) = judged.lock() else { return };
    judged.sort_by_key(|(number, _)| *number);
    if judged.is_empty() {
        return;
    }
    let table = Table::of(mutants);
    let mut tally = Tally::default();
    println!("{}", table.heading());
    for (number, verdict) in judged.iter() {
        println!("{}", table.row(&mutants[*number], verdict));
        tally.add(verdict);
    }
    println!("{tally}\n");
}
