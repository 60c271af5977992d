//! Whole training steps on the adapter against the CPU executor: what is right passes, and a fault in any launch is
//! found and named.

mod device;

use std::sync::Arc;

use headlight::check::bisect::{BisectResult, Parting};
use headlight::check::parity::run_case_within_bounds;
use headlight::check::step::{GradientResult, LossResult};
use headlight::check::{LaunchResult, TrainingStep};
use headlight::gpu::{Gpu, Pipelines, ShaderSource, Target};
use headlight::kernel::KERNELS;
use headlight::tape::{Kernel, Launch, Operand, PlantedFault, Tape};
use headlight::train::Preset;
use headlight::train::attention_choice::AttentionKind;
use headlight::train::settings::Settings;
use libtest_mimic::{Arguments, Failed, Trial};

type Check = Box<dyn FnOnce(&Arc<Gpu>) -> Result<(), Failed> + Send>;

fn main() {
    let arguments = Arguments::from_args();
    let gpu = device::open();
    let mut trials = Vec::new();
    let mut add = |name: String, check: Check| {
        let (device, missing) = (gpu.clone(), gpu.is_none());
        let on_device = move || device.as_ref().map_or(Err("there is no adapter".into()), check);
        trials.push(Trial::test(name, on_device).with_ignored_flag(missing));
    };
    for (kind, attention) in [("naive", AttentionKind::Naive), ("fused", AttentionKind::Fused)] {
        for (sizes, settings) in [("sizes of whole vec4", even()), ("odd sizes and two micro-batches", odd())] {
            let settings = Settings { attention: attention.into(), ..settings };
            add(format!("a step of {kind} attention with {sizes} passes"), Box::new(move |gpu| passes(gpu, &settings)));
        }
    }
    for plant in PLANTS {
        let name = format!("bisect names the {} of {} where {}", plant.which.word(), plant.kernel, plant.what);
        add(name, Box::new(|gpu| is_named(gpu, plant)));
    }
    add("a fault in the forward pass shows in the gradients and the losses".into(), Box::new(shows_in_training));
    for kernel in KERNELS {
        let name = format!("results of {} lie within its error bounds", kernel.name);
        add(name, Box::new(|gpu| bounds_hold(gpu, kernel)));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

const VOCABULARY: usize = 23;

/// A model of sizes that every design takes.
fn even() -> Settings {
    Settings { layers: 2, heads: 2, width: 32, context_length: 16, batch: 2, ..Preset::Tiny.settings() }
}

/// A model of sizes that are no multiples of a tile, nor of 4.
fn odd() -> Settings {
    Settings {
        layers: 2,
        heads: 3,
        width: 39,
        context_length: 19,
        batch: 3,
        accumulation: 2,
        ..Preset::Tiny.settings()
    }
}

fn step_of(settings: &Settings) -> Result<TrainingStep, Failed> {
    // A stream of tokens with some order in it.
    let tokens: Vec<u32> = (0..4000u32).map(|i| (i / 3 + i / 50) % VOCABULARY as u32).collect();
    Ok(TrainingStep::new(settings, &tokens, settings.model(VOCABULARY)?))
}

fn passes(gpu: &Arc<Gpu>, settings: &Settings) -> Result<(), Failed> {
    let step = step_of(settings)?;
    pollster::block_on(async {
        let mut pipelines = Pipelines::default();
        let launches = step.compare_launches(gpu, &mut pipelines).await?;
        let tape = step.tape(&gpu.profile)?;
        let [micro_step, update] = [0, 1].map(|segment| tape.segments[segment].launches.len());
        assert_eq!(launches.len(), settings.accumulation * micro_step + update);
        let failed: Vec<&LaunchResult> = launches.iter().filter(|result| !result.passed()).collect();
        assert!(failed.is_empty(), "{failed:#?}");
        // Rounding differs somewhere: the GPU was asked, and not the CPU executor twice.
        assert!(launches.iter().any(|result| result.worst.is_some()), "not a single rounding differs");

        let training = step.compare_training(gpu, &mut pipelines, 20).await?;
        let failed: Vec<&GradientResult> = training.gradients.iter().filter(|result| !result.passed()).collect();
        assert!(failed.is_empty(), "{failed:#?}");
        assert_eq!(training.losses.len(), 20);
        let failed: Vec<&LossResult> = training.losses.iter().filter(|result| !result.passed()).collect();
        assert!(failed.is_empty(), "{failed:#?}");
        let (first, last) = (training.losses[0], training.losses[19]);
        assert!(last.cpu < 0.95 * first.cpu, "nothing was learnt: {first:?} to {last:?}");

        let BisectResult { parting, largest_drifts, launches: searched } = step.bisect(gpu, &mut pipelines).await?;
        assert_eq!((parting, searched), (None, launches.len()));
        assert_eq!(largest_drifts.len(), settings.accumulation + 1, "{largest_drifts:#?}");
        Ok(())
    })
}

/// Which of a kernel's launches.
#[derive(Clone, Copy)]
enum Which {
    First,
    Middle,
    Last,
}

impl Which {
    fn word(self) -> &'static str {
        match self {
            Self::First => "first launch",
            Self::Middle => "middle launch",
            Self::Last => "last launch",
        }
    }
}

/// An edit of the shader of one launch.
struct Plant {
    kernel: &'static str,
    which: Which,
    what: &'static str,
    original: &'static str,
    replacement: &'static str,
}

/// From the first launch of the step to its last; most are off by one in a thousand only.
const PLANTS: &[Plant] = &[
    Plant {
        kernel: "embedding",
        which: Which::First,
        what: "rows are off by one in a thousand",
        original: "columns + column] = table[",
        replacement: "columns + column] = 1.001 * table[",
    },
    Plant {
        kernel: "layer_norm",
        which: Which::Middle,
        what: "results are off by one in a thousand",
        original: "normal * weight[column]",
        replacement: "normal * (1.001 * weight[column])",
    },
    Plant {
        kernel: "layer_norm",
        which: Which::Last,
        what: "every result is NaN",
        original: "1.0 / sqrt(variance + params.epsilon)",
        replacement: "1.0 / sqrt(-1.0 - variance)",
    },
    Plant {
        kernel: "cross_entropy_backward",
        which: Which::First,
        what: "results are off by one in a thousand",
        original: "row.factor * (weight - expected)",
        replacement: "1.001 * row.factor * (weight - expected)",
    },
    Plant {
        kernel: "layer_norm_backward_input",
        which: Which::Middle,
        what: "the share of the variance is left out",
        original: " - normal * product_mean",
        replacement: "",
    },
    Plant {
        kernel: "accumulate",
        which: Which::Last,
        what: "the sum is off by one in a thousand",
        original: "var result = x[index];",
        replacement: "var result = 1.001 * x[index];",
    },
    Plant {
        kernel: "sum_of_squares",
        which: Which::Middle,
        what: "another tensor's sums are overwritten",
        original: "partials[params.partials_offset + own] =",
        replacement: "partials[own] =",
    },
    Plant {
        kernel: "gradient_norm",
        which: Which::First,
        what: "the norm is off by one in a thousand",
        original: "sqrt(select(0.0, sum, sum_is_finite))",
        replacement: "1.001 * sqrt(select(0.0, sum, sum_is_finite))",
    },
    Plant {
        kernel: "adamw",
        which: Which::First,
        what: "the rate is off by one in a thousand",
        original: "step_size * new_m /",
        replacement: "1.001 * step_size * new_m /",
    },
    Plant {
        kernel: "adamw",
        which: Which::Middle,
        what: "every second moment is NaN",
        original: "second_moment[index] = select(v, new_v, inside);",
        replacement: "second_moment[index] = select(v, sqrt(-1.0 - new_v), inside);",
    },
    Plant {
        kernel: "adamw",
        which: Which::Last,
        what: "the first moment is off by one in a thousand",
        original: "first_moment[index] = select(m, new_m, inside);",
        replacement: "first_moment[index] = select(m, 1.001 * new_m, inside);",
    },
];

/// The launch of a tape that a plant is for, counted from 0 over all segments, with the plant in its text.
fn planted(plant: &Plant, tape: &Tape) -> Result<PlantedFault, Failed> {
    let launches: Vec<(usize, &Launch)> = tape
        .segments
        .iter()
        .flat_map(|segment| &segment.launches)
        .enumerate()
        .filter(|(_, launch)| launch.kernel.name == plant.kernel)
        .collect();
    let at = match plant.which {
        Which::First => 0,
        Which::Middle => launches.len() / 2,
        Which::Last => launches.len() - 1,
    };
    let (index, launch) = launches[at];
    let design = launch.design.ok_or("a launch without a design")?;
    let source = design.source(launch.parameters.as_any(), Target::Native)?;
    assert_eq!(source.text.matches(plant.original).count(), 1, "'{}' in {}", plant.original, design.file);
    let text = source.text.replace(plant.original, plant.replacement);
    let source = ShaderSource::assemble(design.file, &text, &[], "", &[], false, Target::Native)?;
    Ok(PlantedFault { launch: index, source })
}

/// The place of a tape's launch among the launches of a whole step, counted from 1: where it runs first.
fn place(launch: usize, tape: &Tape, accumulation: usize) -> usize {
    let micro_step = tape.segments[0].launches.len();
    if launch < micro_step { launch + 1 } else { launch + 1 + (accumulation - 1) * micro_step }
}

fn is_named(gpu: &Arc<Gpu>, plant: &Plant) -> Result<(), Failed> {
    for settings in [even(), odd()] {
        let step = step_of(&settings)?;
        let tape = step.tape(&gpu.profile)?;
        let fault = planted(plant, &tape)?;
        let expected = place(fault.launch, &tape, settings.accumulation);
        let step = step.with_fault(fault);
        let mut pipelines = Pipelines::default();
        let found = pollster::block_on(step.bisect(gpu, &mut pipelines))?;
        let Some(Parting { result, element, inputs, .. }) = found.parting else {
            return Err("no launch parted".into());
        };
        assert_eq!((result.launch.place, result.launch.kernel), (expected, plant.kernel), "{result:#?}");
        assert!(element.share > 1.0 && element.gpu != element.cpu, "{element:?}");
        // All that lies before the launch is rounding.
        assert!(inputs.as_ref().is_none_or(|drift| drift.relative < 1e-3), "{inputs:?}");

        // Fed with the CPU executor's inputs, no other launch fails, however much it would have inherited.
        let launches = pollster::block_on(step.compare_launches(gpu, &mut pipelines))?;
        let failed = launches.iter().filter(|result| !result.passed()).map(|result| result.launch.place);
        let micro_step = tape.segments[0].launches.len();
        let repeats = if expected <= micro_step { settings.accumulation } else { 1 };
        let expected: Vec<usize> = (0..repeats).map(|micro_batch| expected + micro_batch * micro_step).collect();
        assert_eq!(failed.collect::<Vec<_>>(), expected);
    }
    Ok(())
}

fn shows_in_training(gpu: &Arc<Gpu>) -> Result<(), Failed> {
    let train = |plant: &Plant| {
        let step = step_of(&even())?;
        let fault = planted(plant, &step.tape(&gpu.profile)?)?;
        let (step, mut pipelines) = (step.with_fault(fault), Pipelines::default());
        Ok::<_, Failed>(pollster::block_on(step.compare_training(gpu, &mut pipelines, 3))?)
    };
    let off = train(&PLANTS[1])?;
    assert!(!off.passed() && off.gradients.iter().any(|gradient| !gradient.passed()), "{off:#?}");
    let not_finite = train(&PLANTS[2])?;
    assert!(not_finite.gradients.iter().all(|gradient| !gradient.passed()), "{not_finite:#?}");
    assert!(not_finite.losses.iter().all(|loss| !loss.passed()), "{not_finite:#?}");
    Ok(())
}

/// Elements of the largest operands that the bounds are tried on: what is larger takes long to compile or to bound.
const LARGEST: usize = 40_000;

/// The parity cases have contents that training has not: large, tiny, masked, constant. The bounds must hold there too.
fn bounds_hold(gpu: &Arc<Gpu>, kernel: &'static Kernel) -> Result<(), Failed> {
    let mut pipelines = Pipelines::default();
    let mut tried = 0;
    for case in (kernel.cases)() {
        let elements = case.operands.iter().map(|operand| match operand {
            Operand::Input(values) | Operand::InOut(values) => values.len(),
            Operand::InputWords(words) | Operand::InOutWords(words) => words.len(),
            Operand::Output(count) | Operand::OutputWords(count) => *count,
        });
        let Some(design) = kernel.choose(case.parameters.as_any(), &gpu.profile) else { continue };
        if elements.max().unwrap_or(0) > LARGEST {
            continue;
        }
        tried += 1;
        let outcome = pollster::block_on(run_case_within_bounds(gpu, &mut pipelines, kernel, design, &case))?;
        if !outcome.passed() {
            return Err(format!("{}/{}[{}]: {outcome}", kernel.name, design.name, case.name).into());
        }
    }
    assert!(tried > 0, "no case was tried");
    Ok(())
}
