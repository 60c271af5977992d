//! `headlight check`: a learner's attention against the closed form, or against another.

use std::path::PathBuf;

use anyhow::bail;
use serde_json::json;

use super::Outcome;
use super::check_report::{Column, print};
use super::device::{DeviceArgument, describe, open};
use super::output::{printable_lines, say};
use super::{check_leak, sandbox};
use crate::check::attention::{Request, check};
use crate::tape::RunOn;
use crate::train::attention_choice::read_script;

#[derive(clap::Args)]
pub struct Arguments {
    /// A Starlark file with attention(x, q, k, v, ops, cfg), or one that comes with the program as builtin:NAME
    #[arg(value_name = "FILE.star|builtin:NAME", required_unless_present_any = ["leak", "model"])]
    file: Option<String>,
    /// Compare with this function in the place of the closed form
    #[arg(long, value_name = "OTHER.star|builtin:NAME")]
    against: Option<String>,
    /// Ask of a trained model whether it sees the future, as one with a suspiciously low loss may
    #[arg(long, requires = "model", conflicts_with_all = ["file", "against", "trace", "json"])]
    leak: bool,
    /// The model directory, or run directory, that --leak probes
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// The text that --leak reads; the held-out text of a run where there is none
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Show every line of the function with its numbers, and the first that departs from the reference
    #[arg(long)]
    trace: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The seed of the random inputs
    #[arg(long, default_value_t = 1337, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    device: DeviceArgument,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    if !arguments.leak && (arguments.model.is_some() || arguments.data.is_some()) {
        bail!("--model and --data are for --leak, which looks at a trained model; a file is checked without them");
    }
    if let Some(model) = &arguments.model {
        return check_leak::run(model, arguments.data.as_ref(), arguments.seed, &arguments.device).await;
    }
    let theirs = read_script(arguments.file.as_deref().unwrap_or_default())?;
    let other = arguments.against.as_deref().map(read_script).transpose()?;
    let (gpu, line) = open(&arguments.device.device).await?;
    let column = match &gpu {
        Some(gpu) => Column { on: describe(&gpu.profile), is_adapter: true },
        None => Column { on: line, is_adapter: false },
    };
    let on = gpu.map_or(RunOn::Cpu, RunOn::Gpu);
    let request = Request {
        script: &theirs,
        against: other.as_ref(),
        seed: arguments.seed,
        trace: arguments.trace,
        planted: None,
    };
    let report = check(&request, &sandbox::tracer(), &on).await?;
    let passed = report.passed;
    match arguments.json {
        true => {
            let mut object = serde_json::to_value(&report)?;
            object["f32_on"] = json!(column.on);
            object["f32_on_adapter"] = json!(column.is_adapter);
            say(object);
        }
        false => say(printable_lines(&print(&report, &column), LINE)),
    }
    Ok(if passed { Outcome::Fine } else { Outcome::CheckFailed })
}

/// The longest line that is printed; a script's own words may be longer.
const LINE: usize = 1000;
