//! AdamW, Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2), in PyTorch's form.

use super::gradient_norm::{control, flags};
use super::piece;
use crate::tape::MutantKind::{Accumulator, Formula, Index, Tile};
use crate::tape::rounding::OPERATIONS;
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<AdamW>();

/// Layout of the `scalars` buffer: what changes from step to step, written once a step by the host.
pub mod scalars {
    /// 1 in the first micro-batch of a step, whose gradients are stored; 0 in the others, whose gradients are added.
    pub const FIRST_MICRO_BATCH: usize = 0;
    /// The step's learning rate.
    pub const LEARNING_RATE: usize = 1;
    /// `1 - beta1^t`, t counted from 1.
    pub const BIAS_CORRECTION1: usize = 2;
    /// `1 - beta2^t`.
    pub const BIAS_CORRECTION2: usize = 3;
    /// What a micro-batch's loss is multiplied by. The update does not use it.
    pub const GRADIENT_FACTOR: usize = 4;
    /// Elements of the buffer.
    pub const LENGTH: usize = 5;
}

crate::kernel_parameters! {
    /// Operands: `parameter [count]` in place, `gradient [count]`, `first_moment [count]` and `second_moment [count]` in
    /// place, `scalars [5]` (see [`scalars`]), `control [4]` and `flags [4]` words (see [`super::gradient_norm`]).
    /// Nothing is changed, not even a bit, where the flags are frozen.
    pub struct Parameters {
        count: u32,
        beta1: f32,
        beta2: f32,
        /// `1 - beta1` of the exact beta1, which f32 could not give.
        one_minus_beta1: f32,
        /// `1 - beta2` of the exact beta2.
        one_minus_beta2: f32,
        /// Added to the root of the second moment.
        epsilon: f32,
        /// Share of a parameter that a step of rate 1 takes off; 0 for tensors of one dimension.
        weight_decay: f32,
    }
}

impl Parameters {
    /// Parameters with `1 - beta` taken before any rounding.
    pub fn new(count: u32, beta1: f64, beta2: f64, epsilon: f64, weight_decay: f64) -> Self {
        let (one_minus_beta1, one_minus_beta2) = (1.0 - beta1, 1.0 - beta2);
        Self { count, beta1, beta2, one_minus_beta1, one_minus_beta2, epsilon, weight_decay }
    }
}

pub struct AdamW;

impl KernelDefinition for AdamW {
    type Parameters = Parameters;
    const NAME: &'static str = "adamw";
    const WRITES: &'static [usize] = &[0, 2, 3];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[Design {
            name: "vec4",
            file: "adamw.wgsl",
            text: include_str!("../../shaders/adamw.wgsl"),
            pieces: &[&piece::LINEAR_INDEX],
            preference: Preference::Any,
            subgroup_width: None,
            supports: |_| Ok(()),
            constants: |_| Vec::new(),
            generated: |_| String::new(),
            workgroups: |parameters| [u64::from(parameters.count).div_ceil(4 * 32), 1, 1],
            mutants: &[&[
                Mutant::new(
                    Index,
                    "the gradient is read a vec4 further on",
                    "coefficient * gradient[index]",
                    "coefficient * gradient[index + 1u]",
                ),
                Mutant::new(
                    Accumulator,
                    "the first moment is overwritten",
                    "params.beta1 * m + params.one_minus_beta1 * g",
                    "params.one_minus_beta1 * g",
                ),
                Mutant::new(Accumulator, "the second moment keeps all that it was", "params.beta2 * v", "v"),
                Mutant::new(Formula, "frozen flags are not looked at", "if flags[0] != 0u {", "if flags[3] == 99u {"),
                Mutant::new(Formula, "the gradient is not clipped", "coefficient * gradient[index]", "gradient[index]"),
                Mutant::new(
                    Formula,
                    "the decay is not scaled by the rate",
                    "(rate * params.weight_decay) * p",
                    "params.weight_decay * p",
                ),
                Mutant::new(
                    Formula,
                    "the first moment is not corrected",
                    "let step_size = rate / step.z;",
                    "let step_size = rate;",
                ),
                Mutant::new(
                    Formula,
                    "the second moment is corrected after epsilon",
                    "(sqrt(new_v) * root_scale + params.epsilon)",
                    "((sqrt(new_v) + params.epsilon) * root_scale)",
                ),
                Mutant::new(
                    Formula,
                    "the update uses the moment of the step before",
                    "step_size * new_m /",
                    "step_size * m /",
                ),
                Mutant::new(
                    Tile,
                    "the parameter's tail is cleared",
                    "parameter[index] = select(p, new_p, inside);",
                    "parameter[index] = select(vec4<f32>(0.0), new_p, inside);",
                ),
                Mutant::new(
                    Tile,
                    "the second moment's tail is cleared",
                    "second_moment[index] = select(v, new_v, inside);",
                    "second_moment[index] = select(vec4<f32>(0.0), new_v, inside);",
                ),
                Mutant::new(
                    Tile,
                    "the last vec4 is dropped",
                    "if element < params.count {",
                    "if element + 4u < params.count {",
                ),
            ]],
        }];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (mut parameter, gradient) = (operands.real_mut(0), operands.real(1));
        let (mut first_moment, mut second_moment) = (operands.real_mut(2), operands.real_mut(3));
        let (scalars, control, flags) = (operands.real(4), operands.real(5), operands.words(6));
        if flags[flags::FROZEN] != 0 {
            return;
        }
        let coefficient = control[control::COEFFICIENT].wide();
        let rate = scalars[scalars::LEARNING_RATE].wide();
        let correction1 = scalars[scalars::BIAS_CORRECTION1].wide();
        let correction2 = scalars[scalars::BIAS_CORRECTION2].wide();
        let [beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon, weight_decay] = [
            parameters.beta1,
            parameters.one_minus_beta1,
            parameters.beta2,
            parameters.one_minus_beta2,
            parameters.epsilon,
            parameters.weight_decay,
        ]
        .map(S::Wide::of);
        let count = parameters.count as usize;
        let elements = parameter[..count].iter_mut().zip(&gradient[..count]);
        let moments = first_moment[..count].iter_mut().zip(&mut second_moment[..count]);
        for ((p, gradient), (first, second)) in elements.zip(moments) {
            let gradient = coefficient * gradient.wide();
            let m = beta1 * first.wide() + one_minus_beta1 * gradient;
            let v = beta2 * second.wide() + one_minus_beta2 * gradient * gradient;
            let decayed = p.wide() * (S::Wide::of(1.0) - rate * weight_decay);
            let denominator = v.sqrt() / correction2.sqrt() + epsilon;
            *p = S::narrow(decayed - rate / correction1 * m / denominator);
            *first = S::narrow(m);
            *second = S::narrow(v);
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let (parameter, gradient) = (operands.real(0), operands.real(1));
        let (first_moment, second_moment) = (operands.real(2), operands.real(3));
        let (scalars, control, flags) = (operands.real(4), operands.real(5), operands.words(6));
        if flags[flags::FROZEN] != 0 {
            return;
        }
        let coefficient = control[control::COEFFICIENT].wide();
        let step_size = scalars[scalars::LEARNING_RATE].wide() / scalars[scalars::BIAS_CORRECTION1].wide();
        let root_of_correction2 = scalars[scalars::BIAS_CORRECTION2].wide().sqrt();
        for index in 0..parameters.count as usize {
            let gradient = coefficient * gradient[index].wide();
            let m =
                (parameters.beta1 * first_moment[index].wide()).abs() + (parameters.one_minus_beta1 * gradient).abs();
            let v = parameters.beta2 * second_moment[index].wide() + parameters.one_minus_beta2 * gradient * gradient;
            // The terms of the first moment may cancel; what their rounding leaves is divided like the moment itself. There
            // are three divisions and two roots.
            let update = step_size * m / (v.sqrt() / root_of_correction2 + parameters.epsilon);
            bounds[0][index] = OPERATIONS * (parameter[index].wide().abs() + 6.0 * update);
            bounds[1][index] = OPERATIONS * m;
            bounds[2][index] = OPERATIONS * v;
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let count = u64::from(parameters.count);
        Cost { flops: 16 * count, bytes: 4 * 7 * count }
    }

    fn cases() -> Vec<Case> {
        let case = |count: usize, step: i32, gradient_scale: f64, weight_decay: f64, frozen: u32| {
            let (beta1, beta2) = (0.9, 0.95);
            let parameters = Parameters::new(count as u32, beta1, beta2, 1e-8, weight_decay);
            let seeded = |tensor, scale| normal(14, tensor, count, scale);
            let second_moment = seeded(3, gradient_scale).into_iter().map(|value| value * value).collect();
            let corrections = [beta1, beta2].map(|beta| (1.0 - beta.powi(step)) as f32);
            let name = format!(
                "count={count} t={step} gradients of {gradient_scale:e} decay={weight_decay} frozen={frozen} seed=14"
            );
            let operands = vec![
                Operand::InOut(seeded(0, 1.0)),
                Operand::Input(seeded(1, gradient_scale)),
                Operand::InOut(seeded(2, 0.3 * gradient_scale)),
                Operand::InOut(second_moment),
                Operand::Input(vec![1.0, 1e-2, corrections[0], corrections[1], 0.25]),
                Operand::Input(vec![3.0, 0.7, 0.0, 0.0]),
                Operand::InputWords(vec![frozen, 12, 0, 0]),
            ];
            // The first moment is a difference of numbers of the gradient's size.
            let tolerance =
                if frozen == 1 { Tolerance::EXACT } else { Tolerance::new(3e-7 * gradient_scale.max(1.0), 2e-6) };
            Case::new(name, parameters, operands, tolerance)
        };
        [1, 3, 4, 5, 31, 33, 127, 128, 129, 4099]
            .into_iter()
            .map(|count| case(count, 7, 1.0, 0.1, 0))
            .chain([
                case(100, 1, 1.0, 0.0, 0),
                case(100, 100_000, 1.0, 0.1, 0),
                // As small as epsilon: where it stands shows.
                case(100, 2, 1e-8, 0.1, 0),
                case(1000, 3, 1e-3, 10.0, 0),
                case(100, 3, 1e3, 0.1, 0),
                case(129, 7, 1.0, 0.1, 1),
                case(300_001, 7, 1.0, 0.1, 0),
            ])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::finite_difference::{numbers, run};
    use crate::tape::HostBuffer;

    fn updated(frozen: u32) -> [f64; 3] {
        let operands = vec![
            HostBuffer::Real(vec![2.0]),
            HostBuffer::Real(vec![8.0]),
            HostBuffer::Real(vec![1.0]),
            HostBuffer::Real(vec![12.0]),
            HostBuffer::Real(vec![1.0, 0.5, 0.25, 0.25, 1.0]),
            HostBuffer::Real(vec![9.0, 0.5, 0.0, 0.0]),
            HostBuffer::Words(vec![frozen, 0, 0, 0]),
        ];
        let results = run::<AdamW>(&Parameters::new(1, 0.5, 0.75, 0.5, 0.5), operands);
        [0, 2, 3].map(|operand| numbers(&results[operand])[0])
    }

    #[test]
    fn the_twin_equals_values_worked_out_by_hand() {
        // g = 4; m = 0.5 + 2 = 2.5; v = 9 + 4 = 13; p = 2 * 0.75 - 2 * 2.5 / (2 sqrt(13) + 0.5)
        assert_eq!(updated(0), [1.5 - 5.0 / (2.0 * 13f64.sqrt() + 0.5), 2.5, 13.0]);
    }

    #[test]
    fn nothing_changes_where_the_flags_are_frozen() {
        assert_eq!(updated(1), [2.0, 1.0, 12.0]);
    }
}
