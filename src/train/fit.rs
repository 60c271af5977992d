//! What would fit where a plan does not.

use super::program::{ProgramSpec, build_program};
use crate::gpu::Profile;
use crate::graph::Reuse;
use crate::tape::{TapeBuffer, available_bytes};

/// Whether a run can be planned for the adapter; on the CPU executor (`None`), whether the host has the memory.
fn fits(spec: &ProgramSpec, profile: Option<&Profile>) -> bool {
    let Ok(program) = build_program(spec, profile, Reuse::Pooled) else { return false };
    let bytes: u64 = program.tape.buffers.iter().map(TapeBuffer::bytes).sum();
    profile.is_some() || available_bytes().is_none_or(|available| bytes <= available)
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
