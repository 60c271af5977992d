//! What attention costs.

pub mod units;
