//! The bench job: what attention costs in bytes and in time. Knows nothing of how it is printed.

pub mod compare;
pub mod units;
