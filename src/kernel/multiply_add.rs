//! Multiply-adds in registers, over and over: `x * factor + addend` of its own result. No model has it; it measures how
//! much an adapter computes where no memory is in the way, which is the ceiling that other kernels are held against (the
//! roofline of Williams, Waterman and Patterson 2009).

use super::{loop_limit, piece};
use crate::tape::MutantKind::{Formula, Index, Tile};
use crate::tape::rounding::UNIT;
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<MultiplyAdd>();

crate::kernel_parameters! {
    /// Operands: `x [count]`, `y [count]`, both contiguous; the count is a multiple of 16. Each element goes through
    /// `4 * rounds` multiply-adds.
    pub struct Parameters {
        count: u32,
        rounds: u32,
        factor: f32,
        addend: f32,
    }
}

/// Multiply-adds of an element a round.
const STEPS: u64 = 4;
/// Elements of one invocation: four vec4.
const OWNED: u32 = 16;

pub struct MultiplyAdd;

impl KernelDefinition for MultiplyAdd {
    type Parameters = Parameters;
    const NAME: &'static str = "multiply_add";
    const WRITES: &'static [usize] = &[1];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[Design {
            name: "chains",
            file: "multiply_add.wgsl",
            text: include_str!("../../shaders/multiply_add.wgsl"),
            pieces: &[&piece::LINEAR_INDEX],
            preference: Preference::Any,
            subgroup_width: None,
            supports: |parameters| {
                if !parameters.count.is_multiple_of(OWNED) {
                    return Err(format!("takes a multiple of {OWNED} elements, there are {}", parameters.count));
                }
                loop_limit::within(u64::from(parameters.rounds))
            },
            constants: |_| Vec::new(),
            generated: |_| String::new(),
            workgroups: |parameters| [u64::from(parameters.count / OWNED).div_ceil(64), 1, 1],
            mutants: &[&[
                Mutant::new(
                    Index,
                    "one chain begins as its neighbour",
                    "var c = x[first + 2u];",
                    "var c = x[first + 1u];",
                ),
                Mutant::new(
                    Tile,
                    "the last invocation is dropped",
                    "if first >= params.count / 4u {",
                    "if first + CHAINS >= params.count / 4u {",
                ),
                Mutant::new(Formula, "a round is left out", "round < params.rounds", "round + 1u < params.rounds"),
                Mutant::new(
                    Formula,
                    "the addend is forgotten",
                    "let addend = vec4<f32>(params.addend);",
                    "let addend = vec4<f32>(0.0);",
                ),
            ]],
        }];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (factor, addend) = (S::Wide::of(parameters.factor), S::Wide::of(parameters.addend));
        let (x, mut y) = (operands.real(0), operands.real_mut(1));
        let count = parameters.count as usize;
        for (y, x) in y[..count].iter_mut().zip(&x[..count]) {
            let steps = 0..STEPS * u64::from(parameters.rounds);
            *y = S::narrow(steps.fold(x.wide(), |value, _| value * factor + addend));
        }
    }

    /// Each step rounds its product, its sum, and factor and addend, which are stored in f32; and it hands on, times the
    /// factor, what was rounded before it.
    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let (factor, addend) = (parameters.factor.abs(), parameters.addend.abs());
        for (bound, x) in bounds[0].iter_mut().zip(operands.real(0).iter().take(parameters.count as usize)) {
            let mut magnitude = f64::from(*x).abs();
            for _ in 0..STEPS * u64::from(parameters.rounds) {
                magnitude = magnitude * factor + addend;
                *bound = *bound * factor + 4.0 * UNIT * magnitude;
            }
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let (count, rounds) = (u64::from(parameters.count), u64::from(parameters.rounds));
        Cost { flops: (2 * STEPS * count).saturating_mul(rounds), bytes: 8 * count }
    }

    fn cases() -> Vec<Case> {
        [
            (16, 0, 0.5, 1.0),
            (16, 1, 0.5, 1.0),
            (32, 3, -0.75, 0.25),
            (1008, 2, 1.25, -0.5),
            (1024, 7, 0.5, 1.0),
            (1040, 5, 0.875, -2.0),
            (70_000, 2, -0.5, 0.125),
            (48, 100, 0.99, 0.01),
        ]
        .into_iter()
        .map(|(count, rounds, factor, addend)| {
            Case::new(
                format!("count={count} rounds={rounds} factor={factor} addend={addend} seed=3"),
                Parameters { count, rounds, factor, addend },
                vec![Operand::Input(normal(3, 0, count as usize, 1.0)), Operand::Output(count as usize)],
                Tolerance::new(1e-5, 1e-5),
            )
        })
        .collect()
    }
}
