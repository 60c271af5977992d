//! An earlier report beside a new one.
//!
//! Two times differ by more than noise where their 95% intervals do not overlap. That is a statement about two runs: it
//! knows nothing of what a machine does between them, so a baseline is best taken in the same minutes.

use serde::{Deserialize, Serialize};

use super::report::{FORMAT, MeasuredOn, Report, Row};
use super::timing::Timing;

/// A report that cannot be compared with.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    #[error("{file}: it is no report of headlight bench: {reason}")]
    Malformed { file: String, reason: String },
    #[error("{file}: it is a report of format {found}, this version reads format {FORMAT}")]
    Format { file: String, found: u64 },
    #[error("{file}: it is a report of headlight bench {found}, and cannot be compared with one of bench {wanted}")]
    OtherBench { file: String, found: String, wanted: String },
}

/// How many times as fast something is as something else.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    pub ratio: f64,
    /// Whether the intervals overlap.
    pub is_noise: bool,
}

impl Speed {
    /// How many times as fast `this` is as `other`: above 1 where it takes less time. `None` where they were timed by
    /// different clocks.
    pub fn of(this: &Timing, other: &Timing) -> Option<Self> {
        let (here, there) = (&this.seconds, &other.seconds);
        let is_noise = here.low <= there.high && there.low <= here.high;
        (this.clock == other.clock).then_some(Self { ratio: there.median / here.median, is_noise })
    }
}

/// What a baseline says of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    Speed(Speed),
    /// Timed by another clock there.
    OtherClock,
    /// One of the two has no time.
    NotMeasured,
    /// There is no such row there.
    Missing,
}

/// An earlier report.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// Its file.
    pub file: String,
    pub report: Report,
}

impl Baseline {
    /// Reads a report for a bench.
    ///
    /// # Errors
    /// A text that is none, or one of another bench.
    pub fn parse(file: &str, text: &str, bench: &str) -> Result<Self, BaselineError> {
        let malformed = |reason: String| BaselineError::Malformed { file: file.into(), reason };
        let value = crate::json::parse(text).map_err(|error| malformed(error.to_string()))?;
        match value["format"].as_u64() {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(found) => return Err(BaselineError::Format { file: file.into(), found }),
            None => return Err(malformed("it names no format".into())),
        }
        let report: Report = serde_json::from_value(value).map_err(|error| malformed(error.to_string()))?;
        if report.bench != bench {
            let (found, wanted) = (report.bench, bench.into());
            return Err(BaselineError::OtherBench { file: file.into(), found, wanted });
        }
        for row in &report.rows {
            let key = row.key();
            if row.timing.as_ref().is_some_and(|timing| !timing.is_sound()) {
                return Err(malformed(format!("the times of {} {} {} are none", key.0, key.1, key.2)));
            }
            if report.rows.iter().filter(|other| other.key() == key).count() > 1 {
                return Err(malformed(format!("{} {} {} is there more than once", key.0, key.1, key.2)));
            }
        }
        Ok(Self { file: file.into(), report })
    }

    /// What it says of a row.
    pub fn verdict(&self, row: &Row) -> Verdict {
        let Some(earlier) = self.report.rows.iter().find(|earlier| earlier.key() == row.key()) else {
            return Verdict::Missing;
        };
        match (&row.timing, &earlier.timing) {
            (Some(this), Some(earlier)) => Speed::of(this, earlier).map_or(Verdict::OtherClock, Verdict::Speed),
            _ => Verdict::NotMeasured,
        }
    }

    /// How many times as fast a row is as it was there, where that can be said.
    pub fn speed(&self, row: &Row) -> Option<Speed> {
        match self.verdict(row) {
            Verdict::Speed(speed) => Some(speed),
            Verdict::OtherClock | Verdict::NotMeasured | Verdict::Missing => None,
        }
    }

    /// How many of its rows have no partner.
    pub fn without_partner(&self, rows: &[Row]) -> usize {
        self.report.rows.iter().filter(|earlier| !rows.iter().any(|row| row.key() == earlier.key())).count()
    }

    /// What it was measured on, where that is something else; `None` where it is the same.
    pub fn difference(&self, on: &MeasuredOn) -> Option<String> {
        let earlier = &self.report.on;
        if earlier.adapter != on.adapter || earlier.kind != on.kind {
            return Some(format!("another adapter, {}", earlier.adapter));
        }
        if (&earlier.backend, &earlier.driver) != (&on.backend, &on.driver) {
            return Some(format!("another driver, {} {}", earlier.backend, earlier.driver));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{report, row, timing};
    use super::super::timing::Clock;
    use super::*;
    use crate::gpu::Profile;

    fn baseline(rows: Vec<Row>) -> Baseline {
        let text = serde_json::to_string(&report(rows)).unwrap();
        Baseline::parse("old.json", &text, "attention").unwrap()
    }

    #[test]
    fn a_difference_within_both_intervals_is_noise() {
        for (here, there, ratio, is_noise) in [
            (0.01, 0.02, 2.0, false),
            (0.02, 0.01, 0.5, false),
            (0.01, 0.0103, 1.03, true),
            (0.01, 0.01, 1.0, true),
            (0.01, 0.0105, 1.05, false),
        ] {
            let speed = Speed::of(&timing(here), &timing(there)).unwrap();
            assert!((speed.ratio - ratio).abs() < 1e-9, "{speed:?}");
            assert_eq!(speed.is_noise, is_noise, "{here} {there}");
        }
    }

    #[test]
    fn rows_are_matched_by_shape_name_and_pass_and_those_without_a_partner_are_told() {
        let mut by_other_clock = row("fused", "forward", 0.01);
        by_other_clock.timing = Some(Timing { clock: Clock::Timestamps, ..timing(0.01) });
        let refused = Row { timing: None, ..row("naive", "backward", 0.01) };
        let baseline = baseline(vec![row("naive", "forward", 0.02), by_other_clock, refused, row("old", "both", 1.0)]);
        let rows = [
            row("naive", "forward", 0.01),
            row("fused", "forward", 0.01),
            row("naive", "backward", 0.01),
            row("naive", "both", 0.01),
        ];
        let verdicts = rows.each_ref().map(|row| baseline.verdict(row));
        let speed = Verdict::Speed(Speed { ratio: 2.0, is_noise: false });
        assert_eq!(verdicts, [speed, Verdict::OtherClock, Verdict::NotMeasured, Verdict::Missing]);
        assert_eq!(baseline.without_partner(&rows), 1);
    }

    #[test]
    fn another_adapter_or_driver_is_told() {
        let baseline = baseline(Vec::new());
        let profile = Profile::webgpu_defaults();
        for (profile, expected) in [
            (Some(profile.clone()), None),
            (Some(Profile { name: "other".into(), ..profile.clone() }), Some("another adapter, WebGPU defaults")),
            (Some(Profile { driver: "2.0".into(), ..profile }), Some("another driver, none ")),
            (None, Some("another adapter, WebGPU defaults")),
        ] {
            let difference = baseline.difference(&MeasuredOn::new(profile.as_ref()));
            assert_eq!(difference.as_deref(), expected);
        }
    }

    #[test]
    fn what_is_no_report_of_the_bench_is_refused_with_the_file() {
        let with = |rows| serde_json::to_string(&report(rows)).unwrap();
        let whole = with(Vec::new());
        for (text, expected) in [
            ("{", "old.json: it is no report of headlight bench: "),
            ("[]", "old.json: it is no report of headlight bench: it names no format"),
            ("{\"format\": 1}", "old.json: it is no report of headlight bench: missing field"),
            ("{\"format\": 2}", "old.json: it is a report of format 2, this version reads format 1"),
            (&*whole.replace("\"attention\"", "\"matmul\""), "old.json: it is a report of headlight bench matmul, "),
            (
                &*with(vec![row("naive", "both", 0.0)]),
                "old.json: it is no report of headlight bench: the times of B=1 H=1 T=8 D=4 naive both are none",
            ),
            (
                &*with(vec![row("naive", "both", 0.1), row("naive", "both", 0.2)]),
                "old.json: it is no report of headlight bench: B=1 H=1 T=8 D=4 naive both is there more than once",
            ),
        ] {
            let error = Baseline::parse("old.json", text, "attention").unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
