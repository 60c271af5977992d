//! `metrics.jsonl`: one JSON object a logged step, appended while the run goes on, read back for charts and resume.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::atomic::{FileError, append_line, write_file};
use crate::printable::printable;

/// The longest line read: a record takes some two hundred bytes.
const LINE_LIMIT: usize = 1 << 12;

/// How an error cuts the parser's reason, which may quote the file.
const REASON_LIMIT: usize = 300;

/// What was measured at one step. A number that was not measured, or is not finite, is null in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MetricsRecord {
    /// Optimizer steps taken when this was measured.
    pub step: u64,
    /// Mean cross-entropy over the step's batch, nats a token.
    pub train_loss: Option<f64>,
    /// Mean cross-entropy over held-out text, nats a token.
    pub val_loss: Option<f64>,
    /// The same where no later token can be seen: the validation loss and what seeing the future takes off it. Measured
    /// where attention was edited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub honest_loss: Option<f64>,
    /// The rate of the step.
    pub learning_rate: f64,
    /// The norm of all gradients together, before clipping.
    pub grad_norm: Option<f64>,
    /// Tokens learnt from a second, since the last line.
    pub tokens_per_second: Option<f64>,
    /// Seconds of training since the start of the run, resumed parts included.
    pub seconds: f64,
}

/// Why metrics could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}:{line}: it is no line of metrics: {reason}", path.display())]
    Line { path: PathBuf, line: usize, reason: String },
    #[error("metrics cannot be written as JSON: {reason}")]
    Unwritable { reason: String },
}

/// The open file of a run.
pub struct MetricsLog {
    path: PathBuf,
    file: File,
}

impl MetricsLog {
    /// Opens the file for appending, or creates it. Lines of later steps than `resumed_step` are dropped, so that a
    /// resumed run does not tell of the same steps twice; so is a last line that a crash tore.
    pub fn open(path: &Path, resumed_step: u64) -> Result<Self, MetricsError> {
        if path.exists() {
            let mut text = String::new();
            for record in read_metrics(path)?.iter().filter(|record| record.step <= resumed_step) {
                text.push_str(&line(record)?);
                text.push('\n');
            }
            write_file(path, text.as_bytes())?;
        }
        let file = File::options().create(true).append(true).open(path).map_err(FileError::at("open", path))?;
        Ok(Self { path: path.to_path_buf(), file })
    }

    pub fn append(&mut self, record: &MetricsRecord) -> Result<(), MetricsError> {
        Ok(append_line(&mut self.file, &self.path, &line(record)?)?)
    }

    /// Makes every line durable; call it before a checkpoint that tells of the same steps.
    pub fn sync(&self) -> Result<(), MetricsError> {
        Ok(self.file.sync_data().map_err(FileError::at("sync", &self.path))?)
    }
}

fn line(record: &MetricsRecord) -> Result<String, MetricsError> {
    serde_json::to_string(record).map_err(|error| MetricsError::Unwritable { reason: error.to_string() })
}

/// Every record of the file, in its order; none where there is no file. A last line without its newline is what a
/// crash leaves and is passed over; any other line that is no record is an error.
pub fn read_metrics(path: &Path) -> Result<Vec<MetricsRecord>, MetricsError> {
    let file = match File::open(path) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        result => result.map_err(FileError::at("open", path))?,
    };
    let mut file = BufReader::new(file);
    let mut records = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        // A byte more than a line may have: a longer one is told from one of just that length.
        let mut rest = file.by_ref().take(LINE_LIMIT as u64 + 1);
        rest.read_until(b'\n', &mut line).map_err(FileError::at("read", path))?;
        let refused = |reason: String| MetricsError::Line { path: path.to_path_buf(), line: number, reason };
        if line.len() > LINE_LIMIT {
            return Err(refused(format!("it is longer than {LINE_LIMIT} bytes")));
        }
        if line.pop() != Some(b'\n') {
            break;
        }
        if !line.trim_ascii().is_empty() {
            let record = serde_json::from_slice(&line);
            records.push(record.map_err(|error| refused(printable(&error.to_string(), REASON_LIMIT)))?);
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(step: u64) -> MetricsRecord {
        MetricsRecord {
            step,
            train_loss: Some(2.5 + 0.1 * step as f64),
            val_loss: step.is_multiple_of(2).then_some(2.0),
            honest_loss: None,
            learning_rate: 1e-3 / 3.0,
            grad_norm: Some(0.5),
            tokens_per_second: Some(1234.5),
            seconds: 0.1 + 0.2,
        }
    }

    #[test]
    fn records_read_back_bit_for_bit() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("metrics.jsonl");
        assert_eq!(read_metrics(&path).unwrap(), []);
        let records: Vec<_> = (0..5).map(record).collect();
        let mut log = MetricsLog::open(&path, 0).unwrap();
        assert_eq!(read_metrics(&path).unwrap(), []);
        for record in &records {
            log.append(record).unwrap();
        }
        log.sync().unwrap();
        assert_eq!(read_metrics(&path).unwrap(), records);
        let text = std::fs::read_to_string(&path).unwrap();
        let first = r#"{"step":0,"train_loss":2.5,"val_loss":2.0,"learning_rate":0.0003333333333333333,"grad_norm":0.5,"tokens_per_second":1234.5,"seconds":0.30000000000000004}"#;
        assert_eq!(text.lines().next(), Some(first));
        assert!(text.lines().nth(1).unwrap().contains(r#""val_loss":null"#));
    }

    #[test]
    fn resume_keeps_the_lines_up_to_its_step_and_appends_after_them() {
        for (resumed, kept) in [(0, 1), (3, 4), (4, 5), (u64::MAX, 5)] {
            let room = tempfile::tempdir().unwrap();
            let path = room.path().join("metrics.jsonl");
            let mut log = MetricsLog::open(&path, 0).unwrap();
            (0..5).for_each(|step| log.append(&record(step)).unwrap());
            drop(log);
            let mut log = MetricsLog::open(&path, resumed).unwrap();
            assert_eq!(read_metrics(&path).unwrap().len(), kept);
            log.append(&record(9)).unwrap();
            assert_eq!(read_metrics(&path).unwrap().last(), Some(&record(9)));
        }
    }

    #[test]
    fn a_torn_last_line_is_passed_over_and_any_other_is_an_error() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("metrics.jsonl");
        let good = line(&record(1)).unwrap();
        for (text, expected) in [
            (format!("{good}\n{}", &good[..40]), Ok(1)),
            (good.clone(), Ok(0)),
            (format!("{good}\n\n"), Ok(1)),
            (String::new(), Ok(0)),
            (format!("{good}\n{}\n{good}\n", &good[..40]), Err(2)),
            (format!("\n[1]\n{good}\n"), Err(2)),
            (format!("{good}\n{}", "x".repeat(1 << 20)), Err(2)),
            (format!("{good}\n\"\u{1b}[2J\"\n"), Err(2)),
            (good.replace("\"step\":1", "\"step\":1.0") + "\n", Err(1)),
            (good.replace("\"step\":1", "\"step\":-0") + "\n", Err(1)),
            (good.replace("\"step\":1", r#""step":{"$serde_json::private::Number":"1"}"#) + "\n", Err(1)),
            (good.replace("\"grad_norm\":0.5", "\"grad_norm\":1e400") + "\n", Err(1)),
            (good.replace("\"grad_norm\":0.5", &format!("\"grad_norm\":{}", "9".repeat(1000))) + "\n", Err(1)),
            (good.replace("\"grad_norm\":0.5", r#""grad_norm":{"$serde_json::private::Number":"1"}"#) + "\n", Err(1)),
            (good.replace("\"grad_norm\":0.5", "\"grad_norm\":5e-1") + "\n", Ok(1)),
        ] {
            std::fs::write(&path, &text).unwrap();
            match (read_metrics(&path), expected) {
                (Ok(records), Ok(count)) => assert_eq!(records, vec![record(1); count]),
                (Err(error), Err(number)) => {
                    let error = error.to_string();
                    assert!(error.contains(&format!("metrics.jsonl:{number}: it is no line")), "{error}");
                    assert!(!error.contains('\u{1b}') && error.len() < 600, "{error}");
                }
                (result, _) => panic!("{result:?} for {text:?}"),
            }
        }
        std::fs::write(&path, format!("{good}\n{}", &good[..40])).unwrap();
        MetricsLog::open(&path, 5).unwrap().append(&record(2)).unwrap();
        assert_eq!(read_metrics(&path).unwrap(), [record(1), record(2)]);
    }

    #[test]
    fn a_number_that_is_not_finite_is_written_as_null() {
        let bad = MetricsRecord { train_loss: Some(f64::NAN), grad_norm: Some(f64::INFINITY), ..record(1) };
        let text = line(&bad).unwrap();
        assert!(text.contains(r#""train_loss":null"#) && text.contains(r#""grad_norm":null"#), "{text}");
        assert_eq!(serde_json::from_str::<MetricsRecord>(&text).unwrap().train_loss, None);
    }
}
