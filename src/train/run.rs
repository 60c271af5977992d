//! A run: the loop around the trainer, and what it leaves in its directory.

use std::path::PathBuf;
use std::sync::Arc;

use web_time::Instant;

use super::answers;
use super::chart::{ChartError, ReferenceLoss, loss_chart};
use super::faults::TrainingFaults;
use super::metrics::{MetricsError, MetricsLog, MetricsRecord, read_metrics};
use super::non_finite::NonFinite;
use super::optimizer_state::OptimizerState;
use super::run_directory::RunDirectory;
use super::samples::SampleLog;
use super::settings::Settings;
use super::text::{TrainingText, TrainingTextError};
use super::trainer::{StepReport, Trainer, TrainerError};
use super::trainer_state::{TRAINER_FILE, TrainerState, TrainerStateError};
use super::training_checkpoint::{TrainingCheckpoint, TrainingCheckpointError};
use crate::atomic::{FileError, write_file};
use crate::data::tokenizer::{Tokenizer, TokenizerJsonError};
use crate::fingerprint::Fingerprint;
use crate::gpu::Gpu;
use crate::model::attention::EditedAttention;
use crate::model::causality::Causality;
use crate::model::checkpoint::{CONFIG_FILE, Checkpoint, CheckpointError, TOKENIZER_FILE};
use crate::model::config::{ConfigError, GptConfig};
use crate::model::sampling::Sampling;
use crate::script::{ScriptError, Tracer};

/// How samples are drawn while training: a little cooler than the model's own probabilities.
const SAMPLE_TEMPERATURE: f64 = 0.8;

/// Why a run ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Trainer(#[from] TrainerError),
    #[error(transparent)]
    Text(#[from] TrainingTextError),
    #[error(transparent)]
    Sizes(#[from] ConfigError),
    #[error(transparent)]
    Attention(#[from] ScriptError),
    #[error(transparent)]
    Checkpoint(#[from] TrainingCheckpointError),
    #[error(transparent)]
    Model(#[from] CheckpointError),
    #[error(transparent)]
    State(#[from] TrainerStateError),
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    #[error(transparent)]
    Chart(#[from] ChartError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {source}", path.display())]
    Tokenizer { path: PathBuf, source: TokenizerJsonError },
    #[error("{}: the checkpoint has no tokenizer.json, so its text cannot be compared: put it back, or start a new run", path.display())]
    NoTokenizer { path: PathBuf },
    #[error("{}: it describes another model than the run's settings: {}", path.display(), differences.join(", "))]
    OtherModel { path: PathBuf, differences: Vec<String> },
    #[error("{}: the checkpoint is at step {step}, beyond the run's {steps} steps", path.display())]
    BeyondEnd { path: PathBuf, step: u64, steps: u64 },
    #[error("step {step}: {source}")]
    AtStep { step: u64, source: Box<RunError> },
}

impl RunError {
    /// Whether the text tells the step already.
    fn names_its_step(&self) -> bool {
        match self {
            Self::Trainer(error) => !matches!(error, TrainerError::Batch(_)),
            Self::AtStep { .. } => true,
            _ => false,
        }
    }

    /// What happened, without the step at which it did.
    pub fn cause(&self) -> &Self {
        match self {
            Self::AtStep { source, .. } => source.cause(),
            error => error,
        }
    }

    /// The file or directory that could not be written or read, with the system's own error, if that is what happened.
    pub fn file(&self) -> Option<&FileError> {
        match self.cause() {
            Self::File(error)
            | Self::Metrics(MetricsError::File(error))
            | Self::State(TrainerStateError::File(error))
            | Self::Model(CheckpointError::File(error))
            | Self::Checkpoint(
                TrainingCheckpointError::File(error)
                | TrainingCheckpointError::Tensors(CheckpointError::File(error))
                | TrainingCheckpointError::Trainer(TrainerStateError::File(error)),
            ) => Some(error),
            _ => None,
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All steps are done.
    Complete,
    /// After as many steps as were asked for.
    StoppedAfter(u64),
    /// The user asked to stop; everything up to this step is saved.
    Interrupted(u64),
}

/// What an evaluation measures.
#[derive(Clone, Copy, Debug)]
struct Measured {
    validation_loss: f64,
    /// Where attention was edited.
    causality: Option<Causality>,
}

impl Measured {
    /// The validation loss without what seeing the future takes off it.
    fn honest_loss(&self) -> Option<f64> {
        self.causality.map(|causality| self.validation_loss + causality.gap())
    }
}

/// Who watches a run.
pub trait Observer {
    /// The run begins, `done` of `steps` behind it.
    fn begins(&mut self, trainer: &Trainer, text: &TrainingText, done: u64, steps: u64);
    /// A step's report has come in.
    fn step(&mut self, report: &StepReport, tokens_per_second: f64);
    /// A line went into the metrics.
    fn logged(&mut self, record: &MetricsRecord);
    /// Something worth a line of its own.
    fn notice(&mut self, text: &str);
    /// Whether the user asked to stop.
    fn wants_to_stop(&self) -> bool;
}

/// A run under way.
pub struct Run<'a> {
    directory: &'a RunDirectory,
    settings: &'a Settings,
    text: TrainingText,
    trainer: Trainer,
    metrics: MetricsLog,
    samples: SampleLog,
    best: Option<f64>,
    plan_fingerprint: String,
    /// Seconds and tokens before this process took over.
    earlier: (f64, u64),
    began: Instant,
    first_step: u64,
    /// Whether it goes on from a checkpoint, which may be that of step 0.
    resumed: bool,
    /// Seconds spent in training steps since the last line of metrics, and the steps done in them.
    since_line: (f64, u64),
    last_report: Option<StepReport>,
}

/// A checkpoint that was found to belong to a run's settings and text.
pub struct Resumed(TrainingCheckpoint);

impl Resumed {
    /// Holds the last checkpoint of a run against its settings and its text. Needs no device.
    ///
    /// # Errors
    /// Settings, a vocabulary, a text or a model that is not the checkpoint's; a step after the last; metrics that
    /// cannot be read.
    pub fn check(
        checkpoint: TrainingCheckpoint,
        run: &RunDirectory,
        settings: &Settings,
        text: &TrainingText,
    ) -> Result<Self, RunError> {
        let directory = run.last();
        let state = &checkpoint.trainer;
        // Settings first: all else may differ only because they do.
        state.check_settings(&settings.trajectory())?;
        let stored = checkpoint.model.tokenizer.as_deref();
        let stored = stored.ok_or_else(|| RunError::NoTokenizer { path: directory.clone() })?;
        let tokenizer = Tokenizer::from_json(stored)
            .map_err(|source| RunError::Tokenizer { path: directory.join(TOKENIZER_FILE), source })?;
        text.check_same(&tokenizer, &state.text_fingerprint)?;
        let stored = &checkpoint.model.config;
        let mut differences = differences(stored, &settings.model(text.tokenizer.vocabulary_size())?);
        if stored.attention.is_some() != settings.attention.file.is_some() {
            differences.push(format!("attention is that of {}", stored.attention_file()));
        }
        if !differences.is_empty() {
            return Err(RunError::OtherModel { path: directory.join(CONFIG_FILE), differences });
        }
        if state.step > settings.steps {
            let path = directory.join(TRAINER_FILE);
            return Err(RunError::BeyondEnd { path, step: state.step, steps: settings.steps });
        }
        read_metrics(&run.metrics())?;
        Ok(Self(checkpoint))
    }

    /// The model, with the attention that the run began with.
    pub fn config(&self) -> &GptConfig {
        &self.0.model.config
    }

    /// Steps that the run has behind it.
    pub fn step(&self) -> u64 {
        self.0.trainer.step
    }
}

/// The model of a new run: its sizes, and its attention traced for them.
///
/// # Errors
/// Sizes that make no model, an attention that cannot be traced.
pub fn new_model(settings: &Settings, vocabulary_size: usize, tracer: &Arc<dyn Tracer>) -> Result<GptConfig, RunError> {
    let config = settings.model(vocabulary_size)?;
    let Some(script) = settings.attention.script()? else { return Ok(config) };
    let attention = EditedAttention::new(script, Arc::clone(tracer), &config)?;
    Ok(config.with_attention(Some(Arc::new(attention)))?)
}

/// The sizes in which a stored model is not the one asked for.
fn differences(stored: &GptConfig, asked: &GptConfig) -> Vec<String> {
    let sizes = |config: &GptConfig| {
        [
            ("vocabulary_size", config.vocabulary_size as f64),
            ("context_length", config.context_length as f64),
            ("layers", config.layers as f64),
            ("heads", config.heads as f64),
            ("width", config.width as f64),
            ("mlp_width", config.mlp_width as f64),
            ("layer_norm_epsilon", config.layer_norm_epsilon),
        ]
    };
    let pairs = sizes(stored).into_iter().zip(sizes(asked));
    pairs
        .filter(|((_, stored), (_, asked))| stored != asked)
        .map(|((name, stored), (_, asked))| format!("{name} is {stored} where {asked} is needed"))
        .collect()
}

/// A text and a model set up to be trained on it: all that can be refused before a run's directory is made.
pub struct Preparation {
    text: TrainingText,
    trainer: Trainer,
    plan_fingerprint: String,
}

impl Preparation {
    /// Plans the run of a model and sets it up on `gpu`, or on the CPU executor where that is `None`.
    ///
    /// # Errors
    /// A model that does not fit the adapter.
    pub async fn new(
        gpu: Option<&Arc<Gpu>>,
        settings: &Settings,
        text: TrainingText,
        config: GptConfig,
    ) -> Result<Self, RunError> {
        let trainer = Trainer::new(gpu, settings, config).await?;
        let plan_fingerprint = trainer.program.tape.fingerprint(gpu.map(|gpu| &gpu.profile));
        Ok(Self { text, trainer, plan_fingerprint })
    }

    /// Plants faults into the run. For tests.
    ///
    /// # Errors
    /// As [`Trainer::plant`].
    pub fn plant(&mut self, faults: TrainingFaults) -> Result<(), RunError> {
        Ok(self.trainer.plant(faults)?)
    }
}

impl<'a> Run<'a> {
    /// Begins a run in its directory, from the first step or from its last checkpoint.
    ///
    /// # Errors
    /// Metrics that cannot be read, files that cannot be written.
    pub fn open(
        preparation: Preparation,
        directory: &'a RunDirectory,
        settings: &'a Settings,
        resumed: Option<Resumed>,
        observer: &mut impl Observer,
    ) -> Result<Self, RunError> {
        let Preparation { text, mut trainer, plan_fingerprint } = preparation;
        let (mut best, mut earlier, mut samples_length) = (None, (0.0, 0), 0);
        let is_resumed = resumed.is_some();
        if let Some(Resumed(checkpoint)) = resumed {
            let state = &checkpoint.trainer;
            if state.plan_fingerprint != plan_fingerprint {
                observer.notice(&format!(
                    "resuming under plan {plan_fingerprint} a run of plan {}, which another adapter, driver, kernel or \
                     design makes: it goes on, but not bit for bit as it would have",
                    state.plan_fingerprint
                ));
            }
            trainer.load(&checkpoint.model.parameters, &checkpoint.optimizer, state.step)?;
            (best, earlier, samples_length) =
                (state.best_validation_loss, (state.elapsed_seconds, state.tokens), state.samples_length);
        }
        let first_step = trainer.step();
        Ok(Self {
            metrics: MetricsLog::open(&directory.metrics(), first_step)?,
            samples: SampleLog::open(&directory.samples(), samples_length)?,
            directory,
            settings,
            text,
            trainer,
            best,
            plan_fingerprint,
            earlier,
            began: Instant::now(),
            first_step,
            resumed: is_resumed,
            since_line: (0.0, 0),
            last_report: None,
        })
    }

    /// Trains until the last step, until `stop_after`, or until the observer wants to stop; then saves.
    ///
    /// # Errors
    /// A loss that is not finite, a device that fails, a disk that is full; each tells the step. What was saved before
    /// stays.
    pub async fn train(&mut self, stop_after: Option<u64>, observer: &mut impl Observer) -> Result<Ending, RunError> {
        self.train_to(stop_after, observer).await.map_err(|error| match error.names_its_step() {
            true => error,
            false => RunError::AtStep { step: self.trainer.step(), source: Box::new(error) },
        })
    }

    async fn train_to(&mut self, stop_after: Option<u64>, observer: &mut impl Observer) -> Result<Ending, RunError> {
        let steps = self.settings.steps;
        let target = stop_after.unwrap_or(steps).min(steps);
        observer.begins(&self.trainer, &self.text, self.first_step, steps);
        if self.first_step == steps {
            // Resumed after its end: everything is measured and saved already.
            return Ok(Ending::Complete);
        }
        if !self.resumed {
            let measured = self.evaluate().await?;
            self.log(0, None, Some(measured), observer)?;
            if self.settings.keep_checkpoints > 0 {
                self.keep().await?;
            }
            // So that whatever happens from here on, there is something to go on from.
            self.save().await?;
        }
        while self.trainer.step() < target {
            if observer.wants_to_stop() {
                self.flush(None, observer).await?;
                self.save().await?;
                self.draw_chart()?;
                return Ok(Ending::Interrupted(self.trainer.step()));
            }
            let began = Instant::now();
            let report = self.trainer.train_step(&self.text.training).await?;
            self.since_line.0 += began.elapsed().as_secs_f64();
            self.since_line.1 += 1;
            if let Some(report) = report {
                self.reported(report, false, observer)?;
            }
            self.scheduled(observer).await?;
        }
        if target == steps {
            self.finish(observer).await?;
            return Ok(Ending::Complete);
        }
        self.flush(None, observer).await?;
        self.save().await?;
        self.draw_chart()?;
        Ok(Ending::StoppedAfter(self.trainer.step()))
    }

    /// What is due after the step just queued: evaluation, sample, checkpoint.
    async fn scheduled(&mut self, observer: &mut impl Observer) -> Result<(), RunError> {
        let step = self.trainer.step();
        let due = |every: u64| every > 0 && step.is_multiple_of(every);
        // The end has an order of its own.
        if step == self.settings.steps {
            return Ok(());
        }
        if due(self.settings.evaluate_every) {
            self.measure(observer).await?;
        }
        if due(self.settings.sample_every) {
            self.sample(observer).await?;
        }
        if due(self.settings.keep_checkpoints) {
            self.flush(None, observer).await?;
            self.keep().await?;
        }
        if due(self.settings.checkpoint_every) {
            self.flush(None, observer).await?;
            self.save().await?;
        }
        Ok(())
    }

    async fn finish(&mut self, observer: &mut impl Observer) -> Result<(), RunError> {
        self.measure(observer).await?;
        self.sample(observer).await?;
        if self.settings.keep_checkpoints > 0 {
            self.keep().await?;
        }
        self.save().await
    }

    /// Waits for every report; that of the step `measured` is logged by whoever measures it.
    async fn flush(&mut self, measured: Option<u64>, observer: &mut impl Observer) -> Result<(), RunError> {
        loop {
            let began = Instant::now();
            let Some(report) = self.trainer.next_report().await? else { return Ok(()) };
            self.since_line.0 += began.elapsed().as_secs_f64();
            self.reported(report, measured == Some(report.step), observer)?;
        }
    }

    fn reported(&mut self, report: StepReport, measured: bool, observer: &mut impl Observer) -> Result<(), RunError> {
        observer.step(&report, self.tokens_per_second().unwrap_or(0.0));
        self.last_report = Some(report);
        let due = self.settings.log_every > 0 && report.step.is_multiple_of(self.settings.log_every);
        if due && !measured { self.log(report.step, Some(report), None, observer) } else { Ok(()) }
    }

    /// Evaluates, logs the step with its validation loss, keeps the best model, draws the curve.
    async fn measure(&mut self, observer: &mut impl Observer) -> Result<(), RunError> {
        let step = self.trainer.step();
        self.flush(Some(step), observer).await?;
        let measured = self.evaluate().await?;
        let loss = measured.validation_loss;
        let report = self.last_report.filter(|report| report.step == step);
        self.log(step, report, Some(measured), observer)?;
        if let Some(score) = answers::score(&self.trainer, &self.text).await? {
            observer.notice(&score.to_string());
        }
        if self.best.is_none_or(|best| loss < best) {
            self.best = Some(loss);
            self.model().await?.save(&self.directory.best())?;
        }
        self.draw_chart()
    }

    async fn evaluate(&mut self) -> Result<Measured, RunError> {
        let validation_loss = self.trainer.evaluate(&self.text.validation, self.settings.evaluation_batches).await?;
        let causality = self.trainer.probe_causality(&self.text.validation).await?;
        Ok(Measured { validation_loss, causality })
    }

    fn tokens_per_second(&self) -> Option<f64> {
        let (seconds, steps) = self.since_line;
        (seconds > 0.0 && steps > 0).then(|| (steps * self.settings.tokens_per_step()) as f64 / seconds)
    }

    fn log(
        &mut self,
        step: u64,
        report: Option<StepReport>,
        measured: Option<Measured>,
        observer: &mut impl Observer,
    ) -> Result<(), RunError> {
        let causality = measured.and_then(|measured| measured.causality);
        let record = MetricsRecord {
            step,
            train_loss: report.map(|report| report.train_loss),
            val_loss: measured.map(|measured| measured.validation_loss),
            honest_loss: measured.and_then(|measured| measured.honest_loss()),
            learning_rate: report.map_or(0.0, |report| report.learning_rate),
            grad_norm: report.map(|report| report.grad_norm),
            tokens_per_second: self.tokens_per_second(),
            seconds: self.seconds(),
        };
        self.since_line = (0.0, 0);
        self.metrics.append(&record)?;
        observer.logged(&record);
        if let Some(causality) = causality.filter(Causality::sees_the_future) {
            observer.notice(&format!("LEAK: {causality}"));
        }
        Ok(())
    }

    fn seconds(&self) -> f64 {
        self.earlier.0 + self.began.elapsed().as_secs_f64()
    }

    async fn sample(&mut self, observer: &mut impl Observer) -> Result<(), RunError> {
        let tokenizer = &self.text.tokenizer;
        let start = tokenizer.id("\n").unwrap_or(0);
        let sampling = Sampling { temperature: SAMPLE_TEMPERATURE, top_k: None, seed: self.settings.seed };
        let sample = self.trainer.sample(&[start], self.settings.sample_length, &sampling).await?;
        let text = tokenizer.decode(&sample.tokens);
        self.samples.append(self.trainer.step(), &text)?;
        observer.notice(&format!("sample at step {}:\n{text}", self.trainer.step()));
        if let Some(remark) = &sample.remark {
            observer.notice(&format!("of this sample: {remark}"));
        }
        Ok(())
    }

    /// Weights and moments, for a file: one that holds infinities or NaNs could not be read again, and would take the
    /// place of a good one.
    async fn finite_snapshot(&self) -> Result<(Vec<Vec<f32>>, OptimizerState), RunError> {
        let (parameters, optimizer) = self.trainer.snapshot().await?;
        let first = |prefix, tensors: &[Vec<f32>]| NonFinite::first(prefix, &self.trainer.config, tensors);
        let bad = first("", &parameters)
            .or_else(|| first("m.", &optimizer.first_moments))
            .or_else(|| first("v.", &optimizer.second_moments));
        match bad {
            Some(value) => Err(TrainerError::StateNotFinite { step: self.trainer.step(), value }.into()),
            None => Ok((parameters, optimizer)),
        }
    }

    async fn model(&self) -> Result<Checkpoint, RunError> {
        let (parameters, _) = self.finite_snapshot().await?;
        let tokenizer = Some(self.text.tokenizer.to_json());
        Ok(Checkpoint { config: self.trainer.config.clone(), parameters, tokenizer })
    }

    /// Keeps the model of this step; whatever the step reported was read before. It comes before the checkpoint of the same
    /// step, since a run that goes on from there would not come by here again.
    async fn keep(&self) -> Result<(), RunError> {
        Ok(self.model().await?.save(&self.directory.kept(self.trainer.step()))?)
    }

    /// Writes the `last` checkpoint; whatever the step reported was read before.
    async fn save(&mut self) -> Result<(), RunError> {
        self.metrics.sync()?;
        self.samples.sync()?;
        let (parameters, optimizer) = self.finite_snapshot().await?;
        let tokenizer = self.text.tokenizer.to_json();
        let step = self.trainer.step();
        let trainer = TrainerState {
            step,
            seed: self.settings.seed,
            settings: self.settings.trajectory(),
            best_validation_loss: self.best,
            plan_fingerprint: self.plan_fingerprint.clone(),
            tokenizer_fingerprint: Fingerprint::of(tokenizer.as_bytes()).to_string(),
            text_fingerprint: self.text.fingerprint.clone(),
            elapsed_seconds: self.seconds(),
            tokens: (step - self.first_step)
                .saturating_mul(self.settings.tokens_per_step())
                .saturating_add(self.earlier.1),
            samples_length: self.samples.length(),
        };
        let model = Checkpoint { config: self.trainer.config.clone(), parameters, tokenizer: Some(tokenizer) };
        TrainingCheckpoint { model, optimizer, trainer }.save(&self.directory.last())?;
        Ok(())
    }

    fn draw_chart(&self) -> Result<(), RunError> {
        let records = read_metrics(&self.directory.metrics())?;
        let references = &self.text.references;
        let lines =
            [("uniform (ln V)", references.uniform), ("unigram", references.unigram), ("bigram", references.bigram)]
                .map(|(label, loss)| ReferenceLoss { label: label.into(), loss });
        let settings = self.settings;
        let title = format!(
            "{} on {}, {} attention, seed {}",
            settings.preset.name(),
            settings.data.iter().map(|data| short_name(data)).collect::<Vec<_>>().join(" "),
            settings.attention,
            settings.seed
        );
        let chart = loss_chart(&title, &records, &lines)?;
        Ok(write_file(&self.directory.chart(), chart.as_bytes())?)
    }
}

/// The last part of a path: what a title has room for. A built-in corpus keeps its name.
fn short_name(data: &str) -> &str {
    std::path::Path::new(data).file_name().and_then(|name| name.to_str()).unwrap_or(data)
}
