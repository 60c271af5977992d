//! What `headlight compare` prints: three tables that explain themselves, each with what it says below it.

use std::fmt::Write;

use crate::bench::Clock;
use crate::bench::compare::{Comparison, Crossover, Difference, PredictedBytes, Quantity, Row, Side, Time, closing};
use crate::bench::units;

/// The whole comparison as text, without a newline at its end.
pub fn print(comparison: &Comparison) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_comparison(&mut text, comparison);
    text.trim_end().to_string()
}

fn write_comparison(text: &mut String, comparison: &Comparison) -> std::fmt::Result {
    let rows = &comparison.rows;
    if rows.is_empty() {
        return writeln!(text, "no context length was compared");
    }
    memory(text, comparison)?;
    writeln!(text, "{}\n", Crossover::sentence(rows, Quantity::Bytes))?;
    time(text, comparison)?;
    writeln!(text, "{}\n", Crossover::sentence(rows, Quantity::Time))?;
    agreement(text, rows)?;
    writeln!(text, "\n{LEGEND}\n")?;
    for line in closing(comparison) {
        writeln!(text, "{line}")?;
    }
    Ok(())
}

/// For a learner who sees such a table for the first time.
const LEGEND: &str = "\
How to read this. For each context length T the same attention runs twice, on the same inputs.
  naive   writes all scores down: each of T queries has one with each of T keys, B x H x T x T numbers, and backward
          needs their weights and gradients as well. Twice the context is four times the scores.
  fused   never stores them. It goes through the keys block by block and keeps of each row of scores a few numbers:
          its largest score, its sum and what follows from those, B x H x T times some. Backward computes the scores
          anew from them. Twice the context is twice the memory, but the arithmetic still has T x T steps: its time
          grows as naive's does.
  memory  every buffer that is made: q, k, v, their gradients, the output, what lies in between, and one through which
          results are read, of 16 MiB at most. It is predicted from the plan before anything runs; = behind a number
          means that the device allocated exactly that.
  ratio   naive / fused. Above 1 fused wins, below 1 it loses: with short contexts there is little to save.";

/// The headings that the columns of both forms stand under.
fn heads() -> String {
    format!("{:>7}  {:-^34}  {:-^34}  {:>7}", "", " naive ", " fused ", "naive /")
}

fn memory(text: &mut String, comparison: &Comparison) -> std::fmt::Result {
    writeln!(text, "MEMORY, {}", comparison.pass)?;
    writeln!(text, "{}", heads())?;
    let half = |of_it: &str| format!("{:>10} {:>11} {of_it:>11}", "predicted", "measured");
    writeln!(text, "{:>7}  {}  {}  {:>7}", "T", half("scores"), half("kept of it"), "fused")?;
    for row in &comparison.rows {
        writeln!(
            text,
            "{:>7}  {}  {}  {:>7}  {}",
            row.context_length,
            memory_of(&row.naive, |bytes| bytes.scores),
            memory_of(&row.fused, |bytes| bytes.statistics),
            row.bytes_ratio().map_or("n/a".into(), units::ratio),
            row.bytes_verdict().map_or("not compared", |verdict| verdict.words())
        )?;
    }
    for row in &comparison.rows {
        for (name, side) in [("naive", &row.naive), ("fused", &row.fused)] {
            if let Some((predicted, measured)) = side.mismatch() {
                writeln!(
                    text,
                    "NOT AS PREDICTED at T={}: {name} was to take {predicted} bytes and took {measured}",
                    row.context_length
                )?;
            }
        }
    }
    Ok(())
}

fn memory_of(side: &Side, part: impl Fn(PredictedBytes) -> u64) -> String {
    let shown = |bytes: Option<u64>| bytes.map_or("n/a".into(), units::bytes);
    let measured = match side.measured() {
        None => "refused".into(),
        Some(measured) if measured.bytes.is_some() && side.mismatch().is_none() => {
            format!("= {}", shown(measured.bytes))
        }
        Some(measured) => shown(measured.bytes),
    };
    let predicted = side.predicted;
    format!("{:>10} {measured:>11} {:>11}", shown(predicted.map(|bytes| bytes.total)), shown(predicted.map(part)))
}

fn time(text: &mut String, comparison: &Comparison) -> std::fmt::Result {
    let clocks = clocks(&comparison.rows);
    writeln!(text, "TIME, {}: the median of some runs and its 95% confidence interval{clocks}", comparison.pass)?;
    writeln!(text, "{}", heads())?;
    let half = format!("{:>9}  {:<23}", "median", "interval");
    writeln!(text, "{:>7}  {half}  {half}  {:>7}", "T", "fused")?;
    for row in &comparison.rows {
        writeln!(
            text,
            "{:>7}  {}  {}  {:>7}  {}",
            row.context_length,
            time_of(&row.naive),
            time_of(&row.fused),
            row.time_ratio().map_or("n/a".into(), units::ratio),
            time_words(row)
        )?;
    }
    let mut times = comparison.rows.iter().flat_map(|row| [row.naive.time(), row.fused.time()]).flatten();
    if times.any(|time| !time.is_confident()) {
        writeln!(text, "* the least and the most of fewer than six runs, which are too few for an interval")?;
    }
    Ok(())
}

/// Marks an interval that is none.
fn mark(time: &Time) -> &'static str {
    if time.is_confident() { "" } else { " *" }
}

/// Who is faster, or who ran at all.
fn time_words(row: &Row) -> &'static str {
    match (row.time_verdict(), row.naive.refusal(), row.fused.refusal()) {
        (Some(verdict), _, _) => verdict.words(),
        (None, Some(_), None) => "only fused runs",
        (None, None, Some(_)) => "only naive runs",
        (None, _, _) => "not compared",
    }
}

/// The clocks that were read.
fn clocks(rows: &[Row]) -> String {
    let mut clocks: Vec<&str> = Vec::new();
    for time in rows.iter().flat_map(|row| [row.naive.time(), row.fused.time()]).flatten() {
        let words = clock_words(time.clock);
        if !clocks.contains(&words) {
            clocks.push(words);
        }
    }
    if clocks.is_empty() { String::new() } else { format!(", by {}", clocks.join(" and ")) }
}

fn clock_words(clock: Clock) -> &'static str {
    match clock {
        Clock::Timestamps => "the adapter's clock",
        Clock::WallClock => "wall clock",
    }
}

fn time_of(side: &Side) -> String {
    let (median, interval) = match (side.refusal(), side.time()) {
        (Some(_), _) => ("refused".into(), String::new()),
        (None, Some(time)) => (
            units::seconds(time.median),
            format!("{} to {}{}", units::seconds(time.low), units::seconds(time.high), mark(time)),
        ),
        (None, None) => ("n/a".into(), String::new()),
    };
    format!("{median:>9}  {interval:<23}")
}

/// The widest cell of the table of differences.
const DIFFERENCE_WIDTH: usize = 20;

fn agreement(text: &mut String, rows: &[Row]) -> std::fmt::Result {
    writeln!(text, "ONE FUNCTION: the largest difference between naive and fused, of the largest value there is")?;
    let compared = rows.iter().find(|row| !row.differences.is_empty());
    let tensors = compared.map_or(&[][..], |row| &row.differences);
    write!(text, "{:>7}", "T")?;
    for Difference { tensor, .. } in tensors {
        write!(text, "  {tensor:>DIFFERENCE_WIDTH$}")?;
    }
    writeln!(text)?;
    for row in rows {
        write!(text, "{:>7}", row.context_length)?;
        if row.differences.is_empty() {
            write!(text, "  not compared: only what runs in both forms can be")?;
        }
        for difference in &row.differences {
            write!(text, "  {:>DIFFERENCE_WIDTH$}", difference_cell(difference))?;
        }
        writeln!(text)?;
    }
    Ok(())
}

fn difference_cell(difference: &Difference) -> String {
    let mark = if difference.agrees() { "" } else { " DIFFERS" };
    match difference.largest.is_finite() {
        true => format!("{:.1e} of {}{mark}", difference.largest, short(difference.against)),
        false => format!("not finite{mark}"),
    }
}

fn short(value: f64) -> String {
    if (0.01..1000.0).contains(&value) || value == 0.0 { format!("{value:.2}") } else { format!("{value:.1e}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::compare::tests::{comparison, refused_row, row};
    use crate::bench::compare::{Measured, Outcome};

    fn lines_with<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
        text.lines().filter(|line| line.trim_start().starts_with(start)).collect()
    }

    #[test]
    fn every_row_has_its_numbers_and_its_verdict_and_fits_a_terminal() {
        let text = print(&comparison(vec![row(64), row(1024), row(2048), refused_row(4096)]));
        for (start, lines) in [
            (
                "64 ",
                &[
                    "     64   448.0 KiB = 448.0 KiB   192.0 KiB   262.0 KiB = 262.0 KiB     6.0 KiB    1.71x  fused wins",
                    "     64    81.9 us  81.5 us to 82.3 us          520 us  518 us to 523 us           0.16x  fused loses",
                    "     64        1.2e-7 of 3.50        2.4e-7 of 3.50        4.8e-7 of 3.50        9.5e-7 of 3.50",
                ],
            ),
            (
                "4096 ",
                &[
                    "   4096   784.0 MiB     refused   768.0 MiB    16.4 MiB  = 16.4 MiB   384.0 KiB    47.9x  fused wins",
                    "   4096    refused                             84.4 ms  84.0 ms to 84.8 ms           n/a  only fused runs",
                    "   4096  not compared: only what runs in both forms can be",
                ],
            ),
        ] {
            assert_eq!(lines_with(&text, start), lines, "{text}");
        }
        for line in text.lines().take_while(|line| !line.starts_with("How to read")) {
            assert!(line.chars().count() <= 120, "{line}");
        }
        assert!(text.contains("time: fused is faster from T=1024 on: naive / fused is "), "{text}");
        assert!(text.contains("memory: fused needs less at every length compared: "), "{text}");
        assert!(text.lines().last().unwrap().starts_with("from T=1024 to 2048 naive scores grew 4.0x"), "{text}");
        assert!(text.contains("and its 95% confidence interval, by wall clock\n"), "{text}");
    }

    #[test]
    fn bytes_that_are_not_as_predicted_are_told_to_the_byte() {
        let mut row = row(64);
        if let Outcome::Measured(measured) = &mut row.naive.outcome {
            measured.bytes = Some(458_768);
        }
        let text = print(&comparison(vec![row]));
        assert!(text.contains("NOT AS PREDICTED at T=64: naive was to take 458752 bytes and took 458768"), "{text}");
        assert!(text.contains("448.0 KiB   448.0 KiB   192.0 KiB"), "{text}");
    }

    #[test]
    fn an_interval_of_too_few_runs_is_marked() {
        let mut row = row(64);
        assert!(!print(&comparison(vec![row.clone()])).contains('*'));
        if let Outcome::Measured(Measured { time: Some(time), .. }) = &mut row.fused.outcome {
            time.samples = 5;
        }
        let text = print(&comparison(vec![row]));
        assert!(text.contains(" to 82.3 us     ") && text.contains(" to 523 us *  "), "{text}");
        assert!(text.contains("\n* the least and the most of fewer than six runs"), "{text}");
    }

    #[test]
    fn what_is_not_there_is_not_shown_as_zero() {
        let mut without = row(64);
        let time = Time { median: 0.0, low: 0.0, high: 0.0, samples: 3, clock: Clock::WallClock };
        without.naive.outcome = Outcome::Measured(Measured { bytes: None, time: Some(time) });
        without.naive.predicted = None;
        without.differences.clear();
        let text = print(&comparison(vec![without]));
        assert_eq!(lines_with(&text, "64 ").len(), 3);
        assert!(lines_with(&text, "64 ")[0].starts_with("     64         n/a         n/a         n/a "), "{text}");
        assert!(lines_with(&text, "64 ")[1].starts_with("     64        n/a  "), "{text}");
        assert_eq!(print(&comparison(vec![])), "no context length was compared");
    }
}
