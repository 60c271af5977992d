//! A training step that two executors can take: its tape, where it starts, and what it reads.

use std::sync::Arc;

use super::UNTOUCHED;
use crate::data::batches::{BatchError, training_batch};
use crate::gpu::{Gpu, GpuError, Pipelines, Profile};
use crate::graph::Reuse;
use crate::model::config::GptConfig;
use crate::model::forward::ModelError;
use crate::tape::{
    BufferId, CpuExecutor, ElementKind, ExecutionError, Executor, GpuExecutor, HostBuffer, PlantedFault, Tape,
    TapeError,
};
use crate::train::program::{Program, ProgramBuffers, ProgramSpec, StepScalars, build_program, segment};
use crate::train::schedule::LearningRateSchedule;
use crate::train::settings::Settings;
use crate::train::trainer::program_spec;

/// A step that cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    #[error("{0}; a step that is compared launch by launch keeps every value it computes: lower --batch")]
    NoMemory(ExecutionError),
    #[error("{launch} cannot be judged: {reason}")]
    BadReference { launch: String, reason: String },
}

impl From<TapeError> for StepError {
    fn from(error: TapeError) -> Self {
        Self::Execution(error.into())
    }
}

impl From<GpuError> for StepError {
    fn from(error: GpuError) -> Self {
        Self::Execution(error.into())
    }
}

/// Weights and moments, and the steps they have behind them.
pub(super) struct Start {
    pub step: u64,
    tensors: Vec<(BufferId, HostBuffer<f32>)>,
}

/// A segment of a step: forward and backward of a micro-batch, or the update.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    pub segment: usize,
    micro_batch: Option<usize>,
}

/// A step's launches over buffers of which none is used twice.
pub(super) struct StepTape {
    pub tape: Tape,
    pub buffers: ProgramBuffers,
    /// In the order they run.
    pub passes: Vec<Pass>,
}

impl StepTape {
    /// Launches of a whole step.
    pub fn launches(&self) -> usize {
        self.passes.iter().map(|pass| self.tape.segments[pass.segment].launches.len()).sum()
    }
}

/// The steps of a training run, to be taken by two executors alike.
pub struct TrainingStep {
    pub(super) spec: ProgramSpec,
    schedule: LearningRateSchedule,
    seed: u64,
    /// The training text.
    tokens: Vec<u32>,
    /// First weights, in the order of the parameters.
    parameters: Vec<Vec<f32>>,
    /// A fault that the GPU's tapes are to have; its launch is counted from the first of a micro-step on.
    fault: Option<PlantedFault>,
}

/// An executor that can be handed the contents of a buffer.
pub(super) trait Fill {
    fn fill(&self, buffer: BufferId, contents: &HostBuffer<f32>) -> Result<(), TapeError>;
}

impl Fill for CpuExecutor<f32> {
    fn fill(&self, buffer: BufferId, contents: &HostBuffer<f32>) -> Result<(), TapeError> {
        match contents {
            HostBuffer::Real(values) => self.write(buffer, values),
            HostBuffer::Words(words) => self.write_words(buffer, words),
        }
    }
}

impl Fill for GpuExecutor {
    fn fill(&self, buffer: BufferId, contents: &HostBuffer<f32>) -> Result<(), TapeError> {
        match contents {
            HostBuffer::Real(values) => self.write(buffer, values),
            HostBuffer::Words(words) => self.write_words(buffer, words),
        }
    }
}

impl Fill for Executor {
    fn fill(&self, buffer: BufferId, contents: &HostBuffer<f32>) -> Result<(), TapeError> {
        match self {
            Self::Gpu(executor) => executor.fill(buffer, contents),
            Self::Cpu(executor) => executor.fill(buffer, contents),
        }
    }
}

/// The contents of a buffer of the CPU executor.
pub(super) fn contents(executor: &CpuExecutor<f32>, buffer: BufferId) -> Result<HostBuffer<f32>, TapeError> {
    Ok(match executor.tape().buffers[buffer].kind {
        ElementKind::Real => HostBuffer::Real(executor.read(buffer)?),
        ElementKind::Words => HostBuffer::Words(executor.read_words(buffer)?),
    })
}

/// The contents of a buffer of a GPU.
pub(super) async fn device_contents(executor: &GpuExecutor, buffer: BufferId) -> Result<HostBuffer<f32>, GpuError> {
    Ok(match executor.tape().buffers[buffer].kind {
        ElementKind::Real => HostBuffer::Real(executor.read(buffer).await?),
        ElementKind::Words => HostBuffer::Words(executor.read_words(buffer).await?),
    })
}

/// Fills buffers that are kept between passes, or those that are not, with [`UNTOUCHED`].
fn clear(executor: &impl Fill, of: &StepTape, persistent: bool) -> Result<(), StepError> {
    for (buffer, described) in of.tape.buffers.iter().enumerate() {
        if described.persistent == persistent && described.kind == ElementKind::Real {
            let filling = vec![f32::from_bits(UNTOUCHED); described.elements as usize];
            executor.fill(buffer, &HostBuffer::Real(filling))?;
        }
    }
    Ok(())
}

impl TrainingStep {
    /// The steps that a run of these settings takes on a text with a model.
    pub fn new(settings: &Settings, tokens: &[u32], config: GptConfig) -> Self {
        let spec = program_spec(settings, config);
        let parameters = settings.initialisation().values(&spec.config);
        let (schedule, seed, tokens) = (settings.schedule(), settings.seed, tokens.to_vec());
        Self { spec, schedule, seed, tokens, parameters, fault: None }
    }

    /// The same with a fault in one launch wherever a GPU takes the step.
    pub fn with_fault(self, fault: PlantedFault) -> Self {
        Self { fault: Some(fault), ..self }
    }

    /// The tape of a step as it is compared: no buffer is used twice.
    ///
    /// # Errors
    /// As [`build_program`].
    pub fn tape(&self, profile: &Profile) -> Result<Tape, StepError> {
        Ok(self.step_tape(profile)?.tape)
    }

    pub(super) fn step_tape(&self, profile: &Profile) -> Result<StepTape, StepError> {
        let Program { mut tape, buffers, .. } = build_program(&self.spec, Some(profile), Reuse::Never)?;
        tape.segments.truncate(segment::UPDATE + 1);
        // What only evaluation and sampling would use is not made.
        let mut used = vec![false; tape.buffers.len()];
        for window in tape.segments.iter().flat_map(|segment| &segment.launches).flat_map(|launch| &launch.operands) {
            used[window.buffer] = true;
        }
        for (buffer, _) in tape.buffers.iter_mut().zip(used).filter(|(_, used)| !used) {
            buffer.elements = 0;
        }
        Ok(StepTape { tape, buffers, passes: self.passes().collect() })
    }

    /// The passes of a step, in order.
    pub(super) fn passes(&self) -> impl Iterator<Item = Pass> + use<> {
        let micro_step = |number| Pass { segment: segment::MICRO_STEP, micro_batch: Some(number) };
        let update = Pass { segment: segment::UPDATE, micro_batch: None };
        (0..self.spec.accumulation).map(micro_step).chain([update])
    }

    /// The tape as training runs it, on a GPU or on the CPU executor.
    pub(super) async fn training_executor(
        &self,
        gpu: Option<&Arc<Gpu>>,
        pipelines: &mut Pipelines,
    ) -> Result<(Executor, ProgramBuffers), StepError> {
        let Program { tape, buffers, .. } = build_program(&self.spec, gpu.map(|gpu| &gpu.profile), Reuse::Pooled)?;
        let executor = match gpu {
            Some(gpu) => {
                let executor = GpuExecutor::with_fault(gpu.clone(), tape, pipelines, self.fault.as_ref()).await?;
                Executor::Gpu(Box::new(executor))
            }
            None => Executor::Cpu(CpuExecutor::new(tape)?),
        };
        self.load(&executor, &self.first(&buffers))?;
        Ok((executor, buffers))
    }

    /// A tape on a GPU, launch by launch or as it is, with the fault where there is one.
    pub(super) async fn gpu_executor(
        &self,
        gpu: &Arc<Gpu>,
        tape: Tape,
        pipelines: &mut Pipelines,
    ) -> Result<GpuExecutor, StepError> {
        GpuExecutor::with_fault(gpu.clone(), tape, pipelines, self.fault.as_ref()).await.map_err(|error| match error {
            ExecutionError::Gpu(GpuError::OutOfMemory { .. } | GpuError::BufferTooLarge { .. }) => {
                StepError::NoMemory(error)
            }
            error => error.into(),
        })
    }

    /// The first weights, before any step.
    pub(super) fn first(&self, buffers: &ProgramBuffers) -> Start {
        let real = |(&buffer, values): (&BufferId, &Vec<f32>)| (buffer, HostBuffer::Real(values.clone()));
        let zeros = |moments: &[BufferId]| {
            let values = self.parameters.iter().map(|values| vec![0.0; values.len()]);
            moments.iter().copied().zip(values.map(HostBuffer::Real)).collect::<Vec<_>>()
        };
        let mut tensors: Vec<_> = buffers.parameters.iter().zip(&self.parameters).map(real).collect();
        tensors.extend(zeros(&buffers.first_moments));
        tensors.extend(zeros(&buffers.second_moments));
        Start { step: 0, tensors }
    }

    /// Weights and moments after the CPU executor's first step: the step that is compared launch by launch begins here,
    /// since moments that are 0 would hide what the update makes of them.
    pub(super) fn after_first_step(&self, of: &StepTape) -> Result<Start, StepError> {
        let executor = self.cpu_executor(of)?;
        let first = self.first(&of.buffers);
        self.load(&executor, &first)?;
        for &pass in &of.passes {
            self.feed(&executor, &of.buffers, first.step, pass)?;
            executor.run(pass.segment);
        }
        let tensors = first
            .tensors
            .iter()
            .map(|&(buffer, _)| Ok((buffer, contents(&executor, buffer)?)))
            .collect::<Result<_, TapeError>>()?;
        Ok(Start { step: first.step + 1, tensors })
    }

    /// The CPU executor for a tape without reuse.
    pub(super) fn cpu_executor(&self, of: &StepTape) -> Result<CpuExecutor<f32>, StepError> {
        CpuExecutor::new(of.tape.clone()).map_err(|error| StepError::NoMemory(error.into()))
    }

    /// Puts weights and moments in place.
    fn load(&self, executor: &impl Fill, start: &Start) -> Result<(), StepError> {
        for (buffer, contents) in &start.tensors {
            executor.fill(*buffer, contents)?;
        }
        Ok(())
    }

    /// Puts weights and moments in place, and [`UNTOUCHED`] wherever a step only writes.
    pub(super) fn prepare(&self, executor: &impl Fill, of: &StepTape, start: &Start) -> Result<(), StepError> {
        clear(executor, of, true)?;
        self.load(executor, start)
    }

    /// Sets up a pass of the step that begins at `start`: its inputs, and [`UNTOUCHED`] wherever it only writes.
    pub(super) fn begin(
        &self,
        executor: &impl Fill,
        of: &StepTape,
        start: &Start,
        pass: Pass,
    ) -> Result<(), StepError> {
        clear(executor, of, false)?;
        self.feed(executor, &of.buffers, start.step, pass)
    }

    /// Writes what a pass of step `step` reads: the scalars, and the tokens and targets of its micro-batch.
    pub(super) fn feed(
        &self,
        executor: &impl Fill,
        buffers: &ProgramBuffers,
        step: u64,
        pass: Pass,
    ) -> Result<(), StepError> {
        let Some(number) = pass.micro_batch else { return Ok(()) };
        let (batch, context_length) = (self.spec.batch, self.spec.context_length);
        let first_sample = (number * batch) as u64;
        let drawn = training_batch(&self.tokens, batch, context_length, self.seed, step, first_sample)?;
        let learning_rate = self.schedule.rate(step);
        let scalars = StepScalars { first_micro_batch: number == 0, learning_rate, step };
        let scalars = scalars.values(&self.spec.optimizer).to_vec();
        executor.fill(buffers.scalars, &HostBuffer::Real(scalars))?;
        executor.fill(buffers.tokens, &HostBuffer::Words(drawn.inputs))?;
        executor.fill(buffers.targets, &HostBuffer::Words(drawn.targets))?;
        Ok(())
    }
}
