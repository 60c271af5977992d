//! What a bench found, as it is kept: rows, and all that a reader needs to know of where they come from.

use serde::{Deserialize, Serialize};

use super::baseline::Speed;
use super::ceilings::{Ceilings, per_second};
use super::timing::Timing;
use crate::gpu::{AdapterKind, Profile};
use crate::tape::Cost;

/// What was measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredOn {
    pub adapter: String,
    /// With its version, as the driver gives it.
    pub driver: String,
    pub backend: String,
    /// GPU, software adapter or CPU executor.
    pub kind: String,
}

impl MeasuredOn {
    /// An adapter; the CPU executor where there is none.
    pub fn new(profile: Option<&Profile>) -> Self {
        match profile {
            Some(profile) => Self {
                adapter: profile.name.clone(),
                driver: profile.driver.clone(),
                backend: profile.backend.clone(),
                kind: match profile.kind {
                    AdapterKind::Hardware => "GPU".into(),
                    AdapterKind::Software => "software adapter".into(),
                },
            },
            None => Self {
                adapter: "CPU executor".into(),
                driver: String::new(),
                backend: "none".into(),
                kind: "CPU executor".into(),
            },
        }
    }
}

/// How fast a row is, and how near to what the adapter does at most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Declared floating-point operations a second; `None` where there are none.
    pub flops: Option<f64>,
    /// Bytes a second that must at least be moved.
    pub bytes: Option<f64>,
    /// Of the measured ceiling of multiply-adds.
    pub share_of_flops: Option<f64>,
    /// Of the measured ceiling of a copy. Above 1 where caches hold what the launches hand on.
    pub share_of_bytes: Option<f64>,
}

impl Rates {
    fn new(cost: Cost, timing: &Timing, ceilings: &Ceilings) -> Self {
        let rate = |work: u64| (work > 0).then(|| per_second(work, timing));
        let (flops, bytes) = (rate(cost.flops), rate(cost.bytes));
        let share = |rate: Option<f64>, ceiling: Option<f64>| Some(rate? / ceiling?);
        let share_of_flops = share(flops, ceilings.flops);
        Self { flops, bytes, share_of_flops, share_of_bytes: share(bytes, ceilings.bytes) }
    }
}

/// One thing that was timed, or could not be. Shape, name and pass tell it apart from every other of its report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What is computed, with its sizes.
    pub shape: String,
    /// By what: an attention, or the design of a kernel.
    pub name: String,
    /// Forward, backward or both; empty where there are no passes.
    pub pass: String,
    pub launches: usize,
    pub flops: u64,
    pub bytes: u64,
    pub timing: Option<Timing>,
    pub rates: Option<Rates>,
    /// The part of a whole that the row is.
    pub share: Option<f64>,
    /// Why there is no time.
    pub reason: Option<String>,
    /// What else a reader should know.
    pub note: Option<String>,
    /// How many times as fast as in the baseline, where there is one that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_baseline: Option<Speed>,
}

/// The key of a row: shape, name and pass.
pub type RowKey<'a> = (&'a str, &'a str, &'a str);

impl Row {
    /// A row without a time.
    pub fn without_time(shape: impl Into<String>, name: impl Into<String>, pass: &str, reason: String) -> Self {
        Self {
            shape: shape.into(),
            name: name.into(),
            pass: pass.into(),
            launches: 0,
            flops: 0,
            bytes: 0,
            timing: None,
            rates: None,
            share: None,
            reason: Some(reason),
            note: None,
            against_baseline: None,
        }
    }

    /// A row of so many launches that take so long, or why there is no time.
    pub fn new<E: std::fmt::Display>(
        (shape, name, pass): RowKey<'_>,
        launches: usize,
        cost: Cost,
        timing: Result<Timing, E>,
        ceilings: &Ceilings,
    ) -> Self {
        let (timing, reason) = match timing {
            Ok(timing) => (Some(timing), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self {
            launches,
            flops: cost.flops,
            bytes: cost.bytes,
            rates: timing.as_ref().map(|timing| Rates::new(cost, timing, ceilings)),
            timing,
            reason,
            ..Self::without_time(shape, name, pass, String::new())
        }
    }

    pub fn key(&self) -> RowKey<'_> {
        (&self.shape, &self.name, &self.pass)
    }
}

/// The version of the format that reports are written in.
pub const FORMAT: u32 = 1;

/// All that a bench found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub format: u32,
    /// `attention`, `matmul`, `kernels` or `train`.
    pub bench: String,
    /// The version of this program.
    pub headlight: String,
    pub on: MeasuredOn,
    pub ceilings: Ceilings,
    /// Of inputs and order.
    pub seed: u64,
    pub rows: Vec<Row>,
}

impl Report {
    pub fn new(bench: &str, on: MeasuredOn, seed: u64) -> Self {
        let headlight = env!("CARGO_PKG_VERSION").into();
        let ceilings = Ceilings::default();
        Self { format: FORMAT, bench: bench.into(), headlight, on, ceilings, seed, rows: Vec::new() }
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::statistics::Summary;
    use super::super::timing::Clock;
    use super::*;

    /// A time whose interval is 2% wide to either side.
    pub fn timing(seconds: f64) -> Timing {
        let (low, high) = (seconds * 0.98, seconds * 1.02);
        let seconds = Summary { samples: 10, median: seconds, low, high, lower_quartile: low, upper_quartile: high };
        Timing { seconds, clock: Clock::WallClock, repetitions: 1, first_seconds: 0.25 }
    }

    pub fn row(name: &str, pass: &str, seconds: f64) -> Row {
        let cost = Cost { flops: 4_000_000, bytes: 1_000_000 };
        let ceilings = Ceilings { flops: Some(16e9), bytes: Some(1e9) };
        Row::new(("B=1 H=1 T=8 D=4", name, pass), 3, cost, Ok::<_, String>(timing(seconds)), &ceilings)
    }

    pub fn report(rows: Vec<Row>) -> Report {
        Report { rows, ..Report::new("attention", MeasuredOn::new(Some(&Profile::webgpu_defaults())), 1) }
    }

    #[test]
    fn rates_are_those_of_the_median_and_shares_those_of_the_ceilings() {
        let rates = row("naive", "forward", 0.001).rates.unwrap();
        assert_eq!((rates.flops, rates.bytes), (Some(4e9), Some(1e9)));
        assert_eq!((rates.share_of_flops, rates.share_of_bytes), (Some(0.25), Some(1.0)));
        // A copy computes nothing, and where nothing was measured there is no share.
        let cost = Cost { flops: 0, bytes: 8 };
        let rates = Rates::new(cost, &timing(1.0), &Ceilings::default());
        assert_eq!((rates.flops, rates.bytes), (None, Some(8.0)));
        assert_eq!((rates.share_of_flops, rates.share_of_bytes), (None, None));
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let refused = Row::without_time("B=1 H=1 T=9 D=4", "naive", "forward", "it needs 3 bytes, there are 2".into());
        let report = report(vec![row("naive", "forward", 0.123_456_789), refused]);
        let text = serde_json::to_string(&report).unwrap();
        let read: Report = serde_json::from_value(crate::json::parse(&text).unwrap()).unwrap();
        assert_eq!(read, report);
    }
}
