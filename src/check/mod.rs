//! Checking: kernels against twins, and whatever else must equal a reference.

pub mod golden;
pub mod parity;
