//! One context length: what naive and fused attention take there.

use serde::Serialize;

use super::Difference;
use crate::bench::attention::AttentionJobError;
use crate::bench::statistics::Summary;
use crate::bench::timing::{Clock, Timing};
use crate::bench::units;
use crate::gpu::GpuError;
use crate::tape::{ExecutionError, LaunchFault, TapeError};

/// Both forms of attention at one context length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// T, in positions.
    pub context_length: u64,
    pub naive: Side,
    pub fused: Side,
    /// Of the output and, with a backward pass, of dq, dk and dv; empty where one of the two did not run.
    pub differences: Vec<Difference>,
}

/// One form of attention at one context length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// By the plan, before anything is allocated; `None` where there is no plan.
    pub predicted: Option<PredictedBytes>,
    pub outcome: Outcome,
}

/// Bytes of the buffers of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PredictedBytes {
    /// All of them.
    pub total: u64,
    /// Of `[B, H, T, T]`: scores, attention weights and their gradients.
    pub scores: u64,
    /// Of `[B, H, T]`: what a query keeps of its row of scores.
    pub statistics: u64,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Measured(Measured),
    Refused(Refusal),
}

/// What a run took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Bytes that the device allocated; `None` on the CPU executor, which has none.
    pub bytes: Option<u64>,
    /// `None` where no clock gave a time.
    pub time: Option<Time>,
}

/// A median of repeated runs, in seconds, with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Time {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub samples: usize,
    pub clock: Clock,
}

impl From<&Timing> for Time {
    fn from(timing: &Timing) -> Self {
        let Summary { samples, median, low, high, .. } = timing.seconds;
        Self { median, low, high, samples, clock: timing.clock }
    }
}

impl Time {
    /// Whether there were runs enough for an interval at 95%; it is all that was seen if not.
    pub fn is_confident(&self) -> bool {
        self.samples >= 6
    }

    /// Whether its numbers can be times: they are above 0 and the interval holds the median.
    pub fn is_sound(&self) -> bool {
        let Self { median, low, high, .. } = *self;
        high.is_finite() && low > 0.0 && low <= median && median <= high
    }
}

/// Why a run did not begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    #[error("'{tensor}' needs {bytes} bytes in one binding, the adapter binds at most {limit}")]
    Binding { tensor: String, bytes: u64, limit: u64 },
    #[error("'{tensor}' needs {bytes} bytes in one buffer, the adapter makes at most {limit}")]
    Buffer { tensor: String, bytes: u64, limit: u64 },
    #[error("it needs {bytes} bytes of memory and {available} are available")]
    Memory { bytes: u64, available: u64 },
    #[error("it is not fused at this length: {0}")]
    NotFused(String),
    #[error("{0}")]
    Other(String),
}

impl From<&TapeError> for Refusal {
    fn from(error: &TapeError) -> Self {
        match error {
            TapeError::Launch { fault: LaunchFault::BindingTooLarge { name, bytes, limit, .. }, .. } => {
                Self::Binding { tensor: name.clone(), bytes: *bytes, limit: *limit }
            }
            TapeError::BufferTooLarge { name, bytes, limit } => {
                Self::Buffer { tensor: name.clone(), bytes: *bytes, limit: *limit }
            }
            TapeError::OutOfMemory { bytes, available } => Self::Memory { bytes: *bytes, available: *available },
            other => Self::Other(other.to_string()),
        }
    }
}

impl Refusal {
    /// What an error refuses of one length, and another length may be granted; `None` for one that ends all.
    pub fn of(error: &AttentionJobError) -> Option<Self> {
        match error {
            AttentionJobError::Tape(error) | AttentionJobError::Execution(ExecutionError::Tape(error)) => {
                Some(error.into())
            }
            AttentionJobError::Execution(ExecutionError::Gpu(
                error @ (GpuError::OutOfMemory { .. } | GpuError::BufferTooLarge { .. }),
            )) => Some(Self::Other(error.to_string())),
            AttentionJobError::Script(_) | AttentionJobError::Graph(_) | AttentionJobError::Lowering(_) => {
                Some(Self::Other(error.to_string()))
            }
            AttentionJobError::Sizes { .. } | AttentionJobError::Execution(_) => None,
        }
    }

    /// The reason in few words, for a picture.
    pub fn short(&self) -> String {
        match self {
            Self::Binding { bytes, limit, .. } => {
                let [bytes, limit] = apart(*bytes, *limit);
                format!("one tensor of {bytes}, a binding holds {limit}")
            }
            Self::Buffer { bytes, limit, .. } => {
                let [bytes, limit] = apart(*bytes, *limit);
                format!("one tensor of {bytes}, a buffer holds {limit}")
            }
            Self::Memory { bytes, available } => {
                let [bytes, available] = apart(*bytes, *available);
                format!("{bytes} in all, {available} of memory available")
            }
            Self::NotFused(reason) => format!("not fused: {reason}"),
            Self::Other(reason) => reason.clone(),
        }
    }
}

/// Two numbers of bytes in words that differ, if they do: to the byte where their rounded ones do not.
fn apart(left: u64, right: u64) -> [String; 2] {
    let rounded = [left, right].map(units::bytes);
    match rounded[0] == rounded[1] {
        true => [left, right].map(|bytes| format!("{bytes} bytes")),
        false => rounded,
    }
}

/// How fused attention compares with naive attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Wins,
    /// They are equal, or differ by less than the noise.
    Even,
    Loses,
}

impl Verdict {
    /// In a table, and alike for all three.
    pub fn words(self) -> &'static str {
        match self {
            Self::Wins => "fused wins",
            Self::Even => "even",
            Self::Loses => "fused loses",
        }
    }
}

impl Side {
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Refused(_) => None,
        }
    }

    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.outcome {
            Outcome::Measured(_) => None,
            Outcome::Refused(refusal) => Some(refusal),
        }
    }

    /// Predicted and measured bytes, where they differ.
    pub fn mismatch(&self) -> Option<(u64, u64)> {
        let both = self.predicted.map(|bytes| bytes.total).zip(self.measured().and_then(|measured| measured.bytes));
        both.filter(|(predicted, measured)| predicted != measured)
    }

    /// Measured bytes where there are any, predicted ones elsewhere.
    pub fn bytes(&self) -> Option<u64> {
        self.measured().and_then(|measured| measured.bytes).or(self.predicted.map(|bytes| bytes.total))
    }

    /// The time, where there is one that can be.
    pub fn time(&self) -> Option<&Time> {
        self.measured()?.time.as_ref().filter(|time| time.is_sound())
    }
}

impl Row {
    /// Times of naive and fused, where both were measured, by one clock.
    pub fn times(&self) -> Option<(&Time, &Time)> {
        self.naive.time().zip(self.fused.time()).filter(|(naive, fused)| naive.clock == fused.clock)
    }

    /// Predicted bytes of naive and fused, whether or not they ran.
    pub fn predicted(&self) -> Option<(PredictedBytes, PredictedBytes)> {
        self.naive.predicted.zip(self.fused.predicted)
    }

    /// Naive over fused, of the medians.
    pub fn time_ratio(&self) -> Option<f64> {
        self.times().map(|(naive, fused)| naive.median / fused.median)
    }

    /// Naive over fused, of all bytes.
    pub fn bytes_ratio(&self) -> Option<f64> {
        let (naive, fused) = self.predicted()?;
        (fused.total > 0).then(|| naive.total as f64 / fused.total as f64)
    }

    /// Who is faster; where the intervals meet, neither is.
    pub fn time_verdict(&self) -> Option<Verdict> {
        let (naive, fused) = self.times()?;
        Some(if fused.high < naive.low {
            Verdict::Wins
        } else if fused.low > naive.high {
            Verdict::Loses
        } else {
            Verdict::Even
        })
    }

    /// Who needs fewer bytes. They are exact.
    pub fn bytes_verdict(&self) -> Option<Verdict> {
        let (naive, fused) = self.predicted()?;
        Some(match fused.total.cmp(&naive.total) {
            std::cmp::Ordering::Less => Verdict::Wins,
            std::cmp::Ordering::Equal => Verdict::Even,
            std::cmp::Ordering::Greater => Verdict::Loses,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{refused_row, row};
    use super::*;

    #[test]
    fn a_difference_within_the_noise_is_none() {
        for (naive, fused, verdict) in [
            ((1.9, 2.1), (0.9, 1.1), Some(Verdict::Wins)),
            ((0.9, 1.1), (1.9, 2.1), Some(Verdict::Loses)),
            ((0.9, 1.1), (1.05, 1.2), Some(Verdict::Even)),
            // An interval that is none is no measurement.
            ((0.0, 1.1), (1.9, 2.1), None),
            ((0.9, 1.1), (f64::NAN, 2.1), None),
        ] {
            let time = |(low, high): (f64, f64)| {
                let median = (low + high) / 2.0;
                let time = Time { median, low, high, samples: 5, clock: Clock::WallClock };
                Outcome::Measured(Measured { bytes: None, time: Some(time) })
            };
            let mut row = row(64);
            row.naive.outcome = time(naive);
            row.fused.outcome = time(fused);
            assert_eq!(row.time_verdict(), verdict, "{naive:?} {fused:?}");
            assert_eq!(row.time_ratio().is_some(), verdict.is_some());
        }
    }

    #[test]
    fn times_by_two_clocks_are_not_compared() {
        let mut row = row(64);
        if let Outcome::Measured(Measured { time: Some(time), .. }) = &mut row.fused.outcome {
            time.clock = Clock::Timestamps;
        }
        assert_eq!((row.time_ratio(), row.time_verdict()), (None, None));
    }

    #[test]
    fn a_refused_row_has_predicted_bytes_and_no_time() {
        let row = refused_row(4096);
        assert_eq!((row.time_verdict(), row.time_ratio()), (None, None));
        assert_eq!(row.bytes_verdict(), Some(Verdict::Wins));
        assert!(row.bytes_ratio().unwrap() > 40.0);
    }

    #[test]
    fn equal_bytes_are_even_and_more_are_a_loss() {
        let mut row = row(64);
        row.fused.predicted = row.naive.predicted;
        assert_eq!(row.bytes_verdict(), Some(Verdict::Even));
        row.naive.predicted = Some(PredictedBytes { total: 1, scores: 1, statistics: 0 });
        assert_eq!(row.bytes_verdict(), Some(Verdict::Loses));
    }

    #[test]
    fn a_refusal_names_what_was_needed_and_what_there_is() {
        let binding = Refusal::Binding { tensor: "scores".into(), bytes: 134_281_744, limit: 134_217_728 };
        for (refusal, words, short) in [
            (
                binding,
                "'scores' needs 134281744 bytes in one binding, the adapter binds at most 134217728",
                "one tensor of 128.1 MiB, a binding holds 128.0 MiB",
            ),
            (
                Refusal::Buffer { tensor: "scores".into(), bytes: 4 << 30, limit: (2 << 30) - 4 },
                "'scores' needs 4294967296 bytes in one buffer, the adapter makes at most 2147483644",
                "one tensor of 4.0 GiB, a buffer holds 2.0 GiB",
            ),
            (
                Refusal::Buffer { tensor: "scores".into(), bytes: 2_147_766_336, limit: 2_147_483_644 },
                "'scores' needs 2147766336 bytes in one buffer, the adapter makes at most 2147483644",
                "one tensor of 2147766336 bytes, a buffer holds 2147483644 bytes",
            ),
            (
                Refusal::Memory { bytes: 3 << 30, available: 1 << 30 },
                "it needs 3221225472 bytes of memory and 1073741824 are available",
                "3.0 GiB in all, 1.0 GiB of memory available",
            ),
        ] {
            assert_eq!((refusal.to_string().as_str(), refusal.short().as_str()), (words, short));
        }
    }
}
