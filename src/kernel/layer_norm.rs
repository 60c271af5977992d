//! Layer normalisation: `y = (x - mean) * rstd * weight + bias` over the last axis (Ba, Kiros and Hinton 2016,
//! section 3), with the biased variance and epsilon inside the root, as GPT-2 has it.

use super::loop_limit;
use super::piece;
use crate::gpu::Piece;
use crate::tape::MutantKind::{Accumulator, Formula, Index, Tile};
use crate::tape::rounding::{OPERATIONS, UNIT, of_sum};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<LayerNorm>();

crate::kernel_parameters! {
    /// Operands: `x [rows, width]`, `weight [width]`, `bias [width]`, `y [rows, width]`,
    /// `statistics [2, rows]` (all means, then all reciprocal standard deviations).
    pub struct Parameters {
        rows: u32,
        width: u32,
        /// Added to the variance before the root.
        epsilon: f32,
    }
}

pub struct LayerNorm;

const MUTANTS: &[Mutant] = &[
    Mutant::new(
        Accumulator,
        "each value's square replaces those before",
        "squares += deviation * deviation;",
        "squares = deviation * deviation;",
    ),
    Mutant::new(Formula, "the mean is not corrected", "- first_mean) - correction) * rstd", "- first_mean)) * rstd"),
    Mutant::new(
        Formula,
        "the variance is the mean square",
        "let deviation = x[start + column] - first_mean;",
        "let deviation = x[start + column];",
    ),
    Mutant::new(Formula, "the bias is dropped", " + bias[column]", ""),
    Mutant::new(Index, "rstd overwrites the means", "statistics[params.rows + row]", "statistics[row]"),
    Mutant::new(
        Formula,
        "epsilon stands outside of the root",
        "sqrt(variance + params.epsilon)",
        "(sqrt(variance) + params.epsilon)",
    ),
    Mutant::new(Tile, "the last row is dropped", "row >= params.rows", "row + 1u >= params.rows"),
];

const fn design(
    name: &'static str,
    pieces: &'static [&'static Piece],
    supports: fn(&Parameters) -> Result<(), String>,
) -> Design<Parameters> {
    Design {
        name,
        file: "layer_norm.wgsl",
        text: include_str!("../../shaders/layer_norm.wgsl"),
        pieces,
        preference: Preference::Any,
        subgroup_width: None,
        supports,
        constants: |_| Vec::new(),
        generated: |_| String::new(),
        workgroups: |parameters| [u64::from(parameters.rows).div_ceil(8), 1, 1],
        mutants: &[MUTANTS],
    }
}

/// Rows that start at whole vec4.
pub(super) fn whole_vec4(width: u32) -> Result<(), String> {
    match width.is_multiple_of(4) {
        true => Ok(()),
        false => Err(format!("needs rows of a multiple of 4 elements, these have {width}")),
    }
}

/// So many passes over a row, one value an iteration.
pub(super) fn bounded(width: u32, passes: u64, lanes: u32) -> Result<(), String> {
    loop_limit::within(passes * (u64::from(width.div_ceil(lanes)) + 1))
}

impl KernelDefinition for LayerNorm {
    type Parameters = Parameters;
    const NAME: &'static str = "layer_norm";
    const WRITES: &'static [usize] = &[3, 4];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            design("vec4", &[&piece::LINEAR_INDEX, &piece::VEC4_VALUES], |parameters| {
                whole_vec4(parameters.width)?;
                bounded(parameters.width, 3, 4)
            }),
            design("scalar", &[&piece::LINEAR_INDEX, &piece::SCALAR_VALUES], |parameters| {
                bounded(parameters.width, 3, 1)
            }),
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (x, weight, bias) = (operands.real(0), operands.real(1), operands.real(2));
        let (mut y, mut statistics) = (operands.real_mut(3), operands.real_mut(4));
        let (rows, width) = (parameters.rows as usize, parameters.width as usize);
        let count = S::Wide::of(width as f64);
        for row in 0..rows {
            let x = &x[row * width..][..width];
            let mean = x.iter().map(|value| value.wide()).sum::<S::Wide>() / count;
            let squares = x.iter().map(|value| (value.wide() - mean) * (value.wide() - mean)).sum::<S::Wide>();
            let rstd = S::Wide::of(1.0) / (squares / count + S::Wide::of(parameters.epsilon)).sqrt();
            let scaled = x.iter().zip(&weight[..width]).zip(&bias[..width]);
            for (y, ((value, weight), bias)) in y[row * width..][..width].iter_mut().zip(scaled) {
                *y = S::narrow((value.wide() - mean) * rstd * weight.wide() + bias.wide());
            }
            statistics[row] = S::narrow(mean);
            statistics[rows + row] = S::narrow(rstd);
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let (x, weight, bias) = (operands.real(0), operands.real(1), operands.real(2));
        let (rows, width) = (parameters.rows as usize, parameters.width as usize);
        let of_mean = of_sum(parameters.width.into());
        for row in 0..rows {
            let x = &x[row * width..][..width];
            let mean_of = |f: &dyn Fn(f64) -> f64| x.iter().map(|value| f(value.wide())).sum::<f64>() / width as f64;
            let (mean, magnitude) = (mean_of(&|value| value), mean_of(&f64::abs));
            let rstd = 1.0 / (mean_of(&|value| (value - mean) * (value - mean)) + parameters.epsilon).sqrt();
            // Deviations carry the rounding of the values they are the difference of, and rstd carries theirs.
            let deviation_error = |value: f64| UNIT * (value.abs() + mean.abs()) + OPERATIONS * (value - mean).abs();
            let of_rstd = of_mean + 2.0 * rstd * rstd * mean_of(&|value| (value - mean).abs() * deviation_error(value));
            let scaled = x.iter().zip(&weight[..width]).zip(&bias[..width]);
            for (bound, ((value, weight), bias)) in bounds[0][row * width..].iter_mut().zip(scaled) {
                let (value, weight) = (value.wide(), weight.wide());
                let of_normal =
                    rstd * (deviation_error(value) + 4.0 * UNIT * magnitude) + of_rstd * rstd * (value - mean).abs();
                *bound = of_normal * weight.abs()
                    + OPERATIONS * (rstd * (value - mean) * weight).abs()
                    + OPERATIONS * bias.wide().abs();
            }
            bounds[1][row] = of_mean * magnitude;
            bounds[1][rows + row] = (OPERATIONS + of_rstd) * rstd;
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let (rows, width) = (u64::from(parameters.rows), u64::from(parameters.width));
        Cost { flops: 9 * rows * width, bytes: 4 * (2 * rows * width + 2 * width + 2 * rows) }
    }

    fn cases() -> Vec<Case> {
        SHAPES
            .iter()
            .map(|&(rows, width)| {
                let operands = vec![
                    Operand::Input(rows_of_every_kind(rows, width)),
                    Operand::Input(normal(2, 1, width, 1.0)),
                    Operand::Input(normal(2, 2, width, 1.0)),
                    Operand::Output(rows * width),
                    Operand::Output(2 * rows),
                ];
                let parameters = Parameters { rows: rows as u32, width: width as u32, epsilon: 1e-5 };
                Case::new(format!("rows={rows} C={width} seed=2"), parameters, operands, Tolerance::new(2e-6, 1e-6))
            })
            .collect()
    }
}

/// (rows, width) of the cases: one element, ragged and whole vec4, a workgroup's eight rows less and more, wide rows.
pub(super) const SHAPES: &[(usize, usize)] =
    &[(1, 1), (3, 1), (1, 4), (7, 33), (8, 32), (9, 128), (67, 20), (3, 200), (4, 769), (5, 1600), (768, 128)];

/// Unit-normal rows, among them, where they are few, one with a mean of 100, a constant one, a small and a large one.
pub(super) fn rows_of_every_kind(rows: usize, width: usize) -> Vec<f32> {
    let mut x = normal(2, 0, rows * width, 1.0);
    for (row, x) in x.chunks_exact_mut(width).enumerate() {
        for value in x {
            *value = match row {
                _ if rows > 100 => *value,
                1 => *value + 100.0,
                2 => 3.25,
                3 => *value * 1e-3,
                4 => *value * 1e4,
                _ => *value,
            };
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::finite_difference::{numbers, run};
    use crate::tape::HostBuffer;

    #[test]
    fn the_twin_equals_values_worked_out_by_hand() {
        // Row 0: mean 2, variance 2/3, epsilon 1/3, so rstd is 1. Row 1 is constant: rstd is sqrt(3).
        let parameters = Parameters { rows: 2, width: 3, epsilon: 1.0 / 3.0 };
        let results = run::<LayerNorm>(
            &parameters,
            vec![
                HostBuffer::Real(vec![1.0, 2.0, 3.0, 5.0, 5.0, 5.0]),
                HostBuffer::Real(vec![2.0, 3.0, 4.0]),
                HostBuffer::Real(vec![0.5, 0.25, 0.0]),
                HostBuffer::Real(vec![0.0; 6]),
                HostBuffer::Real(vec![0.0; 4]),
            ],
        );
        for (found, expected) in
            [(&results[3], vec![-1.5, 0.25, 4.0, 0.5, 0.25, 0.0]), (&results[4], vec![2.0, 5.0, 1.0, 3f64.sqrt()])]
        {
            for (found, expected) in numbers(found).iter().zip(expected) {
                assert!((found - expected).abs() < 1e-12, "{found} {expected}");
            }
        }
    }
}
