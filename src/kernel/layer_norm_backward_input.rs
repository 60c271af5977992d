//! Gradient of layer normalisation with respect to its input, from the saved mean and rstd of each row.

use super::layer_norm::{SHAPES, bounded, rows_of_every_kind, whole_vec4};
use super::piece;
use crate::gpu::Piece;
use crate::tape::MutantKind::{Accumulator, Formula, Index, Tile};
use crate::tape::rounding::{OPERATIONS, UNIT, of_sum};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<LayerNormBackwardInput>();

crate::kernel_parameters! {
    /// Operands: `x [rows, width]`, `weight [width]`, `output_gradient [rows, width]`, `statistics [2, rows]` as
    /// [`super::layer_norm`] writes them, `input_gradient [rows, width]`.
    pub struct Parameters {
        rows: u32,
        width: u32,
    }
}

pub struct LayerNormBackwardInput;

const MUTANTS: &[Mutant] = &[
    Mutant::new(
        Accumulator,
        "each value's product replaces those before",
        "product_sum += gradient * normal;",
        "product_sum = gradient * normal;",
    ),
    Mutant::new(Formula, "the mean of the gradient is not taken off", "(gradient - gradient_mean)", "gradient"),
    Mutant::new(Formula, "the share of the variance is left out", " - normal * product_mean", ""),
    Mutant::new(
        Formula,
        "the weight comes into the means only",
        "        let gradient = output_gradient[start + column] * weight[column];
        let normal = (x[start + column] - mean) * rstd;
        input_gradient",
        "        let gradient = output_gradient[start + column];
        let normal = (x[start + column] - mean) * rstd;
        input_gradient",
    ),
    Mutant::new(Index, "the mean is read for rstd", "statistics[params.rows + row]", "statistics[row]"),
    Mutant::new(Tile, "the last row is dropped", "row >= params.rows", "row + 1u >= params.rows"),
];

const fn design(
    name: &'static str,
    pieces: &'static [&'static Piece],
    supports: fn(&Parameters) -> Result<(), String>,
) -> Design<Parameters> {
    Design {
        name,
        file: "layer_norm_backward_input.wgsl",
        text: include_str!("../../shaders/layer_norm_backward_input.wgsl"),
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

impl KernelDefinition for LayerNormBackwardInput {
    type Parameters = Parameters;
    const NAME: &'static str = "layer_norm_backward_input";
    const WRITES: &'static [usize] = &[4];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            design("vec4", &[&piece::LINEAR_INDEX, &piece::VEC4_VALUES], |parameters| {
                whole_vec4(parameters.width)?;
                bounded(parameters.width, 2, 4)
            }),
            design("scalar", &[&piece::LINEAR_INDEX, &piece::SCALAR_VALUES], |parameters| {
                bounded(parameters.width, 2, 1)
            }),
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (x, weight, output_gradient) = (operands.real(0), operands.real(1), operands.real(2));
        let (statistics, mut input_gradient) = (operands.real(3), operands.real_mut(4));
        let (rows, width) = (parameters.rows as usize, parameters.width as usize);
        let count = S::Wide::of(width as f64);
        for row in 0..rows {
            let (mean, rstd) = (statistics[row].wide(), statistics[rows + row].wide());
            // (g, n) of each element.
            let elements = || {
                let x = &x[row * width..][..width];
                let output_gradient = &output_gradient[row * width..][..width];
                x.iter().zip(output_gradient).zip(&weight[..width]).map(move |((x, output_gradient), weight)| {
                    (output_gradient.wide() * weight.wide(), (x.wide() - mean) * rstd)
                })
            };
            let gradient_mean = elements().map(|(gradient, _)| gradient).sum::<S::Wide>() / count;
            let product_mean = elements().map(|(gradient, normal)| gradient * normal).sum::<S::Wide>() / count;
            let input_gradient = &mut input_gradient[row * width..][..width];
            for (input_gradient, (gradient, normal)) in input_gradient.iter_mut().zip(elements()) {
                *input_gradient = S::narrow(rstd * (gradient - gradient_mean - normal * product_mean));
            }
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let (x, weight, output_gradient) = (operands.real(0), operands.real(1), operands.real(2));
        let statistics = operands.real(3);
        let (rows, width) = (parameters.rows as usize, parameters.width as usize);
        let of_mean = of_sum(parameters.width.into());
        for row in 0..rows {
            let (mean, rstd) = (statistics[row].wide(), statistics[rows + row].wide());
            // Magnitudes of (g, n) of each element; n is a difference and carries the rounding of its terms.
            let elements = || {
                let x = &x[row * width..][..width];
                let output_gradient = &output_gradient[row * width..][..width];
                x.iter().zip(output_gradient).zip(&weight[..width]).map(move |((x, output_gradient), weight)| {
                    let normal = rstd * (x.wide() - mean).abs();
                    let of_normal = rstd * UNIT * (x.wide().abs() + mean.abs());
                    ((output_gradient.wide() * weight.wide()).abs(), normal, of_normal)
                })
            };
            let mean_of = |f: &dyn Fn((f64, f64, f64)) -> f64| elements().map(f).sum::<f64>() / width as f64;
            let gradient_mean = mean_of(&|(gradient, _, _)| gradient);
            let product_mean = mean_of(&|(gradient, normal, _)| gradient * normal);
            let of_product = mean_of(&|(gradient, _, of_normal)| gradient * of_normal) + of_mean * product_mean;
            for (bound, (gradient, normal, of_normal)) in bounds[0][row * width..].iter_mut().zip(elements()) {
                *bound = rstd
                    * (OPERATIONS * gradient
                        + of_mean * gradient_mean
                        + normal * of_product
                        + (OPERATIONS * normal + of_normal) * product_mean);
            }
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let (rows, width) = (u64::from(parameters.rows), u64::from(parameters.width));
        Cost { flops: 12 * rows * width, bytes: 4 * (3 * rows * width + width + 2 * rows) }
    }

    fn cases() -> Vec<Case> {
        SHAPES
            .iter()
            .map(|&(rows, width)| {
                let operands = vec![
                    Operand::Input(rows_of_every_kind(rows, width)),
                    Operand::Input(normal(3, 1, width, 1.0)),
                    Operand::Input(normal(3, 2, rows * width, 1.0)),
                    Operand::Input(statistics(&rows_of_every_kind(rows, width), width)),
                    Operand::Output(rows * width),
                ];
                let parameters = Parameters { rows: rows as u32, width: width as u32 };
                // The gradient of a constant or small row is a difference of numbers near 1, times an rstd of 300.
                let absolute = if (3..=100).contains(&rows) { 1e-4 } else { 3e-6 };
                let name = format!("rows={rows} C={width} seed=3");
                Case::new(name, parameters, operands, Tolerance::new(absolute, 1e-6))
            })
            .collect()
    }
}

/// Means, then reciprocal standard deviations of rows, as [`super::layer_norm`] saves them with an epsilon of 1e-5.
pub(super) fn statistics(x: &[f32], width: usize) -> Vec<f32> {
    let mean = |row: &[f32]| row.iter().map(|&value| f64::from(value)).sum::<f64>() / width as f64;
    let variance = |row: &[f32]| {
        let mean = mean(row);
        row.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum::<f64>() / width as f64
    };
    let rows = || x.chunks_exact(width);
    rows().map(|row| mean(row) as f32).chain(rows().map(|row| (1.0 / (variance(row) + 1e-5).sqrt()) as f32)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::finite_difference::{assert_is_gradient, numbers, run};
    use crate::kernel::layer_norm::{self, LayerNorm};
    use crate::tape::HostBuffer;

    #[test]
    fn the_gradient_is_that_of_the_forward_kernel() {
        let (rows, width) = (3usize, 5usize);
        let seeded = |tensor, count| normal(4, tensor, count, 1.0).iter().map(|&value| f64::from(value)).collect();
        let (x, weight, bias): (Vec<f64>, Vec<f64>, Vec<f64>) =
            (seeded(0, rows * width), seeded(1, width), seeded(2, width));
        let output_gradient: Vec<f64> = seeded(3, rows * width);
        let forward = |x: &[f64]| {
            let parameters = layer_norm::Parameters { rows: rows as u32, width: width as u32, epsilon: 1e-2 };
            let operands = [x.to_vec(), weight.clone(), bias.clone(), vec![0.0; rows * width], vec![0.0; 2 * rows]];
            run::<LayerNorm>(&parameters, operands.into_iter().map(HostBuffer::Real).collect())
        };
        let statistics = numbers(&forward(&x)[4]).to_vec();
        let parameters = Parameters { rows: rows as u32, width: width as u32 };
        let operands = [x.clone(), weight.clone(), output_gradient.clone(), statistics, vec![0.0; rows * width]];
        let results = run::<LayerNormBackwardInput>(&parameters, operands.into_iter().map(HostBuffer::Real).collect());
        assert_is_gradient("input_gradient", numbers(&results[4]), &x, |x| {
            numbers(&forward(x)[3]).iter().zip(&output_gradient).map(|(y, gradient)| y * gradient).sum()
        });
    }
}
