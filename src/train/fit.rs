//! What would fit where a plan does not.

use super::program::{ProgramSpec, build_program};
use crate::gpu::Profile;
use crate::graph::Reuse;
use crate::model::config::GptConfig;
use crate::tape::{TapeBuffer, available_bytes};

/// Whether a run can be planned for the adapter; on the CPU executor (`None`), whether the host has the memory.
fn fits(spec: &ProgramSpec, profile: Option<&Profile>) -> bool {
    let Ok(program) = build_program(spec, profile, Reuse::Pooled) else { return false };
    let bytes: u64 = program.tape.buffers.iter().map(TapeBuffer::bytes).sum();
    profile.is_some() || available_bytes().is_none_or(|available| bytes <= available)
}

/// Advice for a run that fits the adapter's limits and still was refused memory: what it needs in all, and a setting
/// that needs less.
pub fn smaller(spec: &ProgramSpec, profile: Option<&Profile>) -> String {
    let bytes = |spec: &ProgramSpec| {
        let program = build_program(spec, profile, Reuse::Pooled).ok()?;
        Some(program.tape.buffers.iter().map(TapeBuffer::bytes).sum::<u64>())
    };
    let (batch, context_length) = (spec.batch, spec.context_length);
    let halved = ProgramSpec { batch: batch / 2, accumulation: spec.accumulation * 2, ..spec.clone() };
    let shorter = GptConfig { context_length: context_length / 2, ..spec.config.clone() };
    let (smaller, flags) = match (batch, context_length) {
        (2.., _) if batch.is_multiple_of(2) => {
            let flags = format!("--batch {} --accumulation {} learns the same and", halved.batch, halved.accumulation);
            (halved, flags)
        }
        (2.., _) => (ProgramSpec { batch: batch / 2, ..spec.clone() }, format!("--batch {}", batch / 2)),
        (_, 2..) => (
            ProgramSpec { config: shorter, context_length: context_length / 2, ..spec.clone() },
            format!("--context-length {}", context_length / 2),
        ),
        _ => return "lower --width or --layers".into(),
    };
    match (bytes(spec), bytes(&smaller)) {
        (Some(whole), Some(less)) if less < whole => {
            format!("the run needs {whole} bytes in all; {flags} needs {less}")
        }
        _ => "lower --width or --layers".into(),
    }
}

/// What to do where the model itself is too large.
pub const NO_BATCH_FITS: &str = "no --batch fits: lower --context-length, --width or --layers";

/// Advice for a run that does not fit: the largest batch that does, found by halving, or which other setting to lower.
pub fn advice(spec: &ProgramSpec, profile: Option<&Profile>) -> String {
    let with_batch = |batch: usize| ProgramSpec { batch, ..spec.clone() };
    if !fits(&with_batch(1), profile) {
        return NO_BATCH_FITS.into();
    }
    let (mut fitting, mut failing) = (1, spec.batch.max(2));
    while failing - fitting > 1 {
        let middle = fitting + (failing - fitting) / 2;
        if fits(&with_batch(middle), profile) {
            fitting = middle;
        } else {
            failing = middle;
        }
    }
    format!("the largest --batch that fits is {fitting} (--accumulation makes up for a smaller one)")
}
