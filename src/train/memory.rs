//! What a training run takes: predicted from its plan, without a device, and measured while it runs one step.

use std::sync::Arc;

use super::program::{ProgramSpec, plan_program};
use super::settings::Settings;
use super::trainer::{Trainer, TrainerError};
use crate::gpu::{Gpu, Profile};
use crate::graph::Reuse;
use crate::model::config::GptConfig;
use crate::model::forward::ModelError;
use crate::tape::{Allocation, Category, Executor, StatusReader, Tape, TapeError};

/// All that a run makes before its first step; nothing is made later.
#[derive(Clone, Debug)]
pub struct Footprint {
    pub tape: Tape,
    pub allocations: Vec<Allocation>,
    /// Why the attention of some block runs as written; `None` where it was rewritten as asked.
    pub as_written: Option<String>,
    /// Largest binding of the adapter; `None` in host memory.
    binding_bytes: Option<u64>,
    fault: Option<TapeError>,
}

/// The memory there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    pub bytes: u64,
    /// Whose limit it is, as the end of "there are 5 bytes ..".
    pub source: &'static str,
}

/// How the buffers of a run can be bound.
#[derive(Clone, Debug, PartialEq)]
pub enum Binding {
    /// Each in one piece.
    Whole,
    /// So many in windows: they are larger than a binding may be. The largest has so many bytes.
    Windows {
        buffers: usize,
        largest: u64,
    },
    Refused(Refusal),
}

/// Why a run does not fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Adapter(TapeError),
    #[error("it needs {bytes} bytes in all and there are {} {}", limit.bytes, limit.source)]
    Memory { bytes: u64, limit: MemoryLimit },
    #[error("it needs more bytes than 64 bits count")]
    Uncountable,
}

impl Footprint {
    /// What a run takes on an adapter, or in host memory where that is `None`. Nothing is allocated.
    ///
    /// # Errors
    /// A model that cannot be built at all.
    pub fn predict(spec: &ProgramSpec, profile: Option<&Profile>) -> Result<Self, ModelError> {
        let program = plan_program(spec, profile, Reuse::Pooled)?;
        let fault = program.tape.check(profile).err();
        let mut allocations = program.tape.allocations(profile.map(|profile| &profile.limits));
        if profile.is_some() {
            for read in [program.buffers.status(), program.buffers.summaries()] {
                allocations.extend(StatusReader::allocations(&program.tape, &read));
            }
        }
        let binding_bytes = profile.map(|profile| profile.limits.binding_bytes);
        let as_written = program.rewrites.iter().find_map(|report| report.outcome.as_ref().err().cloned());
        Ok(Self { tape: program.tape, allocations, as_written, binding_bytes, fault })
    }

    /// Bytes of all buffers together; `None` where no u64 counts them.
    pub fn total(&self) -> Option<u64> {
        self.allocations.iter().try_fold(0u64, |total, allocation| total.checked_add(allocation.bytes))
    }

    /// Bytes of the buffers of a category; the largest number there is where no u64 counts them.
    pub fn bytes(&self, category: Category) -> u64 {
        let of_category = self.allocations.iter().filter(|allocation| allocation.category == category);
        of_category.map(|allocation| allocation.bytes).fold(0, u64::saturating_add)
    }

    /// Whether and how it can be bound, with so much memory.
    pub fn binding(&self, memory: Option<MemoryLimit>) -> Binding {
        let Some(bytes) = self.total() else { return Binding::Refused(Refusal::Uncountable) };
        if let Some(fault) = &self.fault {
            return Binding::Refused(Refusal::Adapter(fault.clone()));
        }
        if let Some(limit) = memory.filter(|limit| limit.bytes < bytes) {
            return Binding::Refused(Refusal::Memory { bytes, limit });
        }
        let binding_bytes = self.binding_bytes.unwrap_or(u64::MAX);
        let larger = self.tape.buffers.iter().map(|buffer| buffer.bytes()).filter(|&bytes| bytes > binding_bytes);
        match larger.clone().max() {
            None => Binding::Whole,
            Some(largest) => Binding::Windows { buffers: larger.count(), largest },
        }
    }
}

/// What one step of a run was seen to take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The sizes of all buffers that were made, added up where they are made.
    pub bytes: u64,
    /// The mean loss of the step, which tells that it was really run.
    pub loss: f64,
}

/// Sets a run up, takes one step on made-up tokens, and says what that took.
///
/// # Errors
/// A run that does not fit, or what the device reported.
pub async fn measure(gpu: Option<&Arc<Gpu>>, settings: &Settings, config: GptConfig) -> Result<Measured, TrainerError> {
    let before = gpu.map_or(0, |gpu| gpu.allocated_bytes());
    let vocabulary_size = config.vocabulary_size;
    let tokens: Vec<u32> = (0..config.context_length + 1).map(|position| (position % vocabulary_size) as u32).collect();
    let mut trainer = Trainer::new(gpu, settings, config).await?;
    let early = trainer.train_step(&tokens).await?;
    let report = match early {
        Some(report) => Some(report),
        None => trainer.next_report().await?,
    };
    let bytes = match trainer.executor() {
        Executor::Cpu(executor) => executor.allocated_bytes(),
        Executor::Gpu(executor) => executor.gpu().allocated_bytes() - before,
    };
    Ok(Measured { bytes, loss: report.map_or(f64::NAN, |report| report.train_loss) })
}
