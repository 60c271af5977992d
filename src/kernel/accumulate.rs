//! The running sum of gradients over the micro-batches of a step.

use super::piece;
use crate::tape::MutantKind::{Accumulator, Index, Tile};
use crate::tape::rounding::OPERATIONS;
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<Accumulate>();

crate::kernel_parameters! {
    /// Operands: `x [count]`, `scalars` (element 0: 1 in a step's first micro-batch, 0 in later ones), `sum [count]` in
    /// place. The first micro-batch overwrites `sum`, later ones add to it.
    pub struct Parameters {
        count: u32,
    }
}

pub struct Accumulate;

impl KernelDefinition for Accumulate {
    type Parameters = Parameters;
    const NAME: &'static str = "accumulate";
    const WRITES: &'static [usize] = &[2];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[Design {
            name: "vec4",
            file: "accumulate.wgsl",
            text: include_str!("../../shaders/accumulate.wgsl"),
            pieces: &[&piece::LINEAR_INDEX],
            preference: Preference::Any,
            subgroup_width: None,
            supports: |_| Ok(()),
            constants: |_| Vec::new(),
            generated: |_| String::new(),
            workgroups: |parameters| [u64::from(parameters.count).div_ceil(4 * 64), 1, 1],
            mutants: &[&[
                Mutant::new(
                    Index,
                    "neighbouring vec4 change places",
                    "var result = x[index];",
                    "var result = x[index ^ 1u];",
                ),
                Mutant::new(
                    Tile,
                    "the tail is written past its end",
                    "if first + 4u <= params.count {",
                    "if first < params.count {",
                ),
                Mutant::new(
                    Tile,
                    "the last vec4 is dropped",
                    "if first >= params.count {",
                    "if first + 4u > params.count {",
                ),
                Mutant::new(
                    Accumulator,
                    "the first micro-batch keeps the sum of the step before",
                    "if scalars[0] == 0.0 {",
                    "if true {",
                ),
                Mutant::new(Accumulator, "later micro-batches overwrite", "result += sum[index];", "result += 0.0;"),
            ]],
        }];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (x, scalars, mut sum) = (operands.real(0), operands.real(1), operands.real_mut(2));
        let first = scalars[0].wide() != S::Wide::of(0.0);
        let count = parameters.count as usize;
        for (sum, x) in sum[..count].iter_mut().zip(&x[..count]) {
            *sum = if first { *x } else { S::narrow(sum.wide() + x.wide()) };
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let (x, scalars, sum) = (operands.real(0), operands.real(1), operands.real(2));
        if scalars[0] != 0.0 {
            return; // moved
        }
        let pairs = x.iter().zip(sum.iter()).take(parameters.count as usize);
        for (bound, (x, sum)) in bounds[0].iter_mut().zip(pairs) {
            *bound = OPERATIONS * (x.wide() + sum.wide()).abs();
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let count = u64::from(parameters.count);
        Cost { flops: count, bytes: 12 * count }
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for (count, first, stale) in [
            (1, true, false),
            (3, false, false),
            (4, true, true),
            (257, false, false),
            (259, true, true),
            (70_003, false, false),
        ] {
            let sum = if stale { vec![f32::NAN; count] } else { normal(5, 1, count, 1.0) };
            let name = format!("count={count} first={first} stale NaN={stale} seed=5");
            let operands = vec![
                Operand::Input(normal(5, 0, count, 1.0)),
                Operand::Input(vec![f32::from(first)]),
                Operand::InOut(sum),
            ];
            cases.push(Case::new(name, Parameters { count: count as u32 }, operands, Tolerance::new(0.0, 1e-7)));
        }
        cases
    }
}
