//! The trainer: weights, moments and batches on a device, one optimizer step at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use super::causality::{ProbeError, probe_text};
use super::faults::TrainingFaults;
use super::fit::{NO_BATCH_FITS, advice, smaller};
use super::non_finite::NonFinite;
use super::optimizer_state::OptimizerState;
use super::program::{Optimizer, Program, ProgramSpec, StepScalars, build_program, segment};
use super::schedule::LearningRateSchedule;
use super::settings::Settings;
use crate::data::batches::{BatchError, evaluation_batches, training_batch};
use crate::gpu::{Gpu, GpuError, Pipelines};
use crate::graph::{Reuse, Rewrites};
use crate::kernel::gradient_norm;
use crate::model::causality::{Causality, CausalityProbe};
use crate::model::config::GptConfig;
use crate::model::forward::ModelError;
use crate::model::generate::{Forward, Generated, GenerationError, TextModel};
use crate::model::gpt::BuildError;
use crate::model::sampling::Sampling;
use crate::script::ScriptError;
use crate::tape::{BufferId, ExecutionError, Executor, PendingStatus, StatusReader, TapeError, available_bytes};

/// Micro-batches that are queued before the trainer waits for the device, so that the work in flight stays bounded
/// however many make a step.
const MICRO_BATCHES_IN_FLIGHT: usize = 8;

/// Positions behind which the causality probe replaces everything.
const PROBED_POSITIONS: usize = 64;

/// Why training stopped.
#[derive(Debug, thiserror::Error)]
pub enum TrainerError {
    #[error(transparent)]
    Attention(#[from] ScriptError),
    #[error("{source}; {advice}")]
    DoesNotFit { source: ModelError, advice: String },
    #[error("{source}; {advice}")]
    NoMemory { source: ExecutionError, advice: String },
    #[error("step {step}: {source}")]
    Execution { step: u64, source: ExecutionError },
    #[error("step {step}: {source}")]
    Generation { step: u64, source: GenerationError },
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(
        "step {step}: {what} not finite{}; the weights were left as they were after step {before}",
        weight.as_ref().map_or(String::new(), |weight| format!(", since {weight}"))
    )]
    NotFinite {
        step: u64,
        before: u64,
        what: &'static str,
        /// The first weight that was not finite already; `None` where all were.
        weight: Option<NonFinite>,
    },
    #[error("step {step}: {value} after it; the state is not saved")]
    StateNotFinite { step: u64, value: NonFinite },
    #[error("there is no parameter '{name}': they are named as in model.safetensors, such as {example}")]
    NoParameter { name: String, example: String },
    #[error("a device cannot be lost where there is none: this run is on the CPU executor")]
    NoDevice,
}

/// What an optimizer step reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// Counted from 1.
    pub step: u64,
    /// Mean cross-entropy over the step's batch.
    pub train_loss: f64,
    /// Norm of all gradients together, before clipping.
    pub grad_norm: f64,
    pub learning_rate: f64,
}

/// A model in training.
pub struct Trainer {
    pub config: GptConfig,
    pub program: Program,
    executor: Executor,
    gpu: Option<Arc<Gpu>>,
    rewrites: Rewrites,
    status: StatusReader,
    summaries: StatusReader,
    pending: VecDeque<(u64, f64, PendingStatus)>,
    optimizer: Optimizer,
    schedule: LearningRateSchedule,
    batch: usize,
    accumulation: usize,
    seed: u64,
    /// Steps queued so far.
    step: u64,
    faults: TrainingFaults,
}

/// The tape that a run of these settings needs for its model.
pub fn program_spec(settings: &Settings, config: GptConfig) -> ProgramSpec {
    ProgramSpec {
        config,
        batch: settings.batch,
        context_length: settings.context_length,
        accumulation: settings.accumulation,
        rewrites: settings.attention.kind.into(),
        recompute: settings.recompute,
        optimizer: Optimizer {
            beta1: settings.beta1,
            beta2: settings.beta2,
            epsilon: settings.epsilon,
            weight_decay: settings.weight_decay,
            clip: settings.clip,
        },
    }
}

/// The error for a model whose weights, gradients and moments alone are more than the host has: that can be told
/// without a plan, which takes seconds for a model of that size.
fn beyond_memory(parameters: u64, available: Option<u64>) -> Option<TrainerError> {
    let (bytes, available) = (parameters.saturating_mul(4 * 4), available?);
    (available < bytes).then(|| TrainerError::NoMemory {
        source: TapeError::OutOfMemory { bytes, available }.into(),
        advice: NO_BATCH_FITS.into(),
    })
}

impl Trainer {
    /// Plans the run and sets it up on `gpu`, or on the CPU executor where that is `None`. Weights are those of the
    /// settings' seed; [`Trainer::load`] replaces them.
    ///
    /// # Errors
    /// A model that does not fit the adapter.
    pub async fn new(gpu: Option<&Arc<Gpu>>, settings: &Settings, config: GptConfig) -> Result<Self, TrainerError> {
        let spec = program_spec(settings, config);
        let profile = gpu.map(|gpu| &gpu.profile);
        let available = if profile.is_none() { available_bytes() } else { None };
        if let Some(error) = beyond_memory(spec.config.parameter_count(), available) {
            return Err(error);
        }
        let program = build_program(&spec, profile, Reuse::Pooled).map_err(|source| match source {
            ModelError::Build(BuildError::Script(error)) => TrainerError::Attention(error),
            source => TrainerError::DoesNotFit { source, advice: advice(&spec, profile) },
        })?;
        let at_start = |source| match source {
            ExecutionError::Tape(_) => TrainerError::NoMemory { source, advice: advice(&spec, profile) },
            ExecutionError::Gpu(GpuError::OutOfMemory { .. }) => {
                TrainerError::NoMemory { source, advice: smaller(&spec, profile) }
            }
            source => TrainerError::Execution { step: 0, source },
        };
        let mut pipelines = Pipelines::default();
        let executor = Executor::new(gpu, program.tape.clone(), &mut pipelines).await.map_err(at_start)?;
        let buffers = &program.buffers;
        let status = StatusReader::new(&executor, buffers.status()).await;
        let summaries = StatusReader::new(&executor, buffers.summaries()).await;
        let mut trainer = Self {
            status: status.map_err(at_start)?,
            summaries: summaries.map_err(at_start)?,
            config: spec.config,
            program,
            executor,
            gpu: gpu.cloned(),
            rewrites: spec.rewrites,
            pending: VecDeque::new(),
            optimizer: spec.optimizer,
            schedule: settings.schedule(),
            batch: settings.batch,
            accumulation: settings.accumulation,
            seed: settings.seed,
            step: 0,
            faults: TrainingFaults::default(),
        };
        let parameters = settings.initialisation().values(&trainer.config);
        let optimizer = OptimizerState::zeros(&trainer.config);
        trainer.load(&parameters, &optimizer, 0)?;
        Ok(trainer)
    }

    /// Puts weights and moments in place, as they were after `step` steps.
    ///
    /// # Errors
    /// Tensors of another number or size than the model's.
    pub fn load(&mut self, parameters: &[Vec<f32>], optimizer: &OptimizerState, step: u64) -> Result<(), TrainerError> {
        let buffers = &self.program.buffers;
        for (places, values) in [
            (&buffers.parameters, parameters),
            (&buffers.first_moments, &optimizer.first_moments[..]),
            (&buffers.second_moments, &optimizer.second_moments[..]),
        ] {
            for (&buffer, values) in places.iter().zip(values) {
                self.executor.write(buffer, values).map_err(|source| TrainerError::Execution { step, source })?;
            }
        }
        self.step = step;
        Ok(())
    }

    /// Plants faults, each of which happens once. For tests.
    ///
    /// # Errors
    /// A parameter that the model does not have, a device to be lost where there is none.
    pub fn plant(&mut self, faults: TrainingFaults) -> Result<(), TrainerError> {
        if faults.device_lost.is_some() && matches!(self.executor, Executor::Cpu(_)) {
            return Err(TrainerError::NoDevice);
        }
        if let Some(name) = faults.nan.as_ref().and_then(|nan| nan.parameter.as_deref()) {
            self.parameter(name)?;
        }
        self.faults = faults;
        Ok(())
    }

    /// The buffer of a parameter.
    fn parameter(&self, name: &str) -> Result<BufferId, TrainerError> {
        let described = self.config.parameters();
        let place =
            described.iter().zip(&self.program.buffers.parameters).find(|(parameter, _)| parameter.name == name);
        place.map(|(_, &buffer)| buffer).ok_or_else(|| TrainerError::NoParameter {
            name: name.into(),
            example: described.first().map_or(String::new(), |parameter| parameter.name.clone()),
        })
    }

    /// Lets the planted faults of `step` happen.
    async fn fail_as_planted(&mut self, step: u64) -> Result<(), TrainerError> {
        if let Some(nan) = self.faults.nan.take_if(|nan| nan.step == step) {
            let buffer = match &nan.parameter {
                Some(name) => self.parameter(name)?,
                None => self.program.buffers.parameters[0],
            };
            let written = self.executor.write(buffer, &[f32::from_bits(nan.bits)]);
            written.map_err(|source| TrainerError::Execution { step, source })?;
        }
        if self.faults.device_lost.take_if(|lost| *lost == step).is_some()
            && let Executor::Gpu(executor) = &self.executor
        {
            executor.gpu().lose().await;
        }
        Ok(())
    }

    /// What the run is computed on.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Steps queued so far.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Queues one optimizer step and returns the report of an earlier one, if one has come in by now.
    ///
    /// # Errors
    /// [`TrainerError::NotFinite`] naming the first bad step; the weights are still those before it.
    pub async fn train_step(&mut self, tokens: &[u32]) -> Result<Option<StepReport>, TrainerError> {
        let step = self.step + 1;
        self.fail_as_planted(step).await?;
        let at = |source| TrainerError::Execution { step, source };
        let learning_rate = self.schedule.rate(self.step);
        let buffers = &self.program.buffers;
        for micro_batch in 0..self.accumulation {
            let first_sample = (micro_batch * self.batch) as u64;
            let batch =
                training_batch(tokens, self.batch, self.config.context_length, self.seed, self.step, first_sample)?;
            let scalars = StepScalars { first_micro_batch: micro_batch == 0, learning_rate, step: self.step };
            self.executor.write(buffers.scalars, &scalars.values(&self.optimizer)).map_err(at)?;
            self.executor.write_words(buffers.tokens, &batch.inputs).map_err(at)?;
            self.executor.write_words(buffers.targets, &batch.targets).map_err(at)?;
            self.executor.run(segment::MICRO_STEP).map_err(at)?;
            if (micro_batch + 1).is_multiple_of(MICRO_BATCHES_IN_FLIGHT) {
                let waited_for = self.summaries.begin(&self.executor).map_err(at)?;
                self.summaries.finish(&self.executor, waited_for).await.map_err(at)?;
            }
        }
        self.executor.run(segment::UPDATE).map_err(at)?;
        let pending = self.status.begin(&self.executor).map_err(at)?;
        self.pending.push_back((step, learning_rate, pending));
        self.step = step;
        match self.pending.len() {
            0 | 1 => Ok(None),
            _ => self.next_report().await,
        }
    }

    /// The report of the oldest step that has none yet, once the device is through with it; `None` where every step
    /// was reported.
    ///
    /// # Errors
    /// As [`Trainer::train_step`].
    pub async fn next_report(&mut self) -> Result<Option<StepReport>, TrainerError> {
        let Some((step, learning_rate, pending)) = self.pending.pop_front() else { return Ok(None) };
        let bits = self
            .status
            .finish(&self.executor, pending)
            .await
            .map_err(|source| TrainerError::Execution { step, source })?;
        let real = |at: usize| bits.get(at).map_or(f64::NAN, |&bits| f64::from(f32::from_bits(bits)));
        // One behind the other: the loss, the control numbers, the flags.
        let (control, flags) = (1, 1 + gradient_norm::control::LENGTH);
        if bits.get(flags + gradient_norm::flags::FROZEN) != Some(&0) {
            let what = match bits.get(flags + gradient_norm::flags::CAUSE) {
                Some(&gradient_norm::flags::CAUSE_LOSS) => "the loss is",
                Some(&gradient_norm::flags::CAUSE_NORM) => "the norm of the gradients is",
                _ => "the loss and the norm of the gradients are",
            };
            let (parameters, _) = self.snapshot().await?;
            let weight = NonFinite::first("", &self.config, &parameters);
            return Err(TrainerError::NotFinite { step, before: step - 1, what, weight });
        }
        let report = StepReport {
            step,
            train_loss: real(0) / self.accumulation as f64,
            grad_norm: real(control + gradient_norm::control::NORM),
            learning_rate,
        };
        Ok(Some(report))
    }

    /// The mean loss over held-out tokens, nats a token; over `limit` batches spread evenly where that is not 0.
    ///
    /// # Errors
    /// Too few tokens, or what the device reported.
    pub async fn evaluate(&mut self, tokens: &[u32], limit: u64) -> Result<f64, TrainerError> {
        let at = |source| TrainerError::Execution { step: self.step, source };
        let batches = evaluation_batches(tokens, self.batch, self.config.context_length)?;
        let limit = if limit == 0 { batches.len() } else { limit as usize };
        let (mut sum, mut count) = (0.0, 0.0);
        let mut add = |bits: Vec<u32>| {
            if let [mean, predictions] = bits[..] {
                let predictions = f64::from(f32::from_bits(predictions));
                sum += f64::from(f32::from_bits(mean)) * predictions;
                count += predictions;
            }
        };
        let mut earlier: Option<PendingStatus> = None;
        for batch in batches.at_most(limit) {
            let buffers = &self.program.buffers;
            self.executor.write_words(buffers.tokens, &batch.inputs).map_err(at)?;
            self.executor.write_words(buffers.targets, &batch.targets).map_err(at)?;
            self.executor.run(segment::EVALUATE).map_err(at)?;
            let next = self.summaries.begin(&self.executor).map_err(at)?;
            if let Some(pending) = earlier.replace(next) {
                add(self.summaries.finish(&self.executor, pending).await.map_err(at)?);
            }
        }
        if let Some(pending) = earlier {
            add(self.summaries.finish(&self.executor, pending).await.map_err(at)?);
        }
        Ok(sum / count)
    }

    /// Whether the model sees the future, on held-out tokens: at [`PROBED_POSITIONS`] or more, everything behind is
    /// replaced. `None` for the reference, which is causal by construction.
    ///
    /// # Errors
    /// Too few tokens, or what the device reported.
    pub async fn probe_causality(&self, tokens: &[u32]) -> Result<Option<Causality>, TrainerError> {
        let Some(buffers) = self.program.buffers.causality else { return Ok(None) };
        let (batch, length) = (self.batch, self.config.context_length);
        let probe = CausalityProbe { segment: segment::CAUSALITY, buffers, batch, length };
        let found = probe_text(&probe, &self.executor, &self.config, tokens, (PROBED_POSITIONS, self.seed)).await;
        found.map(Some).map_err(|error| match error {
            ProbeError::Batch(error) => error.into(),
            ProbeError::Execution(source) => TrainerError::Execution { step: self.step, source },
        })
    }

    /// The model as text comes from it, on the weights as they are.
    pub fn text_model(&self) -> TextModel<'_> {
        TextModel {
            executor: &self.executor,
            config: &self.config,
            parameters: &self.program.buffers.parameters,
            forward: Forward { segment: segment::SAMPLE, buffers: self.program.buffers.sample },
            gpu: self.gpu.as_ref(),
            rewrites: self.rewrites,
        }
    }

    /// Continues a prompt with the weights as they are; the draws are keyed by the step.
    ///
    /// # Errors
    /// As [`TextModel::generate`].
    pub async fn sample(&self, prompt: &[u32], count: usize, sampling: &Sampling) -> Result<Generated, TrainerError> {
        self.text_model()
            .generate(prompt, count, (sampling, self.step), |_| {})
            .await
            .map_err(|source| TrainerError::Generation { step: self.step, source })
    }

    /// Weights and moments as they are.
    ///
    /// # Errors
    /// What the device reported.
    pub async fn snapshot(&self) -> Result<(Vec<Vec<f32>>, OptimizerState), TrainerError> {
        let buffers = &self.program.buffers;
        Ok((
            self.read_all(&buffers.parameters).await?,
            OptimizerState {
                first_moments: self.read_all(&buffers.first_moments).await?,
                second_moments: self.read_all(&buffers.second_moments).await?,
            },
        ))
    }

    /// The gradients of the last step, in the order of the parameters: summed over its micro-batches, not clipped.
    ///
    /// # Errors
    /// What the device reported.
    pub async fn gradients(&self) -> Result<Vec<Vec<f32>>, TrainerError> {
        self.read_all(&self.program.buffers.gradients).await
    }

    async fn read_all(&self, buffers: &[BufferId]) -> Result<Vec<Vec<f32>>, TrainerError> {
        let mut values = Vec::with_capacity(buffers.len());
        for &buffer in buffers {
            let read = self.executor.read(buffer).await;
            values.push(read.map_err(|source| TrainerError::Execution { step: self.step, source })?);
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_larger_than_memory_is_refused_before_it_is_planned() {
        assert!(beyond_memory(1000, None).is_none());
        assert!(beyond_memory(1000, Some(16_000)).is_none());
        let error = beyond_memory(1001, Some(16_000)).map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("16016") && error.contains("16000") && error.contains("no --batch fits: "), "{error}");
    }
}
