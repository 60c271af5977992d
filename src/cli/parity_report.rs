//! `headlight parity --report FILE`: each design's error against f64 beside that of the plain formula in f32.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use serde_json::json;

use super::Outcome;
use crate::check::error_budget::{Budget, FACTOR, floor, measure};
use crate::gpu::{Gpu, Pipelines};
use crate::kernel::KERNELS;
use crate::tape::{Case, DesignInfo, Kernel};

/// Where a report goes, and in which form.
pub struct Report {
    file: File,
    form: Form,
}

#[derive(Clone, Copy)]
enum Form {
    Markdown,
    Json,
}

impl Report {
    /// Creates the file, so that a path that cannot be written fails before the long run.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let form = match path.extension().and_then(|ending| ending.to_str()) {
            Some("md") => Form::Markdown,
            Some("json") => Form::Json,
            _ => bail!(
                "{} ends in neither .md nor .json: --report writes Markdown or JSON, by the file's ending",
                path.display()
            ),
        };
        let file = File::create(path)
            .with_context(|| format!("cannot write {}", path.display()))
            .map_err(|error| anyhow::anyhow!("{error:#}"))?;
        Ok(Self { file, form })
    }
}

/// Measures every kernel and design on the cases that `selected` lets through.
pub async fn run(
    mut report: Report,
    gpu: &Arc<Gpu>,
    selected: impl Fn(&Kernel, &DesignInfo, &Case) -> bool,
) -> anyhow::Result<Outcome> {
    let mut out = std::io::stdout();
    let mut pipelines = Pipelines::default();
    let mut rows = Vec::new();
    for kernel in KERNELS {
        for design in (kernel.designs)() {
            let mut budget = Budget::new(kernel.name, design.name);
            for case in (kernel.cases)() {
                let fits = design.fits(case.parameters.as_any(), &gpu.profile).is_ok();
                if fits && selected(kernel, &design, &case) {
                    let measured = measure(gpu, &mut pipelines, kernel, design, None, &case).await;
                    budget.add(&case, measured);
                }
            }
            if budget.cases > 0 {
                writeln!(out, "{budget}")?;
                rows.push(budget);
            }
        }
    }
    if rows.is_empty() {
        bail!("nothing was measured: what was asked for is not supported, or not chosen, on this adapter");
    }
    let broken = rows.iter().filter(|row| !row.kept()).count();
    writeln!(out, "{} designs, {} within their error budget, {broken} not", rows.len(), rows.len() - broken)?;
    match report.form {
        Form::Markdown => write_markdown(&mut report.file, gpu, &rows)?,
        Form::Json => write_json(&mut report.file, gpu, &rows)?,
    }
    Ok(if broken == 0 { Outcome::Fine } else { Outcome::CheckFailed })
}

/// The arguments this program was called with, without the directory it lies in.
fn command() -> String {
    let arguments = std::env::args().skip(1).map(|argument| match argument.contains(' ') {
        true => format!("'{argument}'"),
        false => argument,
    });
    std::iter::once("headlight".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Errors to three digits; 0 stays short.
fn scientific(value: f64) -> String {
    if value == 0.0 { "0".into() } else { format!("{value:.2e}") }
}

fn ratio(row: &Budget) -> String {
    match row.ratio() {
        None => "-".into(),
        Some(ratio) if ratio > 0.0 && ratio < 0.01 => "< 0.01".into(),
        Some(ratio) => format!("{ratio:.2}"),
    }
}

fn write_markdown(file: &mut File, gpu: &Gpu, rows: &[Budget]) -> std::io::Result<()> {
    let profile = &gpu.profile;
    writeln!(file, "# Error budget\n")?;
    writeln!(file, "| | |\n|---|---|")?;
    writeln!(file, "| adapter | {} |", profile.name)?;
    writeln!(file, "| backend, driver | {}, {} |", profile.backend, profile.driver)?;
    writeln!(file, "| version | headlight {} |", env!("CARGO_PKG_VERSION"))?;
    writeln!(file, "| command | `{}` |\n", command())?;
    writeln!(file, "{}\n", MEASURE.replace("FACTOR", &FACTOR.to_string()))?;
    let kept = rows.iter().filter(|row| row.kept()).count();
    writeln!(file, "{kept} of {} designs keep their budget on every case.\n", rows.len())?;
    writeln!(file, "| kernel | design | cases | error | plain error | ratio | floor | budget used | by the case |")?;
    writeln!(file, "|---|---|--:|--:|--:|--:|--:|--:|---|")?;
    for row in rows {
        let (case, share) = match &row.worst {
            Some(worst) if worst.measurement.error > 0.0 => (worst.case.as_str(), format!("{:.2}", row.share())),
            _ => ("", "0".into()),
        };
        let kept = if row.kept() { "" } else { " **broken**" };
        writeln!(
            file,
            "| {} | {} | {} | {} | {} | {} | {} | {share}{kept} | {case} |",
            row.kernel,
            row.design,
            row.cases,
            scientific(row.error),
            scientific(row.plain),
            ratio(row),
            scientific(floor(row.kernel).relative()),
        )?;
    }
    let cancelled: Vec<String> = rows
        .iter()
        .filter(|row| row.cancelled > 0)
        .map(|row| format!("{} of {}/{}", row.cancelled, row.kernel, row.design))
        .collect();
    if !cancelled.is_empty() {
        writeln!(file, "\nCases that cancel to nearly nothing: {}.", cancelled.join(", "))?;
    }
    let faults = rows.iter().flat_map(|row| row.faults.iter().map(move |fault| (row, fault)));
    for (index, (row, fault)) in faults.enumerate() {
        if index == 0 {
            writeln!(file, "\nWhat could not be measured:\n")?;
        }
        writeln!(file, "* {}/{} {fault}", row.kernel, row.design)?;
    }
    writeln!(file, "\n## Floors\n")?;
    writeln!(file, "| floor | kernels | reason |\n|--:|---|---|")?;
    let mut reasons: Vec<(f64, &str, Vec<&str>)> = Vec::new();
    for kernel in rows.iter().map(|row| row.kernel) {
        let floor = floor(kernel);
        match reasons.iter_mut().find(|(_, reason, _)| *reason == floor.reason) {
            Some((_, _, kernels)) if kernels.contains(&kernel) => {}
            Some((_, _, kernels)) => kernels.push(kernel),
            None => reasons.push((floor.relative(), floor.reason, vec![kernel])),
        }
    }
    for (relative, reason, kernels) in reasons {
        writeln!(file, "| {} | {} | {reason} |", scientific(relative), kernels.join(", "))?;
    }
    Ok(())
}

const MEASURE: &str = "\
The *exact* result is the twin's in f64 on the case's f32 inputs, the *plain* one the twin's stored and computed in \
f32, sums in their natural order. An error is the largest distance from the exact result over the elements of a \
written operand, divided by the largest exact magnitude in that operand. A design keeps its budget if in every case \
and operand\n\n\
`error <= FACTOR x plain error + floor`\n\n\
*error* and *plain error* are the largest of all cases and *ratio* is their quotient; *budget used* is the largest \
error / (FACTOR x plain error + floor) of one operand of one case, and that case's name follows. Where a case's \
tolerance is exact (copies, comparisons) its floor is 0; whole numbers must be equal. A case whose exact result cancels \
to nearly nothing (plain error above 1 %) is judged, but left out of *error* and *plain error*.";

fn write_json(file: &mut File, gpu: &Gpu, rows: &[Budget]) -> std::io::Result<()> {
    let profile = &gpu.profile;
    let described = |row: &Budget| {
        let worst = row.worst.as_ref().map(|worst| {
            let measured = &worst.measurement;
            json!({
                "case": worst.case, "operand": measured.operand, "index": measured.index, "found": measured.found,
                "exact": measured.exact, "error": measured.error, "plain_error": measured.plain,
                "allowed": measured.allowed,
            })
        });
        json!({
            "kernel": row.kernel, "design": row.design, "cases": row.cases, "cancelled": row.cancelled,
            "error": row.error, "plain_error": row.plain, "ratio": row.ratio(), "floor": floor(row.kernel).relative(),
            "budget_used": row.share(), "kept": row.kept(), "worst": worst, "faults": row.faults,
        })
    };
    let report = json!({
        "adapter": profile.name, "backend": profile.backend, "driver": profile.driver,
        "version": env!("CARGO_PKG_VERSION"), "command": command(), "factor": FACTOR,
        "designs": rows.iter().map(described).collect::<Vec<_>>(),
    });
    writeln!(file, "{report:#}")
}
