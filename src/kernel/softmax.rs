//! Softmax.

/// What masked scores are written as: -2^127.
pub const MASKED: f64 = -1.701_411_834_604_692_3e38;
