//! An executor for looking at numbers: whatever it stores, the host sees f64.

use std::sync::Arc;

use super::exec_cpu::CpuExecutor;
use super::exec_gpu::{ExecutionError, GpuExecutor};
use super::plan::{BufferId, Tape, TapeError};
use super::tensor::Contents;
use crate::gpu::{Gpu, Pipelines, Profile};

/// What a tape runs on, and how its numbers are stored there.
#[derive(Clone)]
pub enum RunOn {
    /// A device, in f32.
    Gpu(Arc<Gpu>),
    /// The twins, stored in f32.
    Cpu,
    /// The twins, stored in f64.
    CpuWide,
}

impl RunOn {
    /// The adapter that plans are made for; `None` for the twins.
    pub fn profile(&self) -> Option<&Profile> {
        match self {
            Self::Gpu(gpu) => Some(&gpu.profile),
            Self::Cpu | Self::CpuWide => None,
        }
    }
}

/// A tape on any executor, with contents in f64 on the host's side.
pub enum WideExecutor {
    Gpu(Box<GpuExecutor>),
    Cpu(CpuExecutor<f32>),
    CpuWide(CpuExecutor<f64>),
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

fn widen(values: Vec<f32>) -> Vec<f64> {
    values.into_iter().map(f64::from).collect()
}

impl WideExecutor {
    /// Sets a tape up. Tapes that share `pipelines` compile each shader once.
    ///
    /// # Errors
    /// As [`GpuExecutor::new`] and [`CpuExecutor::new`].
    pub async fn new(on: &RunOn, tape: Tape, pipelines: &mut Pipelines) -> Result<Self, ExecutionError> {
        Ok(match on {
            RunOn::Gpu(gpu) => Self::Gpu(Box::new(GpuExecutor::new(gpu.clone(), tape, pipelines).await?)),
            RunOn::Cpu => Self::Cpu(CpuExecutor::new(tape)?),
            RunOn::CpuWide => Self::CpuWide(CpuExecutor::new(tape)?),
        })
    }

    /// Runs a segment.
    ///
    /// # Errors
    /// What the device has reported by now.
    pub fn run(&self, segment: usize) -> Result<(), ExecutionError> {
        match self {
            Self::Gpu(executor) => executor.run(segment)?,
            Self::Cpu(executor) => executor.run(segment),
            Self::CpuWide(executor) => executor.run(segment),
        }
        Ok(())
    }

    /// Sets the first elements of a buffer.
    ///
    /// # Errors
    /// [`TapeError::WrongContents`] where the buffer is of another kind, or too small.
    pub fn write(&self, buffer: BufferId, contents: &Contents) -> Result<(), TapeError> {
        match (self, contents) {
            (Self::Gpu(executor), Contents::Real(values)) => executor.write(buffer, &narrow(values)),
            (Self::Gpu(executor), Contents::Words(words)) => executor.write_words(buffer, words),
            (Self::Cpu(executor), Contents::Real(values)) => executor.write(buffer, &narrow(values)),
            (Self::Cpu(executor), Contents::Words(words)) => executor.write_words(buffer, words),
            (Self::CpuWide(executor), Contents::Real(values)) => executor.write(buffer, values),
            (Self::CpuWide(executor), Contents::Words(words)) => executor.write_words(buffer, words),
        }
    }

    /// The numbers of a buffer after all that was queued.
    ///
    /// # Errors
    /// A failed read-back, a buffer of words.
    pub async fn read(&self, buffer: BufferId) -> Result<Vec<f64>, ExecutionError> {
        Ok(match self {
            Self::Gpu(executor) => widen(executor.read(buffer).await?),
            Self::Cpu(executor) => widen(executor.read(buffer)?),
            Self::CpuWide(executor) => executor.read(buffer)?,
        })
    }
}
