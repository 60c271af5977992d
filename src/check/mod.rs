//! Checking: kernels against twins, and whatever else must equal a reference.

pub mod error_budget;
pub mod golden;
pub mod parity;
