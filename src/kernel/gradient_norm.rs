//! The norm over all gradients of a step, the coefficient that clips it, and the flags that freeze the optimizer once a
//! loss or a norm is not finite.

use super::loop_limit;
use crate::tape::MutantKind::{Accumulator, Barrier, Formula, Index, Tile};
use crate::tape::rounding::{OPERATIONS, of_sum};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<GradientNorm>();

/// Layout of the `control` buffer: numbers that this kernel writes for the update of the same step.
pub mod control {
    /// Norm over all gradients before clipping; 0 where it is not finite.
    pub const NORM: usize = 0;
    /// What gradients are multiplied by: at most 1, and 0 where the update is frozen.
    pub const COEFFICIENT: usize = 1;
    /// Elements of the buffer. Those not named here are written as 0.
    pub const LENGTH: usize = 4;
}

/// Layout of the `flags` buffer: words that live as long as the run, all 0 at its start.
pub mod flags {
    /// 1 from the first step on whose loss or norm was not finite; nothing sets it back.
    pub const FROZEN: usize = 0;
    /// Updates that were let through.
    pub const UPDATES: usize = 1;
    /// What was not finite when the flags froze: [`CAUSE_LOSS`] and [`CAUSE_NORM`], added.
    pub const CAUSE: usize = 2;
    /// Elements of the buffer.
    pub const LENGTH: usize = 4;
    /// The loss was not finite.
    pub const CAUSE_LOSS: u32 = 1;
    /// The norm was not finite.
    pub const CAUSE_NORM: u32 = 2;
}

/// Added to the norm before the division, as PyTorch's `clip_grad_norm_` does.
const NORM_FLOOR: f64 = 1e-6;

crate::kernel_parameters! {
    /// Operands: `partials [partials]` as [`super::sum_of_squares`] writes them, `loss [1]`, `control [4]` (see
    /// [`control`]), `flags [4]` words in place (see [`flags`]).
    pub struct Parameters {
        partials: u32,
        /// Largest norm that is let through whole; 0 for no clipping.
        clip: f32,
    }
}

pub struct GradientNorm;

impl KernelDefinition for GradientNorm {
    type Parameters = Parameters;
    const NAME: &'static str = "gradient_norm";
    const WRITES: &'static [usize] = &[2, 3];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[Design {
            name: "one_workgroup",
            file: "gradient_norm.wgsl",
            text: include_str!("../../shaders/gradient_norm.wgsl"),
            pieces: &[],
            preference: Preference::Any,
            subgroup_width: None,
            supports: |parameters| loop_limit::within(u64::from(parameters.partials.div_ceil(256)) + 35),
            constants: |_| Vec::new(),
            generated: |_| String::new(),
            workgroups: |_| [1, 1, 1],
            mutants: &[&[
                Mutant::new(
                    Index,
                    "sums are read from the first over and over",
                    "sum += partials[index];",
                    "sum += partials[local];",
                ),
                Mutant::new(
                    Accumulator,
                    "each round of sums replaces those before",
                    "sum += partials[index];",
                    "sum = partials[index];",
                ),
                Mutant::new(
                    Barrier,
                    "the groups do not wait for all sums",
                    "workgroupBarrier(); // all sums are there",
                    "",
                ),
                Mutant::new(
                    Barrier,
                    "the last invocation does not wait for the groups",
                    "workgroupBarrier(); // the sums of the groups are there",
                    "",
                ),
                Mutant::new(
                    Formula,
                    "the norm is squared",
                    "sqrt(select(0.0, sum, sum_is_finite))",
                    "select(0.0, sum, sum_is_finite)",
                ),
                Mutant::new(
                    Formula,
                    "a small norm is stretched to the clip",
                    "min(1.0, params.clip / (norm + 1e-6))",
                    "params.clip / (norm + 1e-6)",
                ),
                Mutant::new(Formula, "a clip of 0 clips", "params.clip > 0.0", "params.clip >= 0.0"),
                Mutant::new(
                    Formula,
                    "a loss that is no number is let through",
                    "select(1u, 0u, is_finite(loss[0]))",
                    "0u",
                ),
                Mutant::new(Formula, "a norm that is no number is let through", "select(2u, 0u, sum_is_finite)", "0u"),
                Mutant::new(
                    Formula,
                    "the flags thaw",
                    "let frozen = flags[FROZEN] != 0u;",
                    "let frozen = cause != 0u;",
                ),
                Mutant::new(
                    Formula,
                    "the first cause is overwritten",
                    "if flags[FROZEN] == 0u && cause != 0u {",
                    "if cause != 0u {",
                ),
                Mutant::new(
                    Tile,
                    "one sum in sixteen is dropped",
                    "var other = local + GROUP; other < WIDTH;",
                    "var other = local + GROUP; other < WIDTH - GROUP;",
                ),
                Mutant::new(
                    Tile,
                    "the last sum is dropped",
                    "other = 1u; other < GROUP;",
                    "other = 1u; other < GROUP - 1u;",
                ),
            ]],
        }];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (partials, loss) = (operands.real(0), operands.real(1));
        let (mut control, mut flags) = (operands.real_mut(2), operands.words_mut(3));
        let sum = partials[..parameters.partials as usize].iter().map(|partial| partial.wide()).sum::<S::Wide>();
        let (zero, one) = (S::Wide::of(0.0), S::Wide::of(1.0));
        let norm = if sum.is_finite() { sum.sqrt() } else { zero };
        let loss_cause = if loss[0].wide().is_finite() { 0 } else { flags::CAUSE_LOSS };
        let norm_cause = if sum.is_finite() { 0 } else { flags::CAUSE_NORM };
        if flags[flags::FROZEN] == 0 && loss_cause + norm_cause != 0 {
            flags[flags::FROZEN] = 1;
            flags[flags::CAUSE] = loss_cause + norm_cause;
        }
        let coefficient = if flags[flags::FROZEN] != 0 {
            zero
        } else {
            flags[flags::UPDATES] += 1;
            let clipped = S::Wide::of(parameters.clip) / (norm + S::Wide::of(NORM_FLOOR));
            if parameters.clip > 0.0 { clipped.min(one) } else { one }
        };
        control[..control::LENGTH].fill(S::narrow(zero));
        control[control::NORM] = S::narrow(norm);
        control[control::COEFFICIENT] = S::narrow(coefficient);
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let sum: f64 = operands.real(0).iter().take(parameters.partials as usize).map(|partial| partial.wide()).sum();
        if sum.is_finite() {
            let norm = sum.sqrt();
            let relative = OPERATIONS + of_sum(parameters.partials.into());
            let clips = parameters.clip > 0.0;
            bounds[0][control::NORM] = relative * norm;
            bounds[0][control::COEFFICIENT] =
                if clips { relative * (parameters.clip / (norm + NORM_FLOOR)).min(1.0) } else { 0.0 };
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let partials = u64::from(parameters.partials);
        Cost { flops: partials, bytes: 4 * (partials + 9) }
    }

    fn cases() -> Vec<Case> {
        let quiet_nan = f32::from_bits(0xffc0_0001);
        let sums = |count| normal(13, 0, count, 1.0).into_iter().map(|sum| sum * sum).collect::<Vec<f32>>();
        let (open, frozen) = ([0, 7, 0, 5], [1, 7, 2, 5]);
        [
            ("one sum, clipped", vec![16.0], 2.5, 1.0, open),
            ("small, not clipped", vec![0.01, 0.02], 2.5, 1.0, open),
            ("no gradient at all", vec![0.0, 0.0, 0.0], 2.5, 1.0, open),
            ("17 sums, no clipping", sums(17), 2.5, 0.0, open),
            ("255 sums", sums(255), 2.5, 1.0, open),
            ("257 sums", sums(257), 2.5, 100.0, open),
            ("9001 sums", sums(9001), -3.0, 1.0, open),
            ("frozen before", vec![16.0], 2.5, 1.0, frozen),
            ("frozen before, the loss is NaN now", vec![16.0], quiet_nan, 1.0, frozen),
            ("the loss is NaN", vec![16.0, 9.0], quiet_nan, 1.0, open),
            ("the loss is inf", vec![16.0], f32::INFINITY, 1.0, open),
            ("a sum is inf", vec![1.0, f32::INFINITY], 2.5, 1.0, open),
            ("a sum is NaN", vec![1.0, quiet_nan, 2.0], 2.5, 0.0, open),
            ("both are bad", vec![f32::NAN], f32::NEG_INFINITY, 1.0, open),
            ("the largest sum that is finite", vec![f32::MAX], 2.5, 1.0, open),
        ]
        .into_iter()
        .map(|(name, partials, loss, clip, flags)| {
            Case::new(
                format!("{name} clip={clip}"),
                Parameters { partials: partials.len() as u32, clip },
                vec![
                    Operand::Input(partials),
                    Operand::Input(vec![loss]),
                    Operand::Output(control::LENGTH),
                    Operand::InOutWords(flags.to_vec()),
                ],
                Tolerance::new(0.0, 1e-6),
            )
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::finite_difference::{numbers, run};
    use crate::tape::HostBuffer;

    fn norm_of(partials: &[f64], loss: f64, clip: f64, flags: [u32; 4]) -> (Vec<f64>, Vec<u32>) {
        let operands = vec![
            HostBuffer::Real(partials.to_vec()),
            HostBuffer::Real(vec![loss]),
            HostBuffer::Real(vec![9.0; control::LENGTH]),
            HostBuffer::Words(flags.to_vec()),
        ];
        let results = run::<GradientNorm>(&Parameters { partials: partials.len() as u32, clip }, operands);
        let HostBuffer::Words(flags) = &results[3] else { panic!("flags are words") };
        (numbers(&results[2]).to_vec(), flags.clone())
    }

    #[test]
    fn the_norm_clips_and_counts_updates() {
        let (control, flags) = norm_of(&[9.0, 16.0], 1.0, 1.0, [0; 4]);
        assert_eq!(control, [5.0, 1.0 / 5.000_001, 0.0, 0.0]);
        assert_eq!(flags, [0, 1, 0, 0]);
        assert_eq!(norm_of(&[9.0, 16.0], 1.0, 0.0, [0; 4]).0, [5.0, 1.0, 0.0, 0.0]);
        assert_eq!(norm_of(&[9.0, 16.0], 1.0, 10.0, [0; 4]).0, [5.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn the_first_number_that_is_not_finite_freezes_for_good_and_says_why() {
        let (control, frozen) = norm_of(&[4.0], f64::NAN, 1.0, [0, 3, 0, 0]);
        assert_eq!((control[1], frozen.as_slice()), (0.0, [1, 3, flags::CAUSE_LOSS, 0].as_slice()));
        let (control, frozen) = norm_of(&[f64::INFINITY], 1.0, 1.0, [0, 3, 0, 0]);
        assert_eq!((control[0], frozen.as_slice()), (0.0, [1, 3, flags::CAUSE_NORM, 0].as_slice()));
        let still = [1, 3, flags::CAUSE_NORM, 0];
        assert_eq!(norm_of(&[4.0], 1.0, 1.0, still), (vec![2.0, 0.0, 0.0, 0.0], still.to_vec()));
    }
}
