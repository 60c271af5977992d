//! Reference files of other programs (PyTorch in float64: `tests/golden/README.md`) against both executors.
//!
//! Nothing passes by default: an output that is not compared, a tensor that is used for nothing, a reference that is not
//! finite where the file does not say so, and an op that is not built are all findings.

mod bugs;
mod compare;
mod file;
mod model;
mod named;
mod schedule;
mod training;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub use compare::{Row, compare};
pub use file::{Expected, GoldenFile};

use crate::model::tensor_file::TensorFileError;
use crate::op::Tensors;
use crate::tape::RunOn;

/// What a GPU may use of a tolerance that was measured on a CPU: WGSL promises little for exp and tanh.
pub const DEVICE_FACTOR: f64 = 10.0;

/// A file that cannot be checked at all.
#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    #[error("{}: {source}", path.display())]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("{} {source}", path.display())]
    File { path: PathBuf, source: TensorFileError },
    #[error("{}: {reason}", path.display())]
    Malformed { path: PathBuf, reason: String },
    #[error("{}: {case}: {reason}", path.display())]
    Failed { path: PathBuf, case: String, reason: String },
}

/// What came of one file.
#[derive(Debug, Default)]
pub struct FileReport {
    pub rows: Vec<Row>,
    /// Ops that are not built, as `op (cases)`.
    pub missing_ops: Vec<String>,
    /// Everything that is wrong beside the numbers.
    pub faults: Vec<String>,
}

impl FileReport {
    /// Whether all is well, ops that are not built apart.
    pub fn passed(&self) -> bool {
        self.faults.is_empty() && self.rows.iter().all(Row::passed)
    }
}

/// Outputs that one way of computing gave for a case, by the names that they have in the file.
struct Found {
    /// `cpu`, `gpu fused`, ..
    run: String,
    /// What may be used of the tolerance.
    factor: f64,
    case: String,
    outputs: Tensors,
}

/// What an op's files were found to hold.
#[derive(Default)]
struct Findings {
    found: Vec<Found>,
    /// Names that were used as inputs, or belong to an op that is not built.
    used: BTreeSet<String>,
    /// Outputs of ops that are not built.
    unbuilt: BTreeSet<String>,
    missing_ops: Vec<String>,
}

/// The executors that files are checked on, with their names and what they may use of a tolerance.
pub struct Runs(pub Vec<(&'static str, RunOn)>);

impl Runs {
    fn factor(on: &RunOn) -> f64 {
        if matches!(on, RunOn::Gpu(_)) { DEVICE_FACTOR } else { 1.0 }
    }
}

/// The reference files of a directory, sorted.
///
/// # Errors
/// A directory that cannot be read.
pub fn files(directory: &Path) -> Result<Vec<PathBuf>, GoldenError> {
    let failed = |source| GoldenError::Directory { path: directory.into(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|ending| ending == "safetensors") && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Checks one file on every executor.
///
/// # Errors
/// A file that cannot be read or makes no sense, an executor that fails.
pub async fn check(path: &Path, runs: &Runs) -> Result<FileReport, GoldenError> {
    let mut file = GoldenFile::open(path)?;
    let findings = match file.op.as_str() {
        "gpt" => model::evaluate(&mut file, runs).await?,
        "gpt_train" => training::evaluate(&mut file, runs).await?,
        "attention_bugs" => bugs::compute(&mut file, runs).await?,
        "lr_schedule" => schedule::evaluate(&mut file)?,
        _ => named::evaluate(&mut file, runs).await?,
    };
    let mut report = FileReport { missing_ops: findings.missing_ops, ..FileReport::default() };
    let mut compared = BTreeSet::new();
    for Found { run, factor, case, outputs } in &findings.found {
        for (name, found) in outputs {
            let Some(expected) = file.outputs.get(name).cloned() else { continue };
            let reference = match file.reference(name) {
                Ok(reference) => reference,
                Err(fault) => {
                    report.faults.push(fault.to_string());
                    compared.insert(name.clone());
                    continue;
                }
            };
            let own = name.strip_prefix(&format!("{case}.")).unwrap_or(name);
            match compare(found, &reference, &expected, *factor) {
                Ok(row) => {
                    report.rows.push(Row {
                        file: file.name.clone(),
                        case: case.clone(),
                        tensor: own.into(),
                        run: run.clone(),
                        ..row
                    });
                }
                Err(fault) => report.faults.push(format!("{name} ({run}): {fault}")),
            }
            compared.insert(name.clone());
        }
    }
    for name in file.outputs.keys().filter(|name| !compared.contains(*name) && !findings.unbuilt.contains(*name)) {
        report.faults.push(format!("output {name} is not compared"));
    }
    for name in file.names() {
        if !file.outputs.contains_key(&name) && !findings.used.contains(&name) {
            report.faults.push(format!("tensor {name} is used for nothing"));
        }
    }
    Ok(report)
}
