//! The tape floor: a flat list of kernel launches over named buffers, and the two executors that run it.
//!
//! A tape is plain data. It knows kernels only by their descriptors, and nothing of graphs or models.

mod allocation;
mod arithmetic;
mod case;
mod check;
mod exec_cpu;
mod exec_gpu;
mod executor;
mod fingerprint;
mod host_buffer;
mod kernel;
mod launch;
mod memory;
mod mutant;
mod parameters;
mod plan;
mod print;
pub mod rounding;
mod tensor;
mod wide_executor;

pub use allocation::Allocation;
pub use arithmetic::{Plain, Real, Wide};
pub use case::{Case, Operand, Tolerance, normal, words};
pub use check::{LaunchFault, check_launch};
pub use exec_cpu::{CpuExecutor, TwinStorage};
pub use exec_gpu::{ExecutionError, GpuExecutor, PlantedFault};
pub use executor::{Executor, PendingStatus, StatusReader};
pub use host_buffer::{HostBuffer, Operands};
pub use kernel::{Cost, Design, DesignInfo, Kernel, KernelDefinition, Preference};
pub use launch::{BufferWindow, Launch};
pub use memory::{available_bytes, available_for};
pub use mutant::{Mutant, MutantKind, Mutants};
pub use parameters::{AnyParameters, FieldLayout, KernelParameters, kernel_parameters};
pub use plan::{BufferId, Category, ElementKind, Lifetime, Segment, Tape, TapeBuffer, TapeError, Tenant};
pub use print::print_tape;
pub use tensor::{Contents, Tensor, stray_id};
pub use wide_executor::{RunOn, WideExecutor};
