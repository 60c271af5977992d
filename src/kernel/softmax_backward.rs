//! The gradient of softmax along one axis of `[outer, length, inner]`.

use super::piece;
use super::softmax::{columns_in_fours, columns_of_four, rows_in_fours, shapes};
use super::split_reduction::{self, Sharing};
use crate::gpu::AdapterKind;
use crate::tape::MutantKind::{Accumulator, Formula, Index, Tile};
use crate::tape::rounding::{OPERATIONS, of_sum};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<SoftmaxBackward>();

crate::kernel_parameters! {
    /// Operands: `y` (the weights that softmax gave), `dy`, `dx`, all `[outer, length, inner]` and contiguous.
    pub struct Parameters {
        outer: u32,
        length: u32,
        inner: u32,
    }
}

impl Parameters {
    fn results(&self) -> u64 {
        u64::from(self.outer) * u64::from(self.inner)
    }

    fn count(&self) -> u64 {
        self.results() * u64::from(self.length)
    }
}

/// Mutants of `softmax_backward.wgsl`, however many invocations share a result.
const BOTH_MUTANTS: &[Mutant] = &[
    Mutant::new(
        Index,
        "the outer dimension is walked without its length",
        "outer * params.length * params.inner + (column",
        "outer * params.inner + (column",
    ),
    Mutant::new(
        Tile,
        "a column past the end is written",
        "column < params.outer * params.inner)",
        "column <= params.outer * params.inner)",
    ),
    Mutant::new(Accumulator, "the sum keeps only the last position", "dot += y[at] * dy[at];", "dot = y[at] * dy[at];"),
    Mutant::new(
        Formula,
        "the sum of the row is not taken off",
        "dx[at] = y[at] * (dy[at] - dot);",
        "dx[at] = y[at] * dy[at];",
    ),
];

/// Up to a workgroup of invocations for each result; runs everything, everywhere.
const SHARED: Design<Parameters> = Design {
    name: "shared",
    file: "softmax_backward.wgsl",
    text: include_str!("../../shaders/softmax_backward.wgsl"),
    pieces: &[&piece::LINEAR_WORKGROUP, &piece::SPLIT_REDUCTION, &piece::SPLIT_SUM],
    preference: Preference::Any,
    subgroup_width: None,
    supports: |p| split_reduction::walks(Sharing::Shared, p.length, p.inner, 2),
    constants: |p| split_reduction::constants(Sharing::Shared, p.length, p.inner),
    generated: |_| String::new(),
    workgroups: |p| split_reduction::workgroups(Sharing::Shared, p.results(), p.length, p.inner),
    mutants: &[BOTH_MUTANTS, split_reduction::SUM_MUTANTS],
};

/// The same text with one invocation for each result.
const SERIAL: Design<Parameters> = Design {
    name: "serial",
    pieces: &[&piece::LINEAR_WORKGROUP, &piece::SERIAL_REDUCTION],
    preference: Preference::Only(AdapterKind::Software),
    supports: |p| split_reduction::walks(Sharing::Serial, p.length, p.inner, 2),
    constants: |p| split_reduction::constants(Sharing::Serial, p.length, p.inner),
    workgroups: |p| split_reduction::workgroups(Sharing::Serial, p.results(), p.length, p.inner),
    mutants: &[BOTH_MUTANTS],
    ..SHARED
};

pub struct SoftmaxBackward;

impl KernelDefinition for SoftmaxBackward {
    type Parameters = Parameters;
    const NAME: &'static str = "softmax_backward";
    const WRITES: &'static [usize] = &[2];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            Design {
                name: "columns",
                file: "softmax_backward_columns.wgsl",
                text: include_str!("../../shaders/softmax_backward_columns.wgsl"),
                pieces: &[&piece::LINEAR_INDEX],
                preference: Preference::Only(AdapterKind::Software),
                subgroup_width: None,
                supports: |parameters| columns_in_fours(parameters.length, parameters.inner),
                constants: |_| Vec::new(),
                generated: |_| String::new(),
                workgroups: |parameters| columns_of_four(parameters.outer, parameters.inner),
                mutants: &[&[
                    Mutant::new(
                        Index,
                        "the outer dimension is walked without its length",
                        "outer * params.length * inner + (columns",
                        "outer * inner + (columns",
                    ),
                    Mutant::new(
                        Tile,
                        "columns past the end are written",
                        "if columns >= params.outer * inner {",
                        "if columns > params.outer * inner {",
                    ),
                    Mutant::new(
                        Accumulator,
                        "the sum keeps only the last position",
                        "dot += y[at] * dy[at];",
                        "dot = y[at] * dy[at];",
                    ),
                ]],
            },
            Design {
                name: "rows",
                file: "softmax_backward_rows.wgsl",
                text: include_str!("../../shaders/softmax_backward_rows.wgsl"),
                pieces: &[&piece::LINEAR_INDEX],
                preference: Preference::Only(AdapterKind::Software),
                subgroup_width: None,
                supports: |parameters| rows_in_fours(parameters.length, parameters.inner),
                constants: |_| Vec::new(),
                generated: |_| String::new(),
                workgroups: |parameters| [u64::from(parameters.outer).div_ceil(8), 1, 1],
                mutants: &[&[
                    Mutant::new(
                        Index,
                        "rows lie four times as far apart",
                        "let first = row * quads;",
                        "let first = row * params.length;",
                    ),
                    Mutant::new(
                        Accumulator,
                        "each vec4 of products replaces those before",
                        "sums += y[first + quad]",
                        "sums = y[first + quad]",
                    ),
                    Mutant::new(
                        Tile,
                        "rows past the end are written",
                        "if row >= params.outer {",
                        "if row > params.outer {",
                    ),
                    Mutant::new(
                        Formula,
                        "a lane is missing from the sum",
                        "(sums.x + sums.y) + (sums.z + sums.w)",
                        "(sums.x + sums.y) + sums.z",
                    ),
                ]],
            },
            SERIAL,
            SHARED,
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (y, dy, mut dx) = (operands.real(0), operands.real(1), operands.real_mut(2));
        let (length, inner) = (parameters.length as usize, parameters.inner as usize);
        let mut dot = vec![S::Wide::of(0.0); inner];
        for outer in 0..parameters.outer as usize {
            let all = outer * length * inner..(outer + 1) * length * inner;
            dot.fill(S::Wide::of(0.0));
            for (y, dy) in y[all.clone()].chunks_exact(inner).zip(dy[all.clone()].chunks_exact(inner)) {
                for column in 0..inner {
                    dot[column] += y[column].wide() * dy[column].wide();
                }
            }
            let rows = y[all.clone()].chunks_exact(inner).zip(dy[all.clone()].chunks_exact(inner));
            for (dx, (y, dy)) in dx[all].chunks_exact_mut(inner).zip(rows) {
                for column in 0..inner {
                    dx[column] = S::narrow(y[column].wide() * (dy[column].wide() - dot[column]));
                }
            }
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let (y, dy) = (operands.real(0), operands.real(1));
        let (length, inner) = (parameters.length as usize, parameters.inner as usize);
        let of_sum = of_sum(parameters.length.into());
        for result in 0..parameters.outer as usize * inner {
            let first = result / inner * length * inner + result % inner;
            let at = |index: usize| (y[first + index * inner].wide().abs(), dy[first + index * inner].wide().abs());
            let dot: f64 = (0..length).map(at).map(|(y, dy)| y * dy).sum();
            for index in 0..length {
                let (y, dy) = at(index);
                bounds[0][first + index * inner] = y * (OPERATIONS * dy + of_sum * dot);
            }
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let count = parameters.count();
        Cost { flops: 4 * count, bytes: 12 * count }
    }

    fn cases() -> Vec<Case> {
        let mut cases: Vec<Case> = shapes()
            .into_iter()
            .map(|(outer, length, inner)| {
                let parameters = Parameters { outer, length, inner };
                let count = parameters.count() as usize;
                // Weights of about the size that a softmax gives; every fifth one is 0, as masked ones are.
                let scale = 1.0 / length as f32;
                let weights = normal(10, 0, count, 1.0).into_iter().enumerate();
                let y = weights.map(|(index, value)| if index % 5 == 4 { 0.0 } else { value.abs() * scale }).collect();
                Case::new(
                    format!("outer={outer} length={length} inner={inner} seed=10"),
                    parameters,
                    vec![Operand::Input(y), Operand::Input(normal(10, 1, count, 1.0)), Operand::Output(count)],
                    Tolerance::new(5e-7, 2e-6),
                )
            })
            .collect();
        for (outer, length, inner) in [(9, 12, 1), (9, 33, 1), (9, 5, 8), (2, 70, 3)] {
            cases.push(case_with_nan(outer, length, inner));
        }
        cases
    }
}

/// Weights that are NaN first, last, or all along, as a softmax makes them, and in between rows that have none.
fn case_with_nan(outer: u32, length: u32, inner: u32) -> Case {
    let parameters = Parameters { outer, length, inner };
    let (count, row) = (parameters.count() as usize, (length * inner) as usize);
    let mut y: Vec<f32> = normal(10, 0, count, 1.0).into_iter().map(|value| value.abs() / length as f32).collect();
    for (number, weights) in y.chunks_exact_mut(row).enumerate() {
        match number % 4 {
            0 => weights[0] = f32::NAN,
            1 => weights[row - 1] = -f32::NAN,
            2 => weights.fill(f32::NAN),
            _ => {}
        }
    }
    Case::new(
        format!("outer={outer} length={length} inner={inner} with NaN seed=10"),
        parameters,
        vec![Operand::Input(y), Operand::Input(normal(10, 1, count, 1.0)), Operand::Output(count)],
        Tolerance::new(5e-7, 2e-6),
    )
    .with_nan()
}

#[cfg(test)]
mod tests {
    use super::super::softmax::{self, MASKED, Softmax};
    use super::*;
    use crate::kernel::finite_difference::{assert_gradient, run_twin};

    #[test]
    fn it_is_the_derivative_of_softmax_along_every_axis() {
        for (outer, length, inner) in [(2, 5, 1), (1, 4, 3), (2, 3, 2)] {
            let count = outer * length * inner;
            let mut x: Vec<f64> = (0..count).map(|index| f64::from(index * 11 % 7) * 0.3 - 1.0).collect();
            x[1] = MASKED;
            let dy: Vec<f64> = (0..count).map(|index| f64::from(index * 5 % 9) * 0.25 - 1.0).collect();
            let unwritten = vec![f64::NAN; count as usize];
            let forward = |x: &[f64]| {
                let parameters = softmax::Parameters { outer, length, inner };
                run_twin::<Softmax>(&parameters, &[x.to_vec(), unwritten.clone()]).remove(1)
            };
            let parameters = Parameters { outer, length, inner };
            let operands = [forward(&x), dy.clone(), unwritten.clone()];
            let gradient = run_twin::<SoftmaxBackward>(&parameters, &operands).remove(2);
            assert_eq!(gradient[1], 0.0, "a masked score has no gradient");
            assert_gradient(forward, &x, &dy, &gradient);
        }
    }
}
