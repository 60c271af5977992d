//! `headlight train`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{anyhow, bail};

use super::device::{describe_grants, open_with};
use super::faults::{self, Faults};
use super::output::say;
use super::progress::{Progress, attention_line};
use super::way_on::way_on;
use super::{Outcome, interrupt, sandbox};
use crate::gpu::{Choice, Gpu};
use crate::graph::Reuse;
use crate::script::Tracer;
use crate::tape::print_tape;
use crate::train::program::build_program;
use crate::train::run::{Ending, Preparation, Resumed, Run, RunError, new_model};
use crate::train::run_directory::RunDirectory;
use crate::train::settings::{Settings, SettingsOverride};
use crate::train::text::TrainingText;
use crate::train::trainer::{TrainerError, program_spec};
use crate::train::training_checkpoint::TrainingCheckpoint;

/// What a flag that is left out means.
const DEFAULTS: &str = "Settings that are left out come from the preset: tiny, unless --preset or the file names another. \
    Every run writes all of them to config.toml in its directory.";

#[derive(clap::Args)]
#[command(after_help = DEFAULTS)]
pub struct Arguments {
    #[command(flatten)]
    settings: SettingsOverride,
    /// Read settings from this TOML file; flags win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Continue the run in this directory from its last checkpoint
    #[arg(long, value_name = "DIR", conflicts_with_all = ["config", "out"])]
    resume: Option<PathBuf>,
    /// End after this step as an interruption would; --steps stays the length of the schedule
    #[arg(long, value_name = "N")]
    stop_after: Option<u64>,
    /// Print the graph, the plan and its buffers of the run, and end
    #[arg(long)]
    print_plan: bool,
}

pub async fn run(arguments: Arguments, faults: Faults) -> anyhow::Result<Outcome> {
    let file = match (&arguments.resume, &arguments.config) {
        (Some(directory), _) => {
            let config = directory.join("config.toml");
            if !config.is_file() {
                bail!("{} holds no run: it has no config.toml", directory.display());
            }
            SettingsOverride::read(&config)?
        }
        (None, Some(file)) => SettingsOverride::read(file)?,
        (None, None) => SettingsOverride::default(),
    };
    let mut settings = Settings::resolve(file, arguments.settings);
    if let Some(directory) = &arguments.resume {
        // The run may have been moved since it was written.
        settings.out.clone_from(directory);
    }
    settings.validate()?;
    let tracer = sandbox::tracer();
    if arguments.print_plan {
        return print_plan(&settings, &faults, &tracer).await;
    }

    let resumed = match &arguments.resume {
        Some(path) => {
            let directory = RunDirectory::resume(path)?;
            let checkpoint = TrainingCheckpoint::read(&directory.last(), &tracer)?;
            // Before the text: other settings may make another one, and take minutes for it.
            checkpoint.trainer.check_settings(&settings.trajectory())?;
            Some((directory, checkpoint))
        }
        None => None,
    };
    // What is refused from here on leaves no directory behind; what can be refused without a device, opens none.
    let text = TrainingText::load(&settings)?;
    let (config, resumed) = match resumed {
        Some((directory, checkpoint)) => {
            let checkpoint = Resumed::check(checkpoint, &directory, &settings, &text)?;
            (checkpoint.config().clone(), Some((directory, checkpoint)))
        }
        None => (new_model(&settings, text.tokenizer.vocabulary_size(), &tracer)?, None),
    };
    let (gpu, line) = open(&settings, &faults).await?;
    say(line);
    if !faults.is_empty() {
        say(format_args!("faults are planted on purpose: {faults}"));
        if let Some(gpu) = &gpu {
            say(describe_grants(&gpu.profile));
        }
    }
    let done = resumed.as_ref().map_or(0, |(_, checkpoint)| checkpoint.step());
    faults.check_steps(done, arguments.stop_after.unwrap_or(settings.steps).min(settings.steps))?;
    let preparation = Preparation::new(gpu.as_ref(), &settings, text, config).await;
    let mut preparation = preparation.map_err(|error| refusal(error, arguments.resume.as_deref()))?;
    faults.check_allocations(gpu.as_ref().map_or(0, |gpu| gpu.allocations()))?;
    preparation.plant(faults.training).map_err(|error| anyhow!("{}: nan: {error}", faults::VARIABLE))?;
    let (directory, checkpoint) = match resumed {
        Some((directory, checkpoint)) => (directory, Some(checkpoint)),
        None => {
            let directory = RunDirectory::create(&settings.out)?;
            settings.write(&directory.config())?;
            (directory, None)
        }
    };
    let mut progress = Progress::new(interrupt::listen("finishing the step and saving")?);
    let failed = |error: RunError| match way_on(&directory, &settings, &error) {
        Some(way_on) => anyhow!("{error}; {way_on}"),
        None => error.into(),
    };
    let mut run = Run::open(preparation, &directory, &settings, checkpoint, &mut progress).map_err(failed)?;
    let ending = run.train(arguments.stop_after, &mut progress).await;
    progress.finish();
    let place = directory.path().display();
    match ending.map_err(failed)? {
        Ending::Complete => {
            let models = match settings.keep_checkpoints {
                0 => "best/ and last/",
                _ => "best/, last/ and steps/STEP/",
            };
            say(format_args!("done: {place} holds loss.svg, samples.txt, metrics.jsonl and the models {models}"));
            say(format_args!("next: headlight generate --model {place} --prompt TEXT"));
            Ok(Outcome::Fine)
        }
        Ending::StoppedAfter(step) => {
            say(format_args!("stopped after step {step}; go on with: headlight train --resume {place}"));
            Ok(Outcome::Fine)
        }
        Ending::Interrupted(step) => {
            say(format_args!(
                "interrupted after step {step}, which is saved; go on with: headlight train --resume {place}"
            ));
            Ok(Outcome::Interrupted)
        }
    }
}

fn device(settings: &Settings) -> Choice {
    match settings.device.parse() {
        Ok(choice) => choice,
        Err(never) => match never {},
    }
}

/// Opens the device of a run, with the faults that a test asks for, and says which it is.
async fn open(settings: &Settings, faults: &Faults) -> anyhow::Result<(Option<Arc<Gpu>>, String)> {
    let opened = open_with(&device(settings), faults.device).await?;
    faults.check_device(opened.0.is_some())?;
    Ok(opened)
}

/// Why a run could not be set up. A resumed run keeps its settings, so it needs other advice than a new one.
fn refusal(error: RunError, resume: Option<&Path>) -> anyhow::Error {
    match (error, resume) {
        (RunError::Trainer(TrainerError::NoMemory { source, .. }), Some(directory)) => anyhow!(
            "{source}; the checkpoint is untouched, free memory and go on with: headlight train --resume {}",
            directory.display()
        ),
        (error, _) => error.into(),
    }
}

async fn print_plan(settings: &Settings, faults: &Faults, tracer: &Arc<dyn Tracer>) -> anyhow::Result<Outcome> {
    let text = TrainingText::load(settings)?;
    let config = new_model(settings, text.tokenizer.vocabulary_size(), tracer)?;
    let (gpu, line) = open(settings, faults).await?;
    faults.check_steps(0, 0)?;
    let profile = gpu.as_ref().map(|gpu| &gpu.profile);
    let program = build_program(&program_spec(settings, config.clone()), profile, Reuse::Pooled)?;
    let attention = attention_line(&config, &program.rewrites);
    let plan = print_tape(&program.tape);
    let graph = &program.graph_text;
    let printed = format!("# {line}\n# {attention}\n\n# graph of a micro-step, forward and backward\n{graph}\n{plan}");
    std::io::stdout().write_all(printed.as_bytes())?;
    Ok(Outcome::Fine)
}
