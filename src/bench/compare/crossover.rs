//! From which context length on fused attention wins, in words.

use super::{Row, Verdict};
use crate::bench::units;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    Time,
    Bytes,
}

impl Quantity {
    fn verdict(self, row: &Row) -> Option<(Verdict, f64)> {
        match self {
            Self::Time => row.time_verdict().zip(row.time_ratio()),
            Self::Bytes => row.bytes_verdict().zip(row.bytes_ratio()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Bytes => "memory",
        }
    }

    /// What fused attention does where it wins and where it loses.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Time => ("is faster", "is slower"),
            Self::Bytes => ("needs less", "needs more"),
        }
    }
}

/// Where fused attention begins to win.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossover {
    /// No length has both numbers.
    Unmeasured,
    /// It wins at every length.
    Always,
    /// It loses at every length.
    Never,
    /// It wins at this length and at all longer ones, and not at the one before.
    From(u64),
    /// It does not win at the longest length, and does not lose at every one.
    Nowhere,
}

/// A length with both numbers: the verdict, and naive over fused.
struct Judged {
    length: u64,
    verdict: Verdict,
    ratio: f64,
}

fn judged(rows: &[Row], quantity: Quantity) -> Vec<Judged> {
    let judge = |row: &Row| {
        let (verdict, ratio) = quantity.verdict(row)?;
        Some(Judged { length: row.context_length, verdict, ratio })
    };
    let mut judged: Vec<Judged> = rows.iter().filter_map(judge).collect();
    judged.sort_by_key(|row| row.length);
    judged
}

impl Crossover {
    /// Of rows in any order; those without both numbers do not count.
    pub fn of(rows: &[Row], quantity: Quantity) -> Self {
        let rows = judged(rows, quantity);
        let wins = rows.iter().rev().take_while(|row| row.verdict == Verdict::Wins).count();
        match rows.len() - wins {
            _ if rows.is_empty() => Self::Unmeasured,
            0 => Self::Always,
            _ if rows.iter().all(|row| row.verdict == Verdict::Loses) => Self::Never,
            first if wins > 0 => Self::From(rows[first].length),
            _ => Self::Nowhere,
        }
    }

    /// The crossover of rows as a sentence, with the ratios that it rests on.
    pub fn sentence(rows: &[Row], quantity: Quantity) -> String {
        let (wins, loses) = quantity.words();
        let judged = judged(rows, quantity);
        let (Some(first), Some(last)) = (judged.first(), judged.last()) else {
            return format!("{}: no length was measured in both forms", quantity.name());
        };
        let at = |row: &Judged| format!("{} at T={}", units::ratio(row.ratio), row.length);
        let lengths = |wanted: Verdict| {
            judged.iter().filter(|row| row.verdict == wanted).map(|row| row.length.to_string()).collect::<Vec<_>>()
        };
        // Where it does not win, and how.
        let rest = || {
            let mut parts = Vec::new();
            for (verdict, does) in [(Verdict::Loses, loses), (Verdict::Even, "is even")] {
                let lengths = lengths(verdict);
                if !lengths.is_empty() {
                    parts.push(format!("it {does} at T={}", lengths.join(", ")));
                }
            }
            parts.join(" and ")
        };
        let span = || match judged.len() {
            1 => format!("at the one length compared: naive / fused is {}", at(first)),
            _ => format!("at every length compared: naive / fused is {} and {}", at(first), at(last)),
        };
        let said = match Self::of(rows, quantity) {
            Self::Unmeasured => String::new(),
            Self::Always => format!("fused {wins} {}", span()),
            Self::Never => format!("fused {loses} {}", span()),
            Self::From(length) => {
                let crossing = judged.iter().find(|row| row.length == length).unwrap_or(last);
                let numbers = match crossing.length == last.length {
                    true => at(last),
                    false => format!("{} and {}", at(crossing), at(last)),
                };
                format!("fused {wins} from T={length} on: naive / fused is {numbers}; {}", rest())
            }
            Self::Nowhere if lengths(Verdict::Even).len() == judged.len() => {
                "neither form wins beyond the noise at any length compared".into()
            }
            Self::Nowhere => {
                let won = lengths(Verdict::Wins);
                let won = match won.is_empty() {
                    true => String::new(),
                    false => format!("it {wins} at T={}, ", won.join(", ")),
                };
                format!("there is no length from which fused {wins} at all longer ones: {won}{}", rest())
            }
        };
        format!("{}: {said}", quantity.name())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{refused_row, row};
    use super::super::{Measured, Outcome, Time};
    use super::*;
    use crate::bench::timing::Clock;

    /// Rows at 64, 128, .. whose naive time over the fused one is the given ratio, with 5% of noise.
    fn rows(ratios: &[f64]) -> Vec<Row> {
        let time = |median: f64| {
            let time = Time { median, low: 0.95 * median, high: 1.05 * median, samples: 9, clock: Clock::WallClock };
            Outcome::Measured(Measured { bytes: None, time: Some(time) })
        };
        let with = |(index, &ratio): (usize, &f64)| {
            let mut row = row(64 << index);
            row.naive.outcome = time(ratio);
            row.fused.outcome = time(1.0);
            row
        };
        ratios.iter().enumerate().map(with).collect()
    }

    #[test]
    fn the_crossover_is_the_length_from_which_all_longer_ones_win() {
        for (ratios, crossover, sentence) in [
            (&[][..], Crossover::Unmeasured, "time: no length was measured in both forms"),
            (
                &[1.5, 4.7],
                Crossover::Always,
                "time: fused is faster at every length compared: naive / fused is 1.50x at T=64 and 4.70x at T=128",
            ),
            (
                &[2.0],
                Crossover::Always,
                "time: fused is faster at the one length compared: naive / fused is 2.00x at T=64",
            ),
            (
                &[0.5, 0.62],
                Crossover::Never,
                "time: fused is slower at every length compared: naive / fused is 0.50x at T=64 and 0.62x at T=128",
            ),
            (
                &[0.62, 1.01, 1.4, 4.7],
                Crossover::From(256),
                "time: fused is faster from T=256 on: naive / fused is 1.40x at T=256 and 4.70x at T=512; it is slower at \
                 T=64 and it is even at T=128",
            ),
            (
                &[0.62, 1.4],
                Crossover::From(128),
                "time: fused is faster from T=128 on: naive / fused is 1.40x at T=128; it is slower at T=64",
            ),
            // One that wins in between does not count.
            (
                &[1.4, 0.5, 1.4],
                Crossover::From(256),
                "time: fused is faster from T=256 on: naive / fused is 1.40x at T=256; it is slower at T=128",
            ),
            (
                &[1.4, 1.4, 0.5],
                Crossover::Nowhere,
                "time: there is no length from which fused is faster at all longer ones: it is faster at T=64, 128, it is slower \
                 at T=256",
            ),
            (
                &[0.5, 1.0],
                Crossover::Nowhere,
                "time: there is no length from which fused is faster at all longer ones: it is slower at T=64 and it is even at \
                 T=128",
            ),
            (&[1.0, 1.0], Crossover::Nowhere, "time: neither form wins beyond the noise at any length compared"),
        ] {
            let mut rows = rows(ratios);
            assert_eq!(Crossover::of(&rows, Quantity::Time), crossover, "{ratios:?}");
            assert_eq!(Crossover::sentence(&rows, Quantity::Time), sentence, "{ratios:?}");
            // Neither their order nor a length without both numbers matters.
            rows.push(refused_row(1 << 14));
            rows.reverse();
            assert_eq!(Crossover::sentence(&rows, Quantity::Time), sentence, "{ratios:?}");
        }
    }

    #[test]
    fn bytes_count_where_they_are_predicted_whether_or_not_they_were_granted() {
        let rows = [row(64), refused_row(8192)];
        assert_eq!(
            Crossover::sentence(&rows, Quantity::Bytes),
            "memory: fused needs less at every length compared: naive / fused is 1.71x at T=64 and 94.8x at T=8192"
        );
    }
}
