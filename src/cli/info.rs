//! `headlight info`: what there is to run on.

use std::fmt::Write as _;
use std::io::Write as _;

use super::Outcome;
use super::device::describe;
use crate::gpu::{Choice, Selection, describe_adapters, select};

#[derive(clap::Args)]
pub struct Arguments {}

pub async fn run(_: Arguments) -> anyhow::Result<Outcome> {
    let mut text = String::new();
    let adapters = describe_adapters().await;
    if adapters.is_empty() {
        writeln!(text, "no adapters")?;
    }
    for (number, adapter) in adapters.iter().enumerate() {
        let profile = &adapter.profile;
        let limits = &profile.limits;
        writeln!(text, "adapter {number}: {}", profile.name)?;
        writeln!(text, "  backend             {}", profile.backend)?;
        writeln!(text, "  type                {}", adapter.device_type)?;
        writeln!(text, "  driver              {}", profile.driver)?;
        let subgroups = match profile.subgroups {
            Some(sizes) if sizes.minimum == sizes.maximum => format!("{} wide", sizes.minimum),
            Some(sizes) => format!("{} to {} wide", sizes.minimum, sizes.maximum),
            None => "no".into(),
        };
        writeln!(text, "  subgroups           {subgroups}")?;
        writeln!(text, "  timestamps          {}", if profile.timestamps { "yes" } else { "no" })?;
        writeln!(text, "  largest binding     {} bytes", limits.binding_bytes)?;
        writeln!(text, "  largest buffer      {} bytes", limits.buffer_bytes)?;
        writeln!(text, "  workgroup memory    {} bytes", limits.workgroup_bytes)?;
        writeln!(text, "  workgroup           {} invocations", limits.invocations)?;
        writeln!(text, "  dispatch            {} workgroups a dimension", limits.workgroups)?;
        if let Some(reason) = &adapter.unusable {
            writeln!(text, "  cannot be used      {reason}")?;
        }
        writeln!(text)?;
    }
    match select(&Choice::Auto).await? {
        Selection::Adapter { profile, .. } => {
            let why = match (profile.kind, adapters.len()) {
                (crate::gpu::AdapterKind::Software, _) => "no hardware GPU was found",
                (_, 1) => "it is the only adapter",
                _ => "it is the first hardware GPU, discrete before integrated",
            };
            writeln!(text, "--device auto takes {}: {why}", describe(&profile))?;
        }
        Selection::CpuExecutor { reason } => writeln!(text, "--device auto takes the CPU executor: {reason}")?,
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Outcome::Fine)
}
