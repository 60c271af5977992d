//! A training run as one tape: micro-step, update, evaluation and sampling over the same weights.

use crate::gpu::Profile;
use crate::graph::ops::constant;
use crate::graph::{
    Recompute, Reuse, RewriteReport, Rewrites, TapeBuilder, Value, differentiate_from, print_graph, rewrite,
};
use crate::kernel::{accumulate, adamw, gradient_norm};
use crate::model::causality::{CausalityBuffers, causality_segment};
use crate::model::config::GptConfig;
use crate::model::forward::{ForwardBuffers, ModelError, forward_segment, parameter_buffers, parameter_leaves};
use crate::model::generate;
use crate::model::gpt::build;
use crate::tape::{BufferId, Category, ElementKind, Tape};
use crate::train::update::{UpdateBuffers, UpdatedParameter, append_update};

pub use crate::train::update::{Optimizer, StepScalars};

/// What a training tape is made for.
#[derive(Clone, Debug)]
pub struct ProgramSpec {
    pub config: GptConfig,
    pub batch: usize,
    pub context_length: usize,
    /// Micro-batches an optimizer step.
    pub accumulation: usize,
    pub rewrites: Rewrites,
    pub recompute: Recompute,
    pub optimizer: Optimizer,
}

/// The buffers that the trainer writes and reads.
#[derive(Clone, Debug)]
pub struct ProgramBuffers {
    pub parameters: Vec<BufferId>,
    pub gradients: Vec<BufferId>,
    pub first_moments: Vec<BufferId>,
    pub second_moments: Vec<BufferId>,
    /// Words `[B, T]`.
    pub tokens: BufferId,
    /// Words `[B * T]`.
    pub targets: BufferId,
    /// What changes each step; see [`StepScalars`].
    pub scalars: BufferId,
    /// The sum of the micro-batches' mean losses `[1]`.
    pub loss: BufferId,
    /// Gradient norm and clip coefficient; see [`gradient_norm`].
    pub control: BufferId,
    /// The non-finite flag and the count of updates; see [`gradient_norm`].
    pub flags: BufferId,
    /// Mean loss and number of targets of an evaluation batch `[2]`.
    pub summary: BufferId,
    /// Rows of the context's length, for samples.
    pub sample: ForwardBuffers,
    /// The loss at each position, where attention was edited.
    pub causality: Option<CausalityBuffers>,
}

/// The segments of a training tape, in order.
pub mod segment {
    /// Forward and backward pass of one micro-batch; adds to gradients and loss.
    pub const MICRO_STEP: usize = 0;
    /// Norm, non-finite test, clipping and AdamW.
    pub const UPDATE: usize = 1;
    /// Mean loss of one batch.
    pub const EVALUATE: usize = 2;
    /// Logits of rows of tokens.
    pub const SAMPLE: usize = 3;
    /// The loss at each position of a batch; only where attention was edited.
    pub const CAUSALITY: usize = 4;
}

/// A planned training run.
pub struct Program {
    pub tape: Tape,
    pub buffers: ProgramBuffers,
    /// What became of each attention.
    pub rewrites: Vec<RewriteReport>,
    /// The graph of a micro-step, forward and backward, in words.
    pub graph_text: String,
}

impl ProgramBuffers {
    /// What tells how a step went: read after each, without a wait.
    pub fn status(&self) -> Vec<BufferId> {
        vec![self.loss, self.control, self.flags]
    }

    /// What tells how an evaluation went.
    pub fn summaries(&self) -> Vec<BufferId> {
        vec![self.summary]
    }
}

/// Plans a training run for an adapter; `None` for the CPU executor.
///
/// # Errors
/// A model that does not fit its own context, or a launch that the adapter cannot run.
pub fn build_program(spec: &ProgramSpec, profile: Option<&Profile>, reuse: Reuse) -> Result<Program, ModelError> {
    let program = plan_program(spec, profile, reuse)?;
    program.tape.check(profile)?;
    Ok(program)
}

/// As [`build_program`], also where the adapter cannot run it: to know what it would need.
///
/// # Errors
/// A model that does not fit its own context, a size that nobody can count.
pub fn plan_program(spec: &ProgramSpec, profile: Option<&Profile>, reuse: Reuse) -> Result<Program, ModelError> {
    let mut tape = TapeBuilder::new(profile.cloned(), reuse);
    let ProgramSpec { config, batch, context_length, .. } = spec;
    let parameters = parameter_buffers(&mut tape, config, "", Category::Parameter);
    let gradients = parameter_buffers(&mut tape, config, ".gradient", Category::Gradient);
    let first_moments = parameter_buffers(&mut tape, config, ".first_moment", Category::OptimizerState);
    let second_moments = parameter_buffers(&mut tape, config, ".second_moment", Category::OptimizerState);
    let mut real = |name: &str, elements| tape.persistent(name, elements, ElementKind::Real, Category::Control);
    let scalars = real("step_scalars", adamw::scalars::LENGTH as u64);
    let loss = real("loss", 1);
    let control = real("control", gradient_norm::control::LENGTH as u64);
    let summary = real("evaluation_summary", 2);
    let flags = tape.persistent("flags", gradient_norm::flags::LENGTH as u64, ElementKind::Words, Category::Control);
    let positions = &[*batch, *context_length][..];
    let tokens = tape.persistent("tokens", positions, ElementKind::Words, Category::Input);
    let targets = tape.persistent("targets", positions, ElementKind::Words, Category::Input);

    // Micro-step.
    let mut gpt = build(config, *batch, *context_length)?;
    let rewrites = rewrite(&mut gpt.graph, spec.rewrites, &[]);
    let seed = constant(&mut gpt.graph, &[1], 1.0 / spec.accumulation as f64)?;
    let wanted = differentiate_from(&mut gpt.graph, &[(gpt.losses.mean, seed)], &gpt.parameters)?;
    let mut leaves = parameter_leaves(&gpt, &parameters);
    leaves.extend([(gpt.tokens, tokens), (gpt.targets, targets)]);
    // With one micro-batch gradients are computed where the update reads them; with more they are added up there.
    let direct = spec.accumulation == 1;
    let roots: Vec<(Value, Option<BufferId>)> = wanted
        .iter()
        .zip(&gradients)
        .map(|(&value, &buffer)| (value, direct.then_some(buffer)))
        .chain([(gpt.losses.mean, None)])
        .collect();
    tape.begin_segment("micro_step");
    let views = tape.lower(&gpt.graph, &leaves, &roots)?;
    let sum = |tape: &mut TapeBuilder, from: BufferId, into: BufferId, count: usize, label: String| {
        let parameters = accumulate::Parameters { count: count as u32 };
        tape.launch(&accumulate::KERNEL, parameters, &[from, scalars, into], label);
    };
    let described = config.parameters();
    if !direct {
        for ((view, &gradient), parameter) in views.iter().zip(&gradients).zip(&described) {
            let label = format!("{}.gradient (accumulate)", parameter.name);
            sum(&mut tape, view.buffer, gradient, parameter.len(), label);
        }
    }
    if let Some(mean) = views.last() {
        sum(&mut tape, mean.buffer, loss, 1, "loss (accumulate)".into());
    }
    tape.recompute(spec.recompute);
    let graph_text = print_graph(&gpt.graph, &roots.iter().map(|&(value, _)| value).collect::<Vec<_>>());

    // Update.
    tape.begin_segment("update");
    let updated: Vec<UpdatedParameter> = described
        .iter()
        .enumerate()
        .map(|(index, parameter)| UpdatedParameter {
            name: parameter.name.clone(),
            elements: parameter.len() as u32,
            decays: parameter.decays(),
            parameter: parameters[index],
            gradient: gradients[index],
            first_moment: first_moments[index],
            second_moment: second_moments[index],
        })
        .collect();
    append_update(&mut tape, &spec.optimizer, &updated, UpdateBuffers { scalars, loss, control, flags });

    // Evaluation.
    let mut gpt = build(config, *batch, *context_length)?;
    rewrite(&mut gpt.graph, spec.rewrites, &[]);
    let mut leaves = parameter_leaves(&gpt, &parameters);
    leaves.extend([(gpt.tokens, tokens), (gpt.targets, targets)]);
    tape.begin_segment("evaluate");
    tape.lower(&gpt.graph, &leaves, &[(gpt.losses.summary, Some(summary))])?;

    let shape = (generate::rows(config), *context_length);
    let (sample, _) = forward_segment(&mut tape, config, &parameters, shape, spec.rewrites, "sample")?;
    // The reference is causal by construction; what a learner wrote is not.
    let causality = match config.attention {
        Some(_) => Some(causality_segment(&mut tape, config, &parameters, (*batch, *context_length), spec.rewrites)?),
        None => None,
    };
    let buffers = ProgramBuffers {
        parameters,
        gradients,
        first_moments,
        second_moments,
        tokens,
        targets,
        scalars,
        loss,
        control,
        flags,
        summary,
        sample,
        causality,
    };
    Ok(Program { tape: tape.finish_unchecked(), buffers, rewrites, graph_text })
}
