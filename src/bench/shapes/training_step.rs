//! What a training step launches beside its large products: one launch of each kernel.

use super::Shape;
use crate::gpu::Profile;
use crate::graph::ops::{causal_mask, cumulative_sum, index, input, select, softmax};
use crate::graph::{Graph, GraphError, Reuse, Rewrites, TapeBuilder, TensorType, differentiate_from};
use crate::tape::{Category, ElementKind, Launch, Tape};
use crate::train::Preset;
use crate::train::attention_choice::AttentionKind;
use crate::train::program::{ProgramSpec, plan_program};
use crate::train::trainer::program_spec;

/// One launch of each kernel that a step of `nano` has, with naive and with fused attention, or that a written-out
/// attention of that size has: the one that moves most. Steps that cannot be planned have none.
pub fn training_step(profile: &Profile) -> Vec<Shape> {
    let settings = Preset::Nano.settings();
    let step = |kind: AttentionKind| -> Option<Tape> {
        let spec = program_spec(&settings, settings.model(65).ok()?);
        let spec = ProgramSpec { rewrites: Rewrites::from(kind), ..spec };
        plan_program(&spec, Some(profile), Reuse::Pooled).ok().map(|program| program.tape)
    };
    let scores = [settings.batch, settings.heads, settings.context_length, settings.context_length];
    let tapes = [step(AttentionKind::Fused), step(AttentionKind::Naive), written_out(profile, scores).ok()];
    let mut shapes: Vec<(u64, Shape)> = Vec::new();
    for tape in tapes.iter().flatten() {
        for launch in tape.segments.iter().flat_map(|segment| &segment.launches) {
            let bytes = launch.cost().bytes;
            let known = shapes.iter_mut().find(|(_, shape)| shape.kernel.name == launch.kernel.name);
            match known {
                Some((most, _)) if *most >= bytes => {}
                Some(entry) => *entry = (bytes, of_launch(tape, launch)),
                None => shapes.push((bytes, of_launch(tape, launch))),
            }
        }
    }
    shapes.into_iter().map(|(_, shape)| shape).collect()
}

fn of_launch(tape: &Tape, launch: &Launch) -> Shape {
    let operands = launch.operands.iter().map(|window| (window.bytes / 4, tape.buffers[window.buffer].kind)).collect();
    let parameters = launch.parameters.clone();
    Shape { kernel: launch.kernel, name: launch.label.clone(), parameters, operands }
}

/// Mask, softmax and sums over `[B, H, T, T]`, forward and backward, none of it joined: what some attention files have.
fn written_out(profile: &Profile, scores: [usize; 4]) -> Result<Tape, GraphError> {
    let mut graph = Graph::new();
    let g = &mut graph;
    g.set_scope("scores");
    let x = input(g, "x", TensorType::real(scores))?;
    let upstream = input(g, "upstream", TensorType::real(scores))?;
    let line = index(g, &scores, 3)?;
    let masked = causal_mask(g, x)?;
    let chosen = select(g, line, masked, x)?;
    let weights = softmax(g, chosen, 3)?;
    let sums = cumulative_sum(g, weights, 3)?;
    let gradients = differentiate_from(g, &[(sums, upstream)], &[x])?;
    let mut tape = TapeBuilder::new(Some(profile.clone()), Reuse::Pooled);
    let leaves = [x, upstream].map(|leaf| {
        (leaf, tape.persistent(&g.nodes[leaf.node].label, &scores[..], ElementKind::Real, Category::Input))
    });
    tape.begin_segment("scores");
    let roots: Vec<_> = gradients.into_iter().map(|gradient| (gradient, None)).collect();
    // A shape that no kernel walks is none to time.
    let _ = tape.lower(g, &leaves.into_iter().collect(), &roots);
    Ok(tape.finish_unchecked())
}
