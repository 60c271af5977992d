//! Sum, mean or maximum along one axis: bias gradients, row sums, and what broadcasting needs on its way back.

use super::loop_limit;
use super::piece;
use super::split_reduction::{self, Sharing};
use crate::gpu::{AdapterKind, Constant};
use crate::tape::MutantKind::{Accumulator, Formula, Index, Tile};
use crate::tape::rounding::bound_sums;
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<Reduce>();

/// What a reduction computes; the discriminants are what a launch's `operation` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reduction {
    Sum = 0,
    /// Of numbers not below -3.4e38, the lowest finite one.
    Maximum = 1,
    Mean = 2,
}

impl Reduction {
    /// The number by which a launch names the reduction.
    pub const fn index(self) -> u32 {
        self as u32
    }
}

/// Iterations of three nested loops of blocks of 32 over so many steps.
fn blocked(steps: u32) -> Result<(), String> {
    loop_limit::within(u64::from(steps) + u64::from(steps.div_ceil(32)) + u64::from(steps.div_ceil(1024)))
}

crate::kernel_parameters! {
    /// Operands: `x [outer, length, inner]`, `y [outer, inner]`, both contiguous.
    pub struct Parameters {
        outer: u32,
        length: u32,
        inner: u32,
        /// [`Reduction::index`]
        operation: u32,
    }
}

impl Parameters {
    fn results(&self) -> u64 {
        u64::from(self.outer) * u64::from(self.inner)
    }

    fn known_operation(&self) -> Result<(), String> {
        match self.operation {
            0..=2 => Ok(()),
            other => Err(format!("there are 3 reductions, asked for {other}")),
        }
    }

    /// Whether the invocations that share a result can walk its axis.
    fn walkable(&self, sharing: Sharing) -> Result<(), String> {
        self.known_operation()?;
        split_reduction::walks(sharing, self.length, self.inner, 1)
    }

    fn maximum(&self) -> Constant {
        Constant::bool("MAXIMUM", self.operation == Reduction::Maximum.index())
    }
}

/// Mutants of `reduce.wgsl`, however many invocations share a result.
const BOTH_MUTANTS: &[Mutant] = &[
    Mutant::new(
        Tile,
        "results past the end are written",
        "let in_range = result < params.outer * params.inner;",
        "let in_range = true;",
    ),
    Mutant::new(
        Index,
        "the outer dimension is walked without its length",
        "outer * params.length * params.inner + (result",
        "outer * params.inner + (result",
    ),
    Mutant::new(Accumulator, "whole blocks of the sum are lost", "middle += low;", "middle = low;"),
    Mutant::new(
        Accumulator,
        "a block begins with the sum of the one before",
        "middle += low;\n                low = 0.0;",
        "middle += low;",
    ),
    Mutant::new(Formula, "the mean is not divided", "total /= f32(params.length);", "total /= 1.0;"),
];

/// Up to a workgroup of invocations for each result; runs everything, everywhere.
const SHARED: Design<Parameters> = Design {
    name: "shared",
    file: "reduce.wgsl",
    text: include_str!("../../shaders/reduce.wgsl"),
    pieces: &[&piece::LINEAR_WORKGROUP, &piece::SPLIT_REDUCTION, &piece::SPLIT_SUM, &piece::SPLIT_MAXIMUM],
    preference: Preference::Any,
    subgroup_width: None,
    supports: |parameters| parameters.walkable(Sharing::Shared),
    constants: |parameters| constants(Sharing::Shared, parameters),
    generated: |_| String::new(),
    workgroups: |p| split_reduction::workgroups(Sharing::Shared, p.results(), p.length, p.inner),
    mutants: &[
        BOTH_MUTANTS,
        split_reduction::SUM_MUTANTS,
        split_reduction::MAXIMUM_MUTANTS,
        &[
            Mutant::new(
                Index,
                "the axis is walked with the wrong step",
                "let step = SPLITS * params.inner;",
                "let step = SPLITS;",
            ),
            Mutant::new(
                Formula,
                "the maximum looks at the first split only",
                "max(partial_maxima[local], partial_maxima[local + half * COLUMNS])",
                "partial_maxima[local]",
            ),
        ],
    ],
};

/// The same text with one invocation for each result.
const SERIAL: Design<Parameters> = Design {
    name: "serial",
    pieces: &[&piece::LINEAR_WORKGROUP, &piece::SERIAL_REDUCTION],
    preference: Preference::Only(AdapterKind::Software),
    supports: |parameters| parameters.walkable(Sharing::Serial),
    constants: |parameters| constants(Sharing::Serial, parameters),
    workgroups: |p| split_reduction::workgroups(Sharing::Serial, p.results(), p.length, p.inner),
    mutants: &[BOTH_MUTANTS],
    ..SHARED
};

fn constants(sharing: Sharing, parameters: &Parameters) -> Vec<Constant> {
    let mut constants = split_reduction::constants(sharing, parameters.length, parameters.inner);
    constants.push(parameters.maximum());
    constants
}

pub struct Reduce;

impl KernelDefinition for Reduce {
    type Parameters = Parameters;
    const NAME: &'static str = "reduce";
    const WRITES: &'static [usize] = &[1];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            Design {
                name: "columns",
                file: "reduce_columns.wgsl",
                text: include_str!("../../shaders/reduce_columns.wgsl"),
                pieces: &[&piece::LINEAR_INDEX],
                preference: Preference::Only(AdapterKind::Software),
                subgroup_width: None,
                supports: |parameters| {
                    parameters.known_operation()?;
                    blocked(parameters.length)?;
                    match parameters.inner.is_multiple_of(4) {
                        true => Ok(()),
                        false => Err(format!("needs columns in fours, there are {}", parameters.inner)),
                    }
                },
                constants: |parameters| vec![parameters.maximum()],
                generated: |_| String::new(),
                workgroups: |parameters| [(parameters.results() / 4).div_ceil(8), 1, 1],
                mutants: &[&[
                    Mutant::new(
                        Index,
                        "the outer dimension is walked without its length",
                        "outer * params.length * inner + (result",
                        "outer * inner + (result",
                    ),
                    Mutant::new(
                        Tile,
                        "results past the end are written",
                        "if result >= params.outer * inner {",
                        "if result > params.outer * inner {",
                    ),
                    Mutant::new(
                        Tile,
                        "the last partial block is dropped",
                        "let small_end = min(large_end, small + BLOCK);",
                        "let small_end = select(small, small + BLOCK, small + BLOCK <= large_end);",
                    ),
                    Mutant::new(Accumulator, "only the last large block counts", "high += middle;", "high = middle;"),
                    Mutant::new(
                        Accumulator,
                        "the maximum starts at zero",
                        "vec4<f32>(-3.4028234663852886e38)",
                        "vec4<f32>(0.0)",
                    ),
                ]],
            },
            Design {
                name: "rows",
                file: "reduce_rows.wgsl",
                text: include_str!("../../shaders/reduce_rows.wgsl"),
                pieces: &[&piece::LINEAR_INDEX],
                preference: Preference::Only(AdapterKind::Software),
                subgroup_width: None,
                supports: |parameters| {
                    parameters.known_operation()?;
                    blocked(parameters.length / 4)?;
                    match parameters.inner == 1 && parameters.length.is_multiple_of(4) {
                        true => Ok(()),
                        false => Err(format!(
                            "needs rows in fours, there are {} elements {} apart",
                            parameters.length, parameters.inner
                        )),
                    }
                },
                constants: |parameters| vec![parameters.maximum()],
                generated: |_| String::new(),
                workgroups: |parameters| [u64::from(parameters.outer).div_ceil(8), 1, 1],
                mutants: &[&[
                    Mutant::new(
                        Index,
                        "rows lie four times as far apart",
                        "let first = row * quads;",
                        "let first = row * params.length;",
                    ),
                    Mutant::new(Accumulator, "only the last block counts", "middle += low;", "middle = low;"),
                    Mutant::new(
                        Tile,
                        "results past the end are written",
                        "if row >= params.outer {",
                        "if row > params.outer {",
                    ),
                    Mutant::new(
                        Tile,
                        "the last partial block is dropped",
                        "let small_end = min(large_end, small + BLOCK);",
                        "let small_end = select(small, small + BLOCK, small + BLOCK <= large_end);",
                    ),
                    Mutant::new(
                        Formula,
                        "a lane is missing from the sum",
                        "(high.x + high.y) + (high.z + high.w)",
                        "(high.x + high.y) + high.z",
                    ),
                ]],
            },
            SERIAL,
            SHARED,
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (x, mut y) = (operands.real(0), operands.real_mut(1));
        let &Parameters { outer, length, inner, operation } = parameters;
        let (length, inner) = (length as usize, inner as usize);
        let maximum = operation == Reduction::Maximum.index();
        let mut accumulated = vec![S::Wide::of(0.0); inner];
        for outer in 0..outer as usize {
            accumulated.fill(S::Wide::of(if maximum { f64::from(f32::MIN) } else { 0.0 }));
            for position in 0..length {
                let first = (outer * length + position) * inner;
                for (accumulated, x) in accumulated.iter_mut().zip(&x[first..first + inner]) {
                    *accumulated = if maximum { accumulated.max(x.wide()) } else { *accumulated + x.wide() };
                }
            }
            let divisor = S::Wide::of(if operation == Reduction::Mean.index() { length as f64 } else { 1.0 });
            for (y, accumulated) in y[outer * inner..(outer + 1) * inner].iter_mut().zip(&accumulated) {
                *y = S::narrow(*accumulated / divisor);
            }
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        if parameters.operation != Reduction::Maximum.index() {
            bound_sums::<Self>(parameters, operands, u64::from(parameters.length), bounds);
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let results = parameters.results();
        let read = results * u64::from(parameters.length);
        Cost { flops: read, bytes: 4 * (read + results) }
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for (outer, length, inner) in [
            (1, 1, 1),
            (3, 5, 1),
            (9, 4, 1),
            (7, 32, 1),
            (5, 36, 1),
            (3, 63, 1),
            (2, 65, 1),
            (130, 3, 1),
            (2, 1, 3),
            (2, 3, 4),
            (1, 33, 12),
            (3, 31, 20),
            (2, 67, 5),
            (1, 100, 17),
            (1, 768, 128),
            (1, 2500, 8),
            (4, 2500, 1),
        ] {
            for reduction in [Reduction::Sum, Reduction::Maximum, Reduction::Mean] {
                cases.push(case(reduction, outer, length, inner));
            }
        }
        for length in [65_536, 65_535, 1_000_000, 999_999] {
            cases.push(long_case(length));
        }
        cases
    }
}

fn case(reduction: Reduction, outer: u32, length: u32, inner: u32) -> Case {
    // Below zero throughout for maxima, so that one that starts at 0 shows.
    let shift = if reduction == Reduction::Maximum { -20.0 } else { 0.0 };
    let x = normal(7, 0, (outer * length * inner) as usize, 1.0).into_iter().map(|value| value + shift).collect();
    let tolerance = match reduction {
        Reduction::Maximum => Tolerance::EXACT,
        Reduction::Sum => Tolerance::new(2e-7 * f64::from(length).sqrt(), 5e-7),
        Reduction::Mean => Tolerance::new(2e-7, 5e-7),
    };
    Case::new(
        format!("{reduction:?} outer={outer} length={length} inner={inner} seed=7"),
        Parameters { outer, length, inner, operation: reduction.index() },
        vec![Operand::Input(x), Operand::Output((outer * inner) as usize)],
        tolerance,
    )
}

/// A long sum of positive numbers, where adding one after another in f32 is wrong by some 1e-5 to 1e-4.
fn long_case(length: u32) -> Case {
    let x = normal(8, 0, length as usize, 1.0).into_iter().map(|value| 0.1 + 0.01 * value.abs()).collect();
    Case::new(
        format!("Sum of positive numbers outer=1 length={length} inner=1 seed=8"),
        Parameters { outer: 1, length, inner: 1, operation: Reduction::Sum.index() },
        vec![Operand::Input(x), Operand::Output(1)],
        Tolerance::new(0.0, 1e-6),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::finite_difference::run_twin;

    #[test]
    fn the_middle_axis_is_reduced() {
        let x: Vec<f64> = vec![1.0, -2.0, 3.0, -4.0, 5.0, -6.0, -7.0, 8.0, -9.0, 10.0, -11.0, 12.0];
        for (reduction, outer, length, inner, expected) in [
            (Reduction::Sum, 2, 3, 2, vec![9.0, -12.0, -27.0, 30.0]),
            (Reduction::Maximum, 2, 3, 2, vec![5.0, -2.0, -7.0, 12.0]),
            (Reduction::Mean, 2, 3, 2, vec![3.0, -4.0, -9.0, 10.0]),
            (Reduction::Sum, 3, 4, 1, vec![-2.0, 0.0, 2.0]),
            (Reduction::Sum, 1, 1, 12, x.clone()),
        ] {
            let parameters = Parameters { outer, length, inner, operation: reduction.index() };
            let results = run_twin::<Reduce>(&parameters, &[x.clone(), vec![f64::NAN; expected.len()]]);
            assert_eq!(results[1], expected, "{reduction:?} {outer} {length} {inner}");
        }
    }
}
