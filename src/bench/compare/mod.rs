//! Naive and fused attention side by side: rows of what was predicted, measured or refused, and what they say in words.
//! Plain numbers alone; who runs attention and who prints is not known here.

mod closing;
mod crossover;
mod difference;
mod forms;
mod longest;
mod row;

pub use closing::closing;
pub use crossover::{Crossover, Quantity};
pub use difference::{Difference, TOLERANCE, disagreement};
pub use forms::{Form, Forms, not_fused};
pub use longest::Longest;
pub use row::{Measured, Outcome, PredictedBytes, Refusal, Row, Side, Time, Verdict};

use serde::Serialize;

/// A whole comparison: what it ran on and with, and a row a context length, shortest first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What it ran on: adapter, backend and driver, or the CPU executor.
    pub device: String,
    /// The attention file; `None` for softmax(q k^T / sqrt(d_head), causal) v.
    pub attention: Option<String>,
    pub batch: u64,
    pub heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// What a row's time and bytes are of: `forward`, or `forward and backward`.
    pub pass: String,
    /// Seed of the inputs.
    pub seed: u64,
    pub rows: Vec<Row>,
    /// The longest context that fits here in naive form; `None` where it was not looked for.
    pub longest_naive: Option<Longest>,
    /// The same of the fused form.
    pub longest_fused: Option<Longest>,
}

impl Comparison {
    /// Its shape and pass in one line.
    pub fn shape(&self) -> String {
        let file = self.attention.as_ref().map_or(String::new(), |file| format!(", {file}"));
        format!("B={}, H={}, d_head={}, {}{file}", self.batch, self.heads, self.head_dim, self.pass)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bench::timing::Clock;

    /// Half a percent of noise on a median.
    fn time(median: f64) -> Option<Time> {
        Some(Time { median, low: 0.995 * median, high: 1.005 * median, samples: 9, clock: Clock::WallClock })
    }

    fn side(predicted: PredictedBytes, seconds: f64) -> Side {
        let outcome = Outcome::Measured(Measured { bytes: Some(predicted.total), time: time(seconds) });
        Side { predicted: Some(predicted), outcome }
    }

    /// A row as it is on an adapter where fused attention has a start of half a millisecond and a quarter of the slope.
    pub(crate) fn row(context_length: u64) -> Row {
        let length = context_length;
        let scores = 3 * 16 * length * length;
        let naive = PredictedBytes { total: scores + 4096 * length, scores, statistics: 0 };
        let fused = PredictedBytes { total: 4192 * length, scores: 0, statistics: 96 * length };
        let square = (length * length) as f64;
        let difference = |tensor: &str, largest: f64| Difference { tensor: tensor.into(), largest, against: 3.5 };
        Row {
            context_length,
            naive: side(naive, 2e-8 * square),
            fused: side(fused, 5e-4 + 5e-9 * square),
            differences: [("output", 1.2e-7), ("dq", 2.4e-7), ("dk", 4.8e-7), ("dv", 9.5e-7)]
                .map(|(tensor, largest)| difference(tensor, largest))
                .to_vec(),
        }
    }

    /// The same, with naive attention refused for its scores.
    pub(crate) fn refused_row(context_length: u64) -> Row {
        let mut row = row(context_length);
        let bytes = 16 * context_length * context_length;
        row.naive.outcome = Outcome::Refused(Refusal::Binding { tensor: "scores".into(), bytes, limit: 128 << 20 });
        row.differences.clear();
        row
    }

    pub(crate) fn comparison(rows: Vec<Row>) -> Comparison {
        Comparison {
            device: "llvmpipe (software adapter, vulkan, Mesa 22.3.6)".into(),
            attention: None,
            batch: 1,
            heads: 4,
            head_dim: 32,
            pass: "forward and backward".into(),
            seed: 1337,
            rows,
            longest_naive: None,
            longest_fused: None,
        }
    }
}
