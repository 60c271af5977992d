//! `headlight compare`: naive and fused attention side by side, context length by context length.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{anyhow, bail};
use clap::ValueEnum;

use super::compare_files::Files;
use super::contexts::Contexts;
use super::device::{DeviceArgument, describe, open};
use super::output::{printable_lines, put, warn};
use super::{Outcome, compare_table, interrupt, sandbox};
use crate::bench::AttentionSubject;
use crate::bench::compare::{Comparison, Form, Forms, Row, Side, disagreement, not_fused};
use crate::bench::units;
use crate::script::{TraceHere, Tracer};
use crate::train::attention_choice::{AttentionChoice, AttentionKind};

#[derive(clap::Args)]
pub struct Arguments {
    /// Context lengths: a list, or doubled from one to another
    #[arg(long, default_value = "64..8192", value_name = "T,T,..|A..B")]
    contexts: Contexts,
    /// Sequences that are attended over side by side
    #[arg(long, default_value_t = 1, value_name = "B")]
    batch: usize,
    /// Attention heads
    #[arg(long, default_value_t = 4, value_name = "H")]
    heads: usize,
    /// Width of a head
    #[arg(long, default_value_t = 32, value_name = "D")]
    head_dim: usize,
    /// What runs: the forward pass alone, or forward and backward as in training
    #[arg(long, value_enum, default_value_t = Passes::Both)]
    pass: Passes,
    /// Compare both forms of this function in the place of the reference; it must be one that can be fused
    #[arg(long, value_name = "FILE.star|builtin:NAME")]
    attention: Option<AttentionChoice>,
    /// Write the rows as compare.json and compare.csv, and compare_memory.svg and compare_time.svg, into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seconds for the runs of one form at one length; three runs are made even where they take longer
    #[arg(long, default_value_t = 3.0, value_name = "SECONDS")]
    seconds: f64,
    /// The seed of the random inputs
    #[arg(long, default_value_t = 1337, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    device: DeviceArgument,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Passes {
    Forward,
    Both,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let [naive, fused] = subjects(arguments.attention.as_ref())?;
    if !(arguments.seconds.is_finite() && arguments.seconds > 0.0) {
        bail!("--seconds {}: it must be a number above 0", arguments.seconds);
    }
    let mut contexts: Vec<u64> = arguments.contexts.0.iter().map(|&context| context as u64).collect();
    contexts.sort_unstable();
    let (gpu, line) = open(&arguments.device.device).await?;
    let sandbox = sandbox::tracer();
    let tracer: &dyn Tracer = if arguments.attention.is_some() { &*sandbox } else { &TraceHere };
    let mut comparison = Comparison {
        device: gpu.as_ref().map_or_else(|| "CPU executor".into(), |gpu| describe(&gpu.profile)),
        attention: arguments.attention.as_ref().map(ToString::to_string),
        batch: arguments.batch as u64,
        heads: arguments.heads as u64,
        head_dim: arguments.head_dim as u64,
        pass: match arguments.pass {
            Passes::Forward => "forward".into(),
            Passes::Both => "forward and backward".into(),
        },
        seed: arguments.seed,
        rows: Vec::new(),
        longest_naive: None,
        longest_fused: None,
    };
    let forms = Forms {
        naive,
        fused,
        batch: arguments.batch,
        heads: arguments.heads,
        head_dim: arguments.head_dim,
        backward: arguments.pass == Passes::Both,
        seed: arguments.seed,
        seconds: arguments.seconds,
        gpu,
        tracer,
    };
    is_fused(&forms, contexts.first().copied().unwrap_or(1))?;
    let files = arguments.out.as_deref().map(|directory| Files::create(directory, &comparison)).transpose()?;
    put(printable_lines(
        &format!("naive and fused attention, {}, seed {}", comparison.shape(), comparison.seed),
        LINE,
    ))?;
    put(&line)?;
    if let Some(directory) = &arguments.out {
        put(format_args!("{} into {}\n", Files::NAMES.join(", "), directory.display()))?;
    }

    let interrupted = interrupt::listen("keeping the rows that are done")?;
    let stop = || interrupted.load(Ordering::SeqCst);
    let mut failed = None;
    for (done, &context_length) in contexts.iter().enumerate() {
        if stop() {
            break;
        }
        warn(format_args!("T={context_length}, {} of {}", done + 1, contexts.len()));
        match forms.compare_at(context_length, &stop).await {
            Ok(None) => break,
            Ok(Some(row)) => {
                warn(progress(&row));
                comparison.rows.push(row);
            }
            Err(error) => {
                failed = Some(anyhow!("at T={context_length}: {error}"));
                break;
            }
        }
        files.iter().try_for_each(|files| files.write(&comparison))?;
    }
    if !stop() && failed.is_none() {
        comparison.longest_naive = Some(forms.longest(Form::Naive)?);
        comparison.longest_fused = Some(forms.longest(Form::Fused)?);
        files.iter().try_for_each(|files| files.write(&comparison))?;
    }
    put(printable_lines(&format!("\n{}", compare_table::print(&comparison)), LINE))?;
    if let Some(error) = failed {
        return Err(error);
    }
    let refused = comparison.rows.iter().filter_map(|row| row.fused.refusal().zip(row.naive.refusal()));
    if refused.count() == contexts.len() {
        bail!("nothing fits here: every context length was refused in both forms");
    }
    let rows = &comparison.rows;
    let apart: Vec<String> = rows.iter().filter_map(|row| disagreement(row.context_length, &row.differences)).collect();
    for line in &apart {
        warn(format_args!("error: {line}"));
    }
    // The table says where.
    let as_predicted =
        rows.iter().all(|row| [&row.naive, &row.fused].into_iter().all(|side| side.mismatch().is_none()));
    Ok(match (stop(), apart.is_empty() && as_predicted) {
        (true, _) => Outcome::Interrupted,
        (false, true) => Outcome::Fine,
        (false, false) => Outcome::CheckFailed,
    })
}

/// The longest line that is printed; a script's own words may be longer.
const LINE: usize = 1000;

/// The two forms of the reference, or of a file.
fn subjects(choice: Option<&AttentionChoice>) -> anyhow::Result<[AttentionSubject; 2]> {
    if let Some(choice) = choice
        && (choice.file.is_none() || choice.kind == AttentionKind::Naive)
    {
        bail!("--attention {choice}: it takes a file alone, whose naive and fused forms are compared");
    }
    let file = choice.and_then(|choice| choice.file.clone());
    let of = |kind| AttentionSubject::of(&AttentionChoice { file: file.clone(), kind });
    Ok([of(AttentionKind::Naive)?, of(AttentionKind::Fused)?])
}

/// Whether there are two forms at all.
fn is_fused(forms: &Forms<'_>, context_length: u64) -> anyhow::Result<()> {
    // Of one sequence: a batch that does not fit is refused length by length.
    let plan = Forms { batch: forms.batch.min(1), ..forms.clone() }.plan(Form::Fused, context_length)?;
    match not_fused(&plan) {
        None => Ok(()),
        Some(reason) => bail!("at T={context_length} there is no fused form to compare the naive one with: {reason}"),
    }
}

/// A row in one line, for those who wait.
fn progress(row: &Row) -> String {
    let side = |side: &Side| match (side.refusal(), side.time()) {
        (Some(_), _) => "refused".to_string(),
        (None, time) => units::seconds(time.map_or(f64::NAN, |time| time.median)),
    };
    format!("    naive {}, fused {}", side(&row.naive), side(&row.fused))
}
