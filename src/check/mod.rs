//! Checking: kernels against twins, whole training steps against the CPU executor, and whatever else must equal a
//! reference.

pub mod attention;
pub mod bisect;
pub mod error_budget;
pub mod golden;
mod launch;
pub mod leak;
pub mod mutants;
pub mod parity;
pub mod step;
mod training_step;

/// What outputs hold before a launch: a quiet NaN that no arithmetic produces.
const UNTOUCHED: u32 = 0x7fc0_5eed;

pub use launch::{Element, LaunchName, LaunchResult};
pub use training_step::{StepError, TrainingStep};
