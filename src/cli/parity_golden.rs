//! `headlight parity --golden DIR`: the reference files of another program against this one.

use std::io::Write;
use std::path::Path;

use anyhow::bail;
use serde_json::json;

use super::Outcome;
use crate::check::golden::{FileReport, Row, Runs, check, files};
use crate::gpu::Gpu;
use crate::printable::printable;
use crate::tape::RunOn;

/// Where a line that quotes a file is cut.
const LINE: usize = 2000;

/// Which files count, and what may be absent.
pub struct Request<'a> {
    pub directory: &'a Path,
    pub filter: Option<&'a str>,
    pub allow_missing_ops: bool,
    /// Where the rows go as JSON.
    pub json: Option<std::fs::File>,
}

pub async fn run(request: Request<'_>, gpu: Option<std::sync::Arc<Gpu>>) -> anyhow::Result<Outcome> {
    let named = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut paths = files(request.directory)?;
    paths.retain(|path| request.filter.is_none_or(|filter| named(path).contains(filter)));
    if paths.is_empty() {
        let filter = request.filter.map_or(String::new(), |filter| format!(" with '{filter}' in its name"));
        bail!("{} holds no .safetensors file{filter}: there is nothing to compare", request.directory.display());
    }
    let adapter = gpu.as_ref().map(|gpu| super::device::describe(&gpu.profile));
    let mut runs = vec![("cpu", RunOn::Cpu)];
    runs.extend(gpu.map(|gpu| ("gpu", RunOn::Gpu(gpu))));
    let runs = Runs(runs);

    let mut out = std::io::stdout();
    let (mut rows, mut faults, mut missing): (Vec<Row>, Vec<String>, Vec<String>) = Default::default();
    for path in &paths {
        writeln!(out, "{}", named(path))?;
        let report = match check(path, &runs).await {
            Ok(report) => report,
            Err(error) => FileReport { faults: vec![error.to_string()], ..FileReport::default() },
        };
        print(&mut out, &report)?;
        faults.extend(report.faults);
        missing.extend(report.missing_ops.into_iter().map(|op| format!("{op} in {}", named(path))));
        rows.extend(report.rows);
    }

    let failed = rows.iter().filter(|row| !row.passed()).count();
    writeln!(
        out,
        "{} files: {} outputs compared, {} passed, {failed} failed, {} other faults",
        paths.len(),
        rows.len(),
        rows.len() - failed,
        faults.len()
    )?;
    if let Some(worst) = rows.iter().max_by(|a, b| a.share.total_cmp(&b.share)) {
        let (file, tensor, run, share) = (&worst.file, &worst.tensor, &worst.run, worst.share);
        let case = if worst.case.is_empty() { String::new() } else { format!("{}.", worst.case) };
        writeln!(out, "closest to its tolerance: {file} {case}{tensor} on {run}, {share:.3} of it")?;
    }
    if !missing.is_empty() {
        let allowed = if request.allow_missing_ops { "allowed" } else { "--allow-missing-ops lets them pass" };
        writeln!(out, "not built ({allowed}): {}", printable(&missing.join("; "), LINE))?;
    }
    let complete = missing.is_empty() || request.allow_missing_ops;
    let passed = failed == 0 && faults.is_empty() && complete && !rows.is_empty();
    if let Some(mut file) = request.json {
        let rows: Vec<_> = rows.iter().map(described).collect();
        let report = json!({
            "adapter": adapter, "passed": passed, "rows": rows, "faults": faults, "not_built": missing,
        });
        writeln!(file, "{report:#}")?;
    }
    Ok(match passed {
        true => Outcome::Fine,
        false => {
            if rows.is_empty() {
                writeln!(out, "nothing was compared")?;
            }
            Outcome::CheckFailed
        }
    })
}

fn name(row: &Row) -> String {
    let name = if row.case.is_empty() { row.tensor.clone() } else { format!("{}.{}", row.case, row.tensor) };
    printable(&name, LINE)
}

fn print(out: &mut impl Write, report: &FileReport) -> std::io::Result<()> {
    let width = report.rows.iter().map(|row| name(row).len()).max().unwrap_or(0);
    for row in &report.rows {
        let word = if row.passed() { "ok" } else { "FAILED" };
        let (name, run, error, share) = (name(row), &row.run, row.error, row.share);
        let index = row.index.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        write!(out, "  {word:<6} {name:<width$}  {run:<9}  error {error:.2e} at [{index}]  share {share:.3}")?;
        match row.passed() {
            true => writeln!(out)?,
            false => writeln!(
                out,
                "  found {:e}, expected {:e}; {} of {} elements miss",
                row.found, row.expected, row.misses, row.compared
            )?,
        }
    }
    for op in &report.missing_ops {
        writeln!(out, "  not built: {}", printable(op, LINE))?;
    }
    for fault in &report.faults {
        writeln!(out, "  FAULT  {}", printable(fault, LINE))?;
    }
    Ok(())
}

fn described(row: &Row) -> serde_json::Value {
    json!({
        "file": row.file, "case": row.case, "tensor": row.tensor, "run": row.run, "passed": row.passed(),
        "compared": row.compared, "misses": row.misses, "error": row.error, "index": row.index, "found": row.found,
        "expected": row.expected, "share_of_tolerance": row.share,
    })
}
