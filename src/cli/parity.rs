//! `headlight parity`: the proof that this adapter computes what the CPU reference does.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde_json::json;

use super::device::{DeviceArgument, open};
use super::output::say;
use super::parity_golden::{self, Request};
use super::parity_report::{self, Report};
use super::{Outcome, parity_mutants, parity_step};
use crate::check::parity::{Outcome as CaseOutcome, run_case};
use crate::gpu::{Choice, Pipelines};
use crate::kernel::KERNELS;
use crate::tape::{Case, DesignInfo, Kernel};

#[derive(clap::Args)]
pub struct Arguments {
    /// Only kernels, designs and cases (with --golden: files) whose name contains this text
    filter: Option<String>,
    /// All designs that run here, or only the one a plan would choose
    #[arg(long, value_enum, default_value_t = Designs::All)]
    designs: Designs,
    /// Compare with the reference files in this directory instead, on the adapter and the CPU executor
    #[arg(long, value_name = "DIR", conflicts_with_all = ["designs", "mutants"])]
    golden: Option<PathBuf>,
    /// Let reference files pass whose op is not built
    #[arg(long, requires = "golden")]
    allow_missing_ops: bool,
    /// Write every result to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Plant each known fault in its shader instead: some case must notice it
    #[arg(long, conflicts_with_all = ["designs", "json"])]
    mutants: bool,
    /// Write each design's error against f64, beside that of the plain formula in f32, to this .md or .json file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["golden", "json", "mutants"])]
    report: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgument,
    #[command(flatten)]
    whole: parity_step::StepArguments,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Designs {
    All,
    Chosen,
}

impl Arguments {
    fn matches(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()))
    }

    /// Whether there is any kernel, design and case that the filter lets through.
    fn match_anything(&self) -> bool {
        KERNELS.iter().any(|kernel| {
            let cases = (kernel.cases)();
            let of = |design: &DesignInfo| cases.iter().any(|case| self.matches(&trial_name(kernel, design, case)));
            (kernel.designs)().iter().any(of)
        })
    }
}

fn trial_name(kernel: &Kernel, design: &DesignInfo, case: &Case) -> String {
    format!("{}/{}[{}]", kernel.name, design.name, case.name)
}

/// Opens the file of a report before the work begins.
pub(super) fn report_file(path: Option<&PathBuf>) -> anyhow::Result<Option<File>> {
    let create = |path: &PathBuf| {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()));
        file.map_err(|error| anyhow::anyhow!("{error:#}"))
    };
    path.map(create).transpose()
}

pub async fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    if arguments.mutants {
        return parity_mutants::run(arguments.filter.as_deref(), &arguments.device).await;
    }
    if arguments.whole.chosen() {
        return parity_step::run(arguments.whole, arguments.json, arguments.device).await;
    }
    if arguments.golden.is_none() && !arguments.match_anything() {
        bail!("no kernel, design or case has '{}' in its name", arguments.filter.unwrap_or_default());
    }
    let mut file = report_file(arguments.json.as_ref())?;
    let report = arguments.report.as_deref().map(Report::create).transpose()?;
    let (gpu, line) = open(&arguments.device.device).await?;
    if let Some(directory) = &arguments.golden {
        if gpu.is_none() && arguments.device.device != Choice::Cpu {
            bail!("there is no adapter to check ({line}); --device cpu checks the CPU executor alone");
        }
        say(line);
        let filter = arguments.filter.as_deref();
        let allow_missing_ops = arguments.allow_missing_ops;
        return parity_golden::run(Request { directory, filter, allow_missing_ops, json: file }, gpu).await;
    }
    let Some(gpu) = gpu else {
        bail!("parity compares an adapter with the CPU reference, and there is no adapter to compare ({line})");
    };
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    if let Some(report) = report {
        let selected = |kernel: &Kernel, design: &DesignInfo, case: &Case| {
            let chosen = || kernel.choose(case.parameters.as_any(), &gpu.profile);
            arguments.matches(&trial_name(kernel, design, case))
                && (arguments.designs == Designs::All || chosen().is_some_and(|chosen| chosen.name == design.name))
        };
        return parity_report::run(report, &gpu, selected).await;
    }
    let mut pipelines = Pipelines::default();
    let (mut passed, mut failed, mut unsupported) = (0, 0, 0);
    let mut rows = Vec::new();
    for kernel in KERNELS {
        for design in (kernel.designs)() {
            for case in (kernel.cases)() {
                let name = trial_name(kernel, &design, &case);
                if !arguments.matches(&name) {
                    continue;
                }
                let parameters = case.parameters.as_any();
                if let Err(reason) = design.fits(parameters, &gpu.profile) {
                    unsupported += 1;
                    rows.push(json!({ "name": name, "result": "unsupported", "reason": reason }));
                    continue;
                }
                let chosen = kernel.choose(parameters, &gpu.profile).is_some_and(|chosen| chosen.name == design.name);
                if arguments.designs == Designs::Chosen && !chosen {
                    continue;
                }
                let outcome = match run_case(&gpu, &mut pipelines, kernel, design, &case).await {
                    Ok(outcome) => outcome,
                    Err(error) => CaseOutcome::BadReference { reason: error.to_string() },
                };
                let word = if outcome.passed() { "ok" } else { "FAILED" };
                writeln!(out, "{word:<6} {name}: {outcome}")?;
                *(if outcome.passed() { &mut passed } else { &mut failed }) += 1;
                let worst = outcome.worst().map(|worst| {
                    json!({
                        "operand": worst.operand, "index": worst.index, "found": worst.found,
                        "expected": worst.expected, "error": (worst.found - worst.expected).abs(),
                        "share_of_tolerance": worst.share,
                    })
                });
                rows.push(json!({
                    "name": name, "kernel": kernel.name, "design": design.name, "case": case.name, "chosen": chosen,
                    "result": if outcome.passed() { "passed" } else { "failed" },
                    "detail": outcome.to_string(), "worst": worst,
                }));
            }
        }
    }
    writeln!(out, "{passed} passed, {failed} failed, {unsupported} not supported by their design on this adapter")?;
    if let Some(file) = &mut file {
        let report = json!({
            "adapter": gpu.profile.name, "backend": gpu.profile.backend, "driver": gpu.profile.driver,
            "passed": passed, "failed": failed, "unsupported": unsupported, "results": rows,
        });
        writeln!(file, "{report:#}")?;
    }
    if passed + failed == 0 {
        bail!("nothing was compared: what was asked for is not supported, or not chosen, on this adapter");
    }
    Ok(if failed == 0 { Outcome::Fine } else { Outcome::CheckFailed })
}
