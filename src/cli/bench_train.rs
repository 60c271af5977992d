//! `headlight bench train`

use std::path::PathBuf;

use super::bench::{CommonArguments, OUT_HELP};
use super::bench_session::Session;
use super::{Outcome, sandbox};
use crate::bench::StepJob;
use crate::gpu::Choice;
use crate::train::run::new_model;
use crate::train::settings::{Settings, SettingsOverride};
use crate::train::text::TrainingText;

#[derive(clap::Args)]
#[command(mut_arg("out", |out| out.help(OUT_HELP)))]
pub struct Arguments {
    #[command(flatten)]
    settings: SettingsOverride,
    /// Read settings from this TOML file; flags win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    common: CommonArguments,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let file = arguments.config.as_deref().map(SettingsOverride::read).transpose()?.unwrap_or_default();
    // A directory in a file is the run's.
    let out = arguments.settings.out.clone();
    let settings = Settings::resolve(file, arguments.settings);
    settings.validate()?;
    let tracer = sandbox::tracer();
    let text = TrainingText::load(&settings)?;
    let config = new_model(&settings, text.tokenizer.vocabulary_size(), &tracer)?;
    let device: Choice = match settings.device.parse() {
        Ok(choice) => choice,
        Err(never) => match never {},
    };
    let mut session = Session::open(&arguments.common, "train", (&device, settings.seed, out.as_deref())).await?;
    let stop = session.stop();
    session.progress("setting the step up");
    let job = StepJob::new(session.gpu.as_ref(), &settings, config, &text.training).await?;
    session.progress("timing the step and its launches");
    let rows = job.measure(&session.limits, settings.seed, &session.report.ceilings, &stop).await?;
    session.add(rows)?;
    session.finish(|_| ())
}
