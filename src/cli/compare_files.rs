//! The files of `headlight compare --out`: rows as JSON and CSV, and two charts.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use serde_json::json;

use super::compare_chart::compare_chart;
use super::csv::quoted;
use crate::atomic::write_file;
use crate::bench::compare::{Comparison, Crossover, PredictedBytes, Quantity, Row, Side, Time, closing};

/// Where the rows and charts go.
pub struct Files {
    directory: PathBuf,
}

impl Files {
    /// The names of the files.
    pub const NAMES: [&str; 4] = ["compare.json", "compare.csv", "compare_memory.svg", "compare_time.svg"];

    /// Makes the directory and all files, with the rows that there are.
    ///
    /// # Errors
    /// A place that cannot be written to.
    pub fn create(directory: &Path, comparison: &Comparison) -> anyhow::Result<Self> {
        std::fs::create_dir_all(directory)
            .map_err(|error| anyhow!("cannot write into {}: {error}", directory.display()))?;
        let files = Self { directory: directory.into() };
        files.write(comparison)?;
        Ok(files)
    }

    /// Replaces every file as a whole, so that one that is interrupted is good for all rows before.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, comparison: &Comparison) -> anyhow::Result<()> {
        let contents = [
            json(comparison)?,
            csv(&comparison.rows),
            compare_chart(comparison, Quantity::Bytes)?,
            compare_chart(comparison, Quantity::Time)?,
        ];
        for (name, text) in Self::NAMES.iter().zip(contents) {
            write_file(&self.directory.join(name), text.as_bytes())?;
        }
        Ok(())
    }
}

/// The comparison with its sentences. A number that is not finite is null.
fn json(comparison: &Comparison) -> serde_json::Result<String> {
    let mut object = serde_json::to_value(comparison)?;
    object["version"] = json!(env!("CARGO_PKG_VERSION"));
    let crossovers = [Quantity::Bytes, Quantity::Time].map(|quantity| Crossover::sentence(&comparison.rows, quantity));
    object["said"] = json!([crossovers.to_vec(), closing(comparison)].concat());
    Ok(format!("{object:#}\n"))
}

/// A line a context length. What was not measured is empty.
fn csv(rows: &[Row]) -> String {
    let form = |name: &str| {
        let columns = ["predicted_bytes", "scores_bytes", "statistics_bytes", "measured_bytes"];
        let columns = columns.iter().chain(&["seconds", "seconds_low", "seconds_high", "samples", "clock", "refusal"]);
        columns.map(|column| format!("{name}_{column}")).collect::<Vec<_>>().join(",")
    };
    // All rows compare the same tensors.
    let tensors: Vec<&str> = rows
        .iter()
        .find(|row| !row.differences.is_empty())
        .map_or(Vec::new(), |row| row.differences.iter().map(|difference| difference.tensor.as_str()).collect());
    let mut text = format!("context_length,{},{}", form("naive"), form("fused"));
    for tensor in &tensors {
        text.push(',');
        text.push_str(&quoted(&format!("{tensor}_difference")));
        text.push(',');
        text.push_str(&quoted(&format!("{tensor}_largest")));
    }
    text.push('\n');
    for row in rows {
        // Writing to a String cannot fail.
        let _ = write!(text, "{},{},{}", row.context_length, fields(&row.naive), fields(&row.fused));
        for tensor in &tensors {
            let difference = row.differences.iter().find(|difference| difference.tensor == *tensor);
            let numbers = difference.map_or([None, None], |found| [found.largest, found.against].map(Some));
            let _ = write!(text, ",{},{}", optional(numbers[0]), optional(numbers[1]));
        }
        text.push('\n');
    }
    text
}

fn fields(side: &Side) -> String {
    let bytes = |of: fn(&PredictedBytes) -> u64| optional(side.predicted.as_ref().map(of));
    let time = side.time();
    let seconds = |of: fn(&Time) -> f64| optional(time.map(of));
    [
        bytes(|predicted| predicted.total),
        bytes(|predicted| predicted.scores),
        bytes(|predicted| predicted.statistics),
        optional(side.measured().and_then(|measured| measured.bytes)),
        seconds(|time| time.median),
        seconds(|time| time.low),
        seconds(|time| time.high),
        optional(time.map(|time| time.samples)),
        optional(time.map(|time| time.clock.word())),
        side.refusal().map_or(String::new(), |refusal| quoted(&refusal.to_string())),
    ]
    .join(",")
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::compare::tests::{comparison, refused_row, row};

    #[test]
    fn a_line_a_length_has_a_field_a_column_and_no_zero_for_what_is_missing() {
        let text = csv(&[row(64), refused_row(4096)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let head: Vec<&str> = lines[0].split(',').collect();
        assert_eq!(
            (head[0], head[1], head[11], head[21]),
            ("context_length", "naive_predicted_bytes", "fused_predicted_bytes", "output_difference")
        );
        assert!(lines[1].starts_with("64,458752,196608,0,458752,"), "{text}");
        assert!(lines[1].contains(",9,wall,,268288,0,6144,268288,"), "{text}");
        let refusal = "\"'scores' needs 268435456 bytes in one binding, the adapter binds at most 134217728\"";
        assert!(lines[2].starts_with(&format!("4096,822083584,805306368,0,,,,,,,{refusal},17170432,")), "{text}");
        assert!(lines[2].ends_with(",9,wall,,,,,,,,,"), "{text}");
        assert_eq!(lines[1].split(',').count(), head.len());
        assert_eq!(csv(&[]).lines().count(), 1);
    }

    #[test]
    fn the_object_holds_every_row_and_what_was_said_of_them() {
        let mut comparison = comparison(vec![row(64), row(128)]);
        comparison.rows[1].differences[0].largest = f64::INFINITY;
        let object: serde_json::Value = serde_json::from_str(&json(&comparison).unwrap()).unwrap();
        assert_eq!(object["rows"][1]["context_length"], 128);
        assert_eq!(object["rows"][0]["naive"]["outcome"]["measured"]["bytes"], 458_752);
        assert_eq!(object["rows"][1]["differences"][0]["largest"], serde_json::Value::Null);
        assert!(object["said"][2].as_str().unwrap_or_default().starts_with("from T=64 to 128 "), "{object}");
    }

    #[test]
    fn every_file_is_there_before_a_row_is() {
        let room = tempfile::tempdir().unwrap();
        let directory = room.path().join("a/b");
        let files = Files::create(&directory, &comparison(vec![])).unwrap();
        for name in Files::NAMES {
            assert!(directory.join(name).is_file(), "{name}");
        }
        files.write(&comparison(vec![row(64)])).unwrap();
        assert!(std::fs::read_to_string(directory.join("compare.csv")).unwrap().contains("\n64,"));
        let error = Files::create(&directory.join("compare.csv/x"), &comparison(vec![])).err().unwrap().to_string();
        assert!(error.starts_with("cannot write into ") && !error.contains('\n'), "{error}");
    }
}
