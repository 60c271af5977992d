//! `headlight parity --mutants`: the proof that the parity cases would notice a fault.

use std::io::Write;

use anyhow::bail;

use super::Outcome;
use super::device::{DeviceArgument, open};
use crate::check::mutants::{Planted, References, Table, Tally};
use crate::kernel::KERNELS;

/// Tries every mutant whose name the filter lets through, and prints the table as it grows.
pub async fn run(filter: Option<&str>, device: &DeviceArgument) -> anyhow::Result<Outcome> {
    let chosen = |planted: &Planted| filter.is_none_or(|filter| planted.name().contains(filter));
    let mutants: Vec<Planted> = Planted::all(KERNELS).into_iter().filter(chosen).collect();
    if mutants.is_empty() {
        bail!("no mutant has '{}' in its name; a name is such as {}", filter.unwrap_or_default(), example());
    }
    let (gpu, line) = open(&device.device).await?;
    let Some(gpu) = gpu else {
        bail!("mutants are run on an adapter, and there is none ({line})");
    };
    let table = Table::of(&mutants);
    let mut out = std::io::stdout();
    writeln!(out, "{line}\n{}", table.heading())?;
    let mut tally = Tally::default();
    let mut failed = false;
    for of_kernel in mutants.chunk_by(|a, b| a.kernel.name == b.kernel.name) {
        let references = References::of(of_kernel[0].kernel);
        for planted in of_kernel {
            let verdict = planted.judge(&gpu, &references).await;
            writeln!(out, "{}", table.row(planted, &verdict))?;
            tally.add(&verdict);
            failed |= verdict.failed();
        }
    }
    writeln!(out, "{tally}")?;
    if tally.noticed + tally.survived == 0 {
        bail!("nothing was tried: what was asked for cannot show, or is not run, on this adapter");
    }
    Ok(if failed { Outcome::CheckFailed } else { Outcome::Fine })
}

fn example() -> String {
    Planted::all(KERNELS).first().map(|planted| format!("'{}'", planted.name())).unwrap_or_default()
}
