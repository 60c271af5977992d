//! A training run as one tape: micro-step, update, evaluation and sampling over the same weights.

use std::collections::HashMap;

use crate::gpu::Profile;
use crate::graph::ops::constant;
use crate::graph::{Reuse, RewriteReport, Rewrites, TapeBuilder, Value, differentiate_from, print_graph, rewrite};
use crate::kernel::{accumulate, adamw, gradient_norm, sum_of_squares};
use crate::model::config::GptConfig;
use crate::model::forward::{ForwardBuffers, ModelError, forward_segment, parameter_buffers};
use crate::model::gpt::build;
use crate::tape::{BufferId, Category, ElementKind, Tape};

/// The numbers of AdamW and clipping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Optimizer {
    pub beta1: f64,
    pub beta2: f64,
    pub epsilon: f64,
    pub weight_decay: f64,
    /// Largest norm of all gradients together; 0 for none.
    pub clip: f64,
}

/// What a training tape is made for.
#[derive(Clone, Debug)]
pub struct ProgramSpec {
    pub config: GptConfig,
    pub batch: usize,
    pub context_length: usize,
    /// Micro-batches an optimizer step.
    pub accumulation: usize,
    pub rewrites: Rewrites,
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
    /// One row of the context's length, for samples.
    pub sample: ForwardBuffers,
}

/// The segments of a training tape, in order.
pub mod segment {
    /// Forward and backward pass of one micro-batch; adds to gradients and loss.
    pub const MICRO_STEP: usize = 0;
    /// Norm, non-finite test, clipping and AdamW.
    pub const UPDATE: usize = 1;
    /// Mean loss of one batch.
    pub const EVALUATE: usize = 2;
    /// Logits of one row of tokens.
    pub const SAMPLE: usize = 3;
}

/// The scalars of a step, written once before each micro-step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepScalars {
    pub first_micro_batch: bool,
    pub learning_rate: f64,
    /// Steps done before this one.
    pub step: u64,
}

impl StepScalars {
    /// The buffer's contents as [`adamw::scalars`] lays them out; the bias corrections are `1 - beta^t` (Kingma and Ba
    /// 2015, algorithm 1), `t` counted from 1.
    pub fn values(&self, optimizer: &Optimizer) -> [f32; adamw::scalars::LENGTH] {
        use adamw::scalars::{BIAS_CORRECTION1, BIAS_CORRECTION2, FIRST_MICRO_BATCH, GRADIENT_FACTOR, LEARNING_RATE};
        let t = (self.step + 1) as f64;
        // exp_m1 keeps the digits that 1 - beta^t loses while beta^t is close to 1.
        let correction = |beta: f64| -f64::exp_m1(t * beta.ln()) as f32;
        let mut values = [0.0; adamw::scalars::LENGTH];
        values[FIRST_MICRO_BATCH] = f32::from(u8::from(self.first_micro_batch));
        values[LEARNING_RATE] = self.learning_rate as f32;
        values[BIAS_CORRECTION1] = correction(optimizer.beta1);
        values[BIAS_CORRECTION2] = correction(optimizer.beta2);
        values[GRADIENT_FACTOR] = 1.0;
        values
    }
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

/// Plans a training run for an adapter; `None` for the CPU executor.
///
/// # Errors
/// A model that does not fit its own context, or a launch that the adapter cannot run.
pub fn build_program(spec: &ProgramSpec, profile: Option<&Profile>, reuse: Reuse) -> Result<Program, ModelError> {
    let mut tape = TapeBuilder::new(profile.cloned(), reuse);
    let ProgramSpec { config, batch, context_length, .. } = spec;
    let positions = (batch * context_length) as u64;
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
    let tokens = tape.persistent("tokens", positions, ElementKind::Words, Category::Input);
    let targets = tape.persistent("targets", positions, ElementKind::Words, Category::Input);

    // Micro-step.
    let mut gpt = build(config, *batch, *context_length)?;
    let rewrites = rewrite(&mut gpt.graph, spec.rewrites, &[]);
    let seed = constant(&mut gpt.graph, &[1], 1.0 / spec.accumulation as f64)?;
    let wanted = differentiate_from(&mut gpt.graph, &[(gpt.losses.mean, seed)], &gpt.parameters)?;
    let leaves: HashMap<Value, BufferId> = gpt
        .parameters
        .iter()
        .copied()
        .zip(parameters.iter().copied())
        .chain([(gpt.tokens, tokens), (gpt.targets, targets)])
        .collect();
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
    let graph_text = print_graph(&gpt.graph, &roots.iter().map(|&(value, _)| value).collect::<Vec<_>>());

    // Update.
    tape.begin_segment("update");
    let sizes: Vec<u32> = described.iter().map(|parameter| parameter.len() as u32).collect();
    let counts: Vec<u32> = sizes.iter().map(|&size| sum_of_squares::partials_for(u64::from(size))).collect();
    let total: u32 = counts.iter().sum();
    let partials = tape.transient("norm_partials", u64::from(total), ElementKind::Real, Category::Workspace);
    let mut offset = 0;
    for (((&gradient, &count), &partial_count), parameter) in gradients.iter().zip(&sizes).zip(&counts).zip(&described)
    {
        let parameters = sum_of_squares::Parameters { count, partials_offset: offset, partials: partial_count };
        tape.launch(&sum_of_squares::KERNEL, parameters, &[gradient, partials], format!("{}.norm", parameter.name));
        offset += partial_count;
    }
    let norm = gradient_norm::Parameters { partials: total, clip: spec.optimizer.clip };
    tape.launch(&gradient_norm::KERNEL, norm, &[partials, loss, control, flags], "gradient norm");
    for (index, parameter) in described.iter().enumerate() {
        let optimizer = &spec.optimizer;
        let weight_decay = if parameter.decays() { optimizer.weight_decay } else { 0.0 };
        let settings =
            adamw::Parameters::new(sizes[index], optimizer.beta1, optimizer.beta2, optimizer.epsilon, weight_decay);
        let operands =
            [parameters[index], gradients[index], first_moments[index], second_moments[index], scalars, control, flags];
        tape.launch(&adamw::KERNEL, settings, &operands, format!("{}.adamw", parameter.name));
    }

    // Evaluation.
    let mut gpt = build(config, *batch, *context_length)?;
    rewrite(&mut gpt.graph, spec.rewrites, &[]);
    let leaves: HashMap<Value, BufferId> = gpt
        .parameters
        .iter()
        .copied()
        .zip(parameters.iter().copied())
        .chain([(gpt.tokens, tokens), (gpt.targets, targets)])
        .collect();
    tape.begin_segment("evaluate");
    tape.lower(&gpt.graph, &leaves, &[(gpt.losses.summary, Some(summary))])?;

    let (sample, _) = forward_segment(&mut tape, config, &parameters, (1, *context_length), spec.rewrites, "sample")?;
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
    };
    Ok(Program { tape: tape.finish()?, buffers, rewrites, graph_text })
}
