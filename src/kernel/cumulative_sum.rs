//! Cumulative sums along one axis of `[outer, length, inner]`, forwards or backwards.

use super::loop_limit;
use super::piece;
use crate::tape::MutantKind::{Accumulator, Formula, Index, Tile};
use crate::tape::rounding::bound_sums;
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<CumulativeSum>();

crate::kernel_parameters! {
    /// Operands: `x`, `y`, both `[outer, length, inner]` and contiguous. Element l of a line of y is the sum of the elements
    /// 0 to l of x, or, where `reverse` is not 0, of those from l on. It depends on no other element.
    pub struct Parameters {
        outer: u32,
        length: u32,
        inner: u32,
        reverse: u32,
    }
}

impl Parameters {
    /// Lines along the axis.
    fn lines(&self) -> u64 {
        u64::from(self.outer) * u64::from(self.inner)
    }
}

/// Mutants of `cumulative_sum.wgsl`, whether an invocation owns one line or four.
const LINE_MUTANTS: &[Mutant] = &[
    Mutant::new(
        Index,
        "the outer dimension is walked without its length",
        "outer * params.length * inner + (line",
        "outer * inner + (line",
    ),
    Mutant::new(
        Tile,
        "lines past the end are written",
        "if line >= params.outer * inner {",
        "if line > params.outer * inner {",
    ),
    Mutant::new(Tile, "the last position is dropped", "met < params.length; met++", "met + 1u < params.length; met++"),
    Mutant::new(Accumulator, "each element replaces those before", "low += x[at];", "low = x[at];"),
    Mutant::new(
        Accumulator,
        "a block begins with the sum of the one before",
        "middle += low;\n            low = Value(0.0);",
        "middle += low;",
    ),
    Mutant::new(
        Formula,
        "the sum always runs forwards",
        "select(met, params.length - 1u - met, params.reverse != 0u)",
        "met",
    ),
];

/// Mutants of both texts.
const BOTH_MUTANTS: &[Mutant] = &[
    Mutant::new(Accumulator, "only the last block counts", "middle += low;", "middle = low;"),
    Mutant::new(Accumulator, "only the last large block counts", "high += middle;", "high = middle;"),
];

/// One invocation a line; runs every shape.
const LINES: Design<Parameters> = Design {
    name: "lines",
    file: "cumulative_sum.wgsl",
    text: include_str!("../../shaders/cumulative_sum.wgsl"),
    pieces: &[&piece::LINEAR_INDEX, &piece::SCALAR_VALUES],
    preference: Preference::Any,
    subgroup_width: None,
    supports: |parameters| loop_limit::within(u64::from(parameters.length)),
    constants: |_| Vec::new(),
    generated: |_| String::new(),
    workgroups: |parameters| [parameters.lines().div_ceil(64), 1, 1],
    mutants: &[LINE_MUTANTS, BOTH_MUTANTS],
};

/// The same text with four neighbouring lines an invocation.
const COLUMNS: Design<Parameters> = Design {
    name: "columns",
    pieces: &[&piece::LINEAR_INDEX, &piece::VEC4_VALUES],
    supports: |parameters| {
        loop_limit::within(u64::from(parameters.length))?;
        match parameters.inner.is_multiple_of(4) {
            true => Ok(()),
            false => Err(format!("needs lines in fours, there are {}", parameters.inner)),
        }
    },
    workgroups: |parameters| [(parameters.lines() / 4).div_ceil(64), 1, 1],
    ..LINES
};

const ROWS: Design<Parameters> = Design {
    name: "rows",
    file: "cumulative_sum_rows.wgsl",
    text: include_str!("../../shaders/cumulative_sum_rows.wgsl"),
    pieces: &[&piece::LINEAR_INDEX],
    supports: |parameters| {
        loop_limit::within(u64::from(parameters.length / 4))?;
        match parameters.inner == 1 && parameters.length.is_multiple_of(4) {
            true => Ok(()),
            false => {
                Err(format!("needs rows in fours, there are {} elements {} apart", parameters.length, parameters.inner))
            }
        }
    },
    workgroups: |parameters| [u64::from(parameters.outer).div_ceil(64), 1, 1],
    mutants: &[
        BOTH_MUTANTS,
        &[
            Mutant::new(
                Index,
                "rows lie four times as far apart",
                "let first = row * quads;",
                "let first = row * params.length;",
            ),
            Mutant::new(
                Index,
                "a vec4 is taken in the order of memory, whichever way the sum runs",
                "return select(values, values.wzyx, params.reverse != 0u);",
                "return values;",
            ),
            Mutant::new(Tile, "rows past the end are written", "if row >= params.outer {", "if row > params.outer {"),
            Mutant::new(Tile, "the last vec4 is dropped", "met < quads; met++", "met + 1u < quads; met++"),
            Mutant::new(Accumulator, "a vec4 begins anew", "vec4<f32>(low + values.x)", "vec4<f32>(values.x)"),
            Mutant::new(
                Formula,
                "the sum always runs forwards",
                "select(met, quads - 1u - met, params.reverse != 0u)",
                "met",
            ),
            Mutant::new(Formula, "a lane is left out", "sums.z = sums.y + values.z;", "sums.z = sums.y;"),
        ],
    ],
    ..LINES
};

pub struct CumulativeSum;

impl KernelDefinition for CumulativeSum {
    type Parameters = Parameters;
    const NAME: &'static str = "cumulative_sum";
    const WRITES: &'static [usize] = &[1];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[COLUMNS, ROWS, LINES];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (x, mut y) = (operands.real(0), operands.real_mut(1));
        let (length, inner) = (parameters.length as usize, parameters.inner as usize);
        let mut sums = vec![S::Wide::of(0.0); inner];
        for outer in 0..parameters.outer as usize {
            sums.fill(S::Wide::of(0.0));
            for met in 0..length {
                let position = if parameters.reverse == 0 { met } else { length - 1 - met };
                let first = (outer * length + position) * inner;
                for (column, sum) in sums.iter_mut().enumerate() {
                    *sum += x[first + column].wide();
                    y[first + column] = S::narrow(*sum);
                }
            }
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        bound_sums::<Self>(parameters, operands, u64::from(parameters.length), bounds);
    }

    fn cost(parameters: &Parameters) -> Cost {
        let count = parameters.lines() * u64::from(parameters.length);
        Cost { flops: count, bytes: 8 * count }
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
            (130, 3, 1),
            (66, 132, 1),
            (2, 1, 3),
            (2, 3, 4),
            (1, 33, 12),
            (3, 31, 20),
            (2, 67, 5),
            (1, 300, 17),
            (1, 2500, 8),
            (4, 2500, 1),
            (2, 2501, 1),
            (3, 9000, 1),
        ] {
            for reverse in [0, 1] {
                cases.push(case(outer, length, inner, reverse));
            }
        }
        for (length, inner) in [(64, 1), (63, 1), (63, 4)] {
            for reverse in [0, 1] {
                cases.push(rising_case(length, inner, reverse));
            }
        }
        cases
    }
}

fn case(outer: u32, length: u32, inner: u32, reverse: u32) -> Case {
    let count = (outer * length * inner) as usize;
    Case::new(
        format!("outer={outer} length={length} inner={inner} reverse={reverse} seed=19"),
        Parameters { outer, length, inner, reverse },
        vec![Operand::Input(normal(19, 0, count, 1.0)), Operand::Output(count)],
        // Sums of signs that change are as large as the root of their number, and so is the rounding of each step.
        Tolerance::new(6e-7 * f64::from(length).sqrt(), 5e-7),
    )
}

/// Positive numbers, each nine times the one that the sum met before: whatever reached it from ahead would show.
fn rising_case(length: u32, inner: u32, reverse: u32) -> Case {
    let x = (0..length * inner)
        .map(|element| {
            let position = element / inner;
            let met = if reverse == 0 { position } else { length - 1 - position };
            9.0_f32.powi(met as i32 % 32 - 16)
        })
        .collect();
    Case::new(
        format!("rising numbers outer=1 length={length} inner={inner} reverse={reverse}"),
        Parameters { outer: 1, length, inner, reverse },
        vec![Operand::Input(x), Operand::Output((length * inner) as usize)],
        Tolerance::new(0.0, 1e-6),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Profile;
    use crate::kernel::finite_difference::{assert_gradient, run_twin};

    fn sums(outer: u32, length: u32, inner: u32, reverse: u32, x: &[f64]) -> Vec<f64> {
        let parameters = Parameters { outer, length, inner, reverse };
        run_twin::<CumulativeSum>(&parameters, &[x.to_vec(), vec![f64::NAN; x.len()]]).remove(1)
    }

    #[test]
    fn each_line_is_added_up_from_its_own_start() {
        let x: Vec<f64> = (1..=12).map(f64::from).collect();
        for (outer, length, inner, reverse, expected) in [
            (1, 12, 1, 0, [1.0, 3.0, 6.0, 10.0, 15.0, 21.0, 28.0, 36.0, 45.0, 55.0, 66.0, 78.0]),
            (3, 4, 1, 0, [1.0, 3.0, 6.0, 10.0, 5.0, 11.0, 18.0, 26.0, 9.0, 19.0, 30.0, 42.0]),
            (3, 4, 1, 1, [10.0, 9.0, 7.0, 4.0, 26.0, 21.0, 15.0, 8.0, 42.0, 33.0, 23.0, 12.0]),
            (2, 3, 2, 0, [1.0, 2.0, 4.0, 6.0, 9.0, 12.0, 7.0, 8.0, 16.0, 18.0, 27.0, 30.0]),
            (2, 3, 2, 1, [9.0, 12.0, 8.0, 10.0, 5.0, 6.0, 27.0, 30.0, 20.0, 22.0, 11.0, 12.0]),
            (2, 1, 6, 1, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]),
        ] {
            assert_eq!(sums(outer, length, inner, reverse, &x), expected, "{outer} {length} {inner} {reverse}");
        }
    }

    #[test]
    fn the_sum_that_runs_the_other_way_is_the_gradient() {
        let x: Vec<f64> = normal(1, 0, 30, 1.0).into_iter().map(f64::from).collect();
        let dy: Vec<f64> = normal(1, 1, 30, 1.0).into_iter().map(f64::from).collect();
        for reverse in [0, 1] {
            let gradient = sums(2, 5, 3, 1 - reverse, &dy);
            assert_gradient(|x| sums(2, 5, 3, reverse, x), &x, &dy, &gradient);
        }
    }

    #[test]
    fn no_element_knows_what_comes_after_it() {
        let x: Vec<f64> = normal(2, 0, 40, 1.0).into_iter().map(f64::from).collect();
        let before = sums(1, 40, 1, 0, &x);
        for poison in [f64::NAN, f64::INFINITY, 1e300] {
            let mut poisoned = x.clone();
            poisoned[25] = poison;
            assert_eq!(sums(1, 40, 1, 0, &poisoned)[..25], before[..25]);
        }
    }

    #[test]
    fn lines_that_would_take_too_many_iterations_are_refused() {
        let profile = Profile::webgpu_defaults();
        for (length, inner, runs) in
            [(65_535, 1, true), (65_536, 1, true), (65_537, 1, false), (65_536, 4, false), (262_144, 1, false)]
        {
            let parameters = Parameters { outer: 1, length, inner, reverse: 0 };
            assert_eq!(KERNEL.choose(&parameters, &profile).is_some(), runs, "{length} {inner}");
        }
    }
}
