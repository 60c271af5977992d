//! `headlight check`: a learner's attention against the closed form, or against another.

use std::path::Path;

use anyhow::anyhow;
use serde_json::json;

use super::Outcome;
use super::check_report::{Column, print};
use super::device::{DeviceArgument, describe, open};
use super::output::{printable_lines, say};
use crate::check::attention::{Request, check};
use crate::script::{BUGS, GALLERY, REFERENCE, Script, TraceHere, Tracer, builtin};
use crate::tape::RunOn;

#[derive(clap::Args)]
pub struct Arguments {
    /// A Starlark file with attention(x, q, k, v, ops, cfg), or one that comes with the program as builtin:NAME
    #[arg(value_name = "FILE.star|builtin:NAME")]
    file: String,
    /// Compare with this function in the place of the closed form
    #[arg(long, value_name = "OTHER.star|builtin:NAME")]
    against: Option<String>,
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

/// What traces scripts.
fn tracer() -> impl Tracer {
    TraceHere
}

/// Reads a script, or takes one that comes with the program.
fn script(name: &str) -> anyhow::Result<Script> {
    let Some(builtin_name) = name.strip_prefix("builtin:") else { return Ok(Script::read(Path::new(name))?) };
    builtin(builtin_name).map(|file| file.script()).ok_or_else(|| {
        let names = [REFERENCE].into_iter().chain(GALLERY).map(|file| file.name.to_string());
        let names: Vec<String> = names.chain(BUGS.iter().map(|file| format!("bugs/{}", file.name))).collect();
        anyhow!("there is no built-in attention {builtin_name:?}: there are {}", names.join(", "))
    })
}

pub async fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let theirs = script(&arguments.file)?;
    let other = arguments.against.as_deref().map(script).transpose()?;
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
    let report = check(&request, &tracer(), &on).await?;
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
