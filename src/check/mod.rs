//! Checking: kernels against twins, and whatever else must equal a reference.

pub mod mutants;
pub mod parity;
