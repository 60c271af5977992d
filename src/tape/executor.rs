//! One face for both executors, and reads that do not stall the queue.

use std::sync::Arc;

use super::allocation::Allocation;
use super::exec_cpu::CpuExecutor;
use super::exec_gpu::{ExecutionError, GpuExecutor};
use super::plan::{BufferId, Category, Tape};
use crate::gpu::{Gpu, Pending, Pipelines, ReadBack};

/// A tape with something to run it.
pub enum Executor {
    Gpu(Box<GpuExecutor>),
    Cpu(CpuExecutor<f32>),
}

impl Executor {
    /// Sets a tape up on a device, or on the CPU's twins where there is none.
    ///
    /// # Errors
    /// As [`GpuExecutor::new`].
    pub async fn new(gpu: Option<&Arc<Gpu>>, tape: Tape, pipelines: &mut Pipelines) -> Result<Self, ExecutionError> {
        Ok(match gpu {
            Some(gpu) => Self::Gpu(Box::new(GpuExecutor::new(gpu.clone(), tape, pipelines).await?)),
            None => Self::Cpu(CpuExecutor::new(tape)?),
        })
    }

    pub fn tape(&self) -> &Tape {
        match self {
            Self::Gpu(executor) => executor.tape(),
            Self::Cpu(executor) => executor.tape(),
        }
    }

    /// Runs a segment: queued on a device, at once on the CPU.
    ///
    /// # Errors
    /// What the device has reported by now.
    pub fn run(&self, segment: usize) -> Result<(), ExecutionError> {
        match self {
            Self::Gpu(executor) => Ok(executor.run(segment)?),
            Self::Cpu(executor) => {
                executor.run(segment);
                Ok(())
            }
        }
    }

    /// Sets the first elements of a buffer before the next run.
    ///
    /// # Errors
    /// A buffer of another kind, or too small.
    pub fn write(&self, buffer: BufferId, values: &[f32]) -> Result<(), ExecutionError> {
        match self {
            Self::Gpu(executor) => executor.write(buffer, values)?,
            Self::Cpu(executor) => executor.write(buffer, values)?,
        }
        Ok(())
    }

    /// As [`Executor::write`], for words.
    ///
    /// # Errors
    /// As [`Executor::write`].
    pub fn write_words(&self, buffer: BufferId, words: &[u32]) -> Result<(), ExecutionError> {
        match self {
            Self::Gpu(executor) => executor.write_words(buffer, words)?,
            Self::Cpu(executor) => executor.write_words(buffer, words)?,
        }
        Ok(())
    }

    /// The numbers of a buffer after all that was queued.
    ///
    /// # Errors
    /// A failed read-back, a buffer of words.
    pub async fn read(&self, buffer: BufferId) -> Result<Vec<f32>, ExecutionError> {
        Ok(match self {
            Self::Gpu(executor) => executor.read(buffer).await?,
            Self::Cpu(executor) => executor.read(buffer)?,
        })
    }
}

/// Reads a few small buffers after each run, one run late: the answer for a run is waited for only while the next is
/// already queued, so that the device never idles for it.
pub struct StatusReader {
    buffers: Vec<BufferId>,
    staging: Vec<ReadBack>,
    turn: usize,
}

/// A status that was asked for.
pub enum PendingStatus {
    Gpu { pending: Pending, turn: usize },
    Ready(Vec<u32>),
}

impl StatusReader {
    /// What a reader of the given buffers makes on a device, once for each of the two turns.
    pub fn allocations(tape: &Tape, buffers: &[BufferId]) -> [Allocation; 2] {
        let bytes = Self::staged_bytes(tape, buffers);
        [(); 2].map(|()| Allocation::on_device("status (read-back)", bytes, Category::ReadBack))
    }

    fn staged_bytes(tape: &Tape, buffers: &[BufferId]) -> u64 {
        buffers.iter().map(|&buffer| tape.buffers[buffer].bytes()).sum()
    }

    /// A reader of the given buffers, whose bits come one behind the other.
    ///
    /// # Errors
    /// As [`Gpu::allocate`].
    pub async fn new(executor: &Executor, buffers: Vec<BufferId>) -> Result<Self, ExecutionError> {
        let mut staging = Vec::new();
        if let Executor::Gpu(gpu) = executor {
            let bytes = Self::staged_bytes(gpu.tape(), &buffers);
            for _ in 0..2 {
                staging.push(ReadBack::new(gpu.gpu(), "status", bytes).await?);
            }
        }
        Ok(Self { buffers, staging, turn: 0 })
    }

    /// Asks for the status after what was queued so far. At most two may be under way.
    ///
    /// # Errors
    /// A buffer that the tape does not hold as declared.
    pub fn begin(&mut self, executor: &Executor) -> Result<PendingStatus, ExecutionError> {
        match executor {
            Executor::Gpu(gpu) => {
                self.turn = 1 - self.turn;
                let parts: Vec<_> = self
                    .buffers
                    .iter()
                    .map(|&buffer| (gpu.device_buffer(buffer), 0, gpu.tape().buffers[buffer].bytes()))
                    .collect();
                let pending = self.staging[self.turn].begin(gpu.gpu(), &parts);
                Ok(PendingStatus::Gpu { pending, turn: self.turn })
            }
            Executor::Cpu(cpu) => {
                let mut bits = Vec::new();
                for &buffer in &self.buffers {
                    match cpu.tape().buffers[buffer].kind {
                        super::ElementKind::Real => bits.extend(cpu.read(buffer)?.into_iter().map(f32::to_bits)),
                        super::ElementKind::Words => bits.extend(cpu.read_words(buffer)?),
                    }
                }
                Ok(PendingStatus::Ready(bits))
            }
        }
    }

    /// Waits for a status and hands out its bits.
    ///
    /// # Errors
    /// A failed read-back, or what the device reported meanwhile.
    pub async fn finish(&self, executor: &Executor, pending: PendingStatus) -> Result<Vec<u32>, ExecutionError> {
        match (pending, executor) {
            (PendingStatus::Gpu { pending, turn }, Executor::Gpu(gpu)) => {
                let bytes = self.staging[turn].finish(gpu.gpu(), pending).await?;
                Ok(bytemuck::pod_collect_to_vec(&bytes))
            }
            (PendingStatus::Ready(bits), _) => Ok(bits),
            (PendingStatus::Gpu { .. }, Executor::Cpu(_)) => Ok(Vec::new()),
        }
    }
}
