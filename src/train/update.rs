//! The update of an optimizer step as launches: norm over all gradients, non-finite test, clipping, AdamW.

use crate::graph::TapeBuilder;
use crate::kernel::{adamw, gradient_norm, sum_of_squares};
use crate::tape::{BufferId, Category, ElementKind};

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
    pub fn wide_values(&self, optimizer: &Optimizer) -> [f64; adamw::scalars::LENGTH] {
        use adamw::scalars::{BIAS_CORRECTION1, BIAS_CORRECTION2, FIRST_MICRO_BATCH, GRADIENT_FACTOR, LEARNING_RATE};
        let t = (self.step + 1) as f64;
        // exp_m1 keeps the digits that 1 - beta^t loses while beta^t is close to 1.
        let correction = |beta: f64| -f64::exp_m1(t * beta.ln());
        let mut values = [0.0; adamw::scalars::LENGTH];
        values[FIRST_MICRO_BATCH] = f64::from(u8::from(self.first_micro_batch));
        values[LEARNING_RATE] = self.learning_rate;
        values[BIAS_CORRECTION1] = correction(optimizer.beta1);
        values[BIAS_CORRECTION2] = correction(optimizer.beta2);
        values[GRADIENT_FACTOR] = 1.0;
        values
    }

    /// [`StepScalars::wide_values`] as a device stores them.
    pub fn values(&self, optimizer: &Optimizer) -> [f32; adamw::scalars::LENGTH] {
        self.wide_values(optimizer).map(|value| value as f32)
    }
}

/// A parameter with what its update reads and writes.
#[derive(Clone, Debug)]
pub struct UpdatedParameter {
    pub name: String,
    pub elements: u32,
    /// Whether weight decay applies: to tensors of two or more dimensions.
    pub decays: bool,
    pub parameter: BufferId,
    pub gradient: BufferId,
    pub first_moment: BufferId,
    pub second_moment: BufferId,
}

/// The buffers that all parameters of an update share.
#[derive(Clone, Copy, Debug)]
pub struct UpdateBuffers {
    /// See [`StepScalars`].
    pub scalars: BufferId,
    /// The step's loss `[1]`; one that is not finite freezes the update.
    pub loss: BufferId,
    /// See [`gradient_norm::control`].
    pub control: BufferId,
    /// See [`gradient_norm::flags`].
    pub flags: BufferId,
}

/// Appends the launches of an update to the current segment.
pub fn append_update(
    tape: &mut TapeBuilder,
    optimizer: &Optimizer,
    parameters: &[UpdatedParameter],
    buffers: UpdateBuffers,
) {
    let UpdateBuffers { scalars, loss, control, flags } = buffers;
    let counts: Vec<u32> =
        parameters.iter().map(|parameter| sum_of_squares::partials_for(u64::from(parameter.elements))).collect();
    let total: u32 = counts.iter().sum();
    let partials = tape.transient("norm_partials", u64::from(total), ElementKind::Real, Category::Workspace);
    let mut offset = 0;
    for (parameter, &partial_count) in parameters.iter().zip(&counts) {
        let sums =
            sum_of_squares::Parameters { count: parameter.elements, partials_offset: offset, partials: partial_count };
        let label = format!("{}.norm", parameter.name);
        tape.launch(&sum_of_squares::KERNEL, sums, &[parameter.gradient, partials], label);
        offset += partial_count;
    }
    let norm = gradient_norm::Parameters { partials: total, clip: optimizer.clip };
    tape.launch(&gradient_norm::KERNEL, norm, &[partials, loss, control, flags], "gradient norm");
    for updated in parameters {
        let weight_decay = if updated.decays { optimizer.weight_decay } else { 0.0 };
        let Optimizer { beta1, beta2, epsilon, .. } = *optimizer;
        let settings = adamw::Parameters::new(updated.elements, beta1, beta2, epsilon, weight_decay);
        let UpdatedParameter { parameter, gradient, first_moment, second_moment, .. } = *updated;
        let operands = [parameter, gradient, first_moment, second_moment, scalars, control, flags];
        tape.launch(&adamw::KERNEL, settings, &operands, format!("{}.adamw", updated.name));
    }
}
