//! `headlight bench attention`

use anyhow::bail;

use super::bench::{CommonArguments, PlaceArguments};
use super::bench_session::Session;
use super::contexts::Contexts;
use super::{Outcome, sandbox};
use crate::bench::order::shuffled;
use crate::bench::{AttentionJob, AttentionJobError, AttentionSizes, AttentionSubject, Pass, Row, time_together};
use crate::gpu::GpuError;
use crate::graph::RewriteReport;
use crate::tape::ExecutionError;
use crate::train::attention_choice::{AttentionChoice, AttentionKind};

#[derive(clap::Args)]
pub struct Arguments {
    /// Context lengths: a list, or doubled from one to another as 64..8192; they are taken in random order
    #[arg(long, default_value = "64..1024", value_name = "T,T,..|A..B")]
    contexts: Contexts,
    /// Width of a head
    #[arg(long, default_value_t = 64, value_name = "D")]
    head_dim: usize,
    /// Attention heads
    #[arg(long, default_value_t = 4, value_name = "H")]
    heads: usize,
    /// Sequences at once
    #[arg(long, default_value_t = 1, value_name = "B")]
    batch: usize,
    /// What is timed: the output, the gradients, or one after the other; all three where none is given
    #[arg(long, value_enum, value_delimiter = ',')]
    pass: Vec<Pass>,
    /// Which attentions stand beside each other; the first is what the others are compared with
    #[arg(long, default_value = "both", num_args = 1.., value_name = "naive|fused|both|FILE.star|builtin:NAME")]
    attention: Vec<String>,
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    common: CommonArguments,
}

/// The kind of [`shuffled`] that contexts are.
const CONTEXTS: u64 = 1;

/// The attentions that words name, each once.
fn subjects(words: &[String]) -> anyhow::Result<Vec<AttentionSubject>> {
    let mut choices: Vec<AttentionChoice> = Vec::new();
    for word in words {
        let named = match word.as_str() {
            "both" => vec![AttentionKind::Naive.into(), AttentionKind::Fused.into()],
            word => vec![word.parse()?],
        };
        for choice in named {
            if !choices.contains(&choice) {
                choices.push(choice);
            }
        }
    }
    choices.iter().map(|choice| Ok(AttentionSubject::of(choice)?)).collect()
}

/// Whether a failure ends the bench and not a row alone: the next row would meet it too.
fn is_final(error: &AttentionJobError) -> bool {
    matches!(error, AttentionJobError::Execution(ExecutionError::Gpu(GpuError::Lost { .. })))
}

/// Why a function runs as it was written, where it was to be fused.
fn note(subject: &AttentionSubject, reports: &[RewriteReport]) -> Option<String> {
    let fused = AttentionKind::Fused.into();
    let reason = reports.iter().find_map(|report| report.outcome.as_ref().err());
    match reason {
        Some(reason) if subject.rewrites == fused => Some(format!("not fused: {reason}")),
        None if subject.rewrites == fused && reports.is_empty() => Some("not fused: there is no softmax".into()),
        _ => None,
    }
}

pub async fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let Arguments { contexts: Contexts(contexts), head_dim, heads, batch, common, place, .. } = &arguments;
    for (flag, size) in [("--head-dim", head_dim), ("--heads", heads), ("--batch", batch)] {
        if *size == 0 {
            bail!("{flag} is 0: it must be at least 1");
        }
    }
    let passes = if arguments.pass.is_empty() { &Pass::ALL[..] } else { &arguments.pass };
    let backward = passes.iter().any(|pass| *pass != Pass::Forward);
    let subjects = subjects(&arguments.attention)?;
    let tracer = sandbox::tracer();
    let sizes = |context_length| AttentionSizes { batch: *batch, heads: *heads, context_length, head_dim: *head_dim };
    for subject in &subjects {
        subject.check(contexts.iter().map(|&context_length| sizes(context_length)), &*tracer)?;
    }

    let mut session = Session::open(common, "attention", place.of_run()).await?;
    let stop = session.stop();
    // One context at a time holds its memory.
    for (done, index) in shuffled(contexts.len(), place.seed, 0, CONTEXTS).into_iter().enumerate() {
        if stop() {
            break;
        }
        let sizes = sizes(contexts[index]);
        session.progress(&format!("{sizes} ({} of {})", done + 1, contexts.len()));
        let mut jobs = Vec::new();
        for subject in &subjects {
            let job = AttentionJob::new(session.gpu.as_ref(), subject, sizes, backward, place.seed, &*tracer).await;
            jobs.push(match job {
                Err(error) if is_final(&error) => return Err(error.into()),
                job => job,
            });
        }
        let shape = sizes.to_string();
        let mut work = Vec::new();
        let mut rows = Vec::new();
        for (subject, job) in subjects.iter().zip(&jobs) {
            for pass in passes {
                match job {
                    Ok(job) => {
                        work.push(job.pass(*pass));
                        rows.push((subject, *pass, Ok(note(subject, &job.plan.rewrites))));
                    }
                    Err(error) => rows.push((subject, *pass, Err(error.to_string()))),
                }
            }
        }
        let timings = time_together(&mut work, &session.limits, place.seed, &stop).await;
        let mut measured = work.iter().zip(timings);
        let mut finished = Vec::new();
        for (number, (subject, pass, outcome)) in rows.into_iter().enumerate() {
            match outcome {
                Err(reason) => finished.push(Row::without_time(&shape, &subject.name, pass.word(), reason)),
                Ok(note) => {
                    let Some((work, timing)) = measured.next() else { continue };
                    let (launches, ceilings) = (work.launches().count(), &session.report.ceilings);
                    let key = (&*shape, &*subject.name, pass.word());
                    let row = Row::new(key, launches, work.cost(), timing, ceilings);
                    // Once for all passes.
                    finished.push(Row { note: note.filter(|_| number % passes.len() + 1 == passes.len()), ..row });
                }
            }
        }
        session.add(finished)?;
    }
    let shapes: Vec<String> = contexts.iter().map(|&context| sizes(context).to_string()).collect();
    session.finish(|row| shapes.iter().position(|shape| *shape == row.shape))
}
