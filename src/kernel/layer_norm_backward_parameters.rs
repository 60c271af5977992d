//! Gradients of layer normalisation with respect to its weight and bias: sums over all rows, without atomics.

use super::layer_norm::{SHAPES, rows_of_every_kind, whole_vec4};
use super::layer_norm_backward_input::statistics;
use super::loop_limit;
use super::piece;
use crate::gpu::Piece;
use crate::tape::MutantKind::{Accumulator, Formula, Index, Tile};
use crate::tape::rounding::{UNIT, of_sum};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<LayerNormBackwardParameters>();

crate::kernel_parameters! {
    /// Operands: `x [rows, width]`, `output_gradient [rows, width]`, `statistics [2, rows]` as [`super::layer_norm`]
    /// writes them, `weight_gradient [width]`, `bias_gradient [width]`.
    pub struct Parameters {
        rows: u32,
        width: u32,
    }
}

pub struct LayerNormBackwardParameters;

const MUTANTS: &[Mutant] = &[
    Mutant::new(
        Accumulator,
        "every block replaces the one before",
        "total.weight += block.weight;",
        "total.weight = block.weight;",
    ),
    Mutant::new(
        Index,
        "the bias takes the weight's sum",
        "bias_gradient[column] = total.bias;",
        "bias_gradient[column] = total.weight;",
    ),
    Mutant::new(Formula, "the mean is not taken off", " - statistics[row])", ")"),
    Mutant::new(
        Tile,
        "rows behind the last four of a block are dropped",
        "for (; row < end; row += 1u) {",
        "for (; row + 1u < end; row += 1u) {",
    ),
    Mutant::new(
        Tile,
        "the last four rows of a block are dropped",
        "for (; row + 3u < end; row += 4u) {
            block = with_row(block, row, column, columns);",
        "for (; row + 3u < end; row += 4u) {",
    ),
    Mutant::new(Tile, "the last column is dropped", "if column >= columns {", "if column + 1u >= columns {"),
];

const fn design(
    name: &'static str,
    pieces: &'static [&'static Piece],
    supports: fn(&Parameters) -> Result<(), String>,
    workgroups: fn(&Parameters) -> [u64; 3],
) -> Design<Parameters> {
    Design {
        name,
        file: "layer_norm_backward_parameters.wgsl",
        text: include_str!("../../shaders/layer_norm_backward_parameters.wgsl"),
        pieces,
        preference: Preference::Any,
        subgroup_width: None,
        supports,
        constants: |_| Vec::new(),
        generated: |_| String::new(),
        workgroups,
        mutants: &[MUTANTS],
    }
}

/// Four rows an iteration, in blocks of 64 rows; the last of them may have three single rows.
fn bounded(parameters: &Parameters) -> Result<(), String> {
    let (fours, blocks) = (u64::from(parameters.rows / 4), u64::from(parameters.rows.div_ceil(64)));
    loop_limit::within(fours + 3 * blocks + 4)
}

impl KernelDefinition for LayerNormBackwardParameters {
    type Parameters = Parameters;
    const NAME: &'static str = "layer_norm_backward_parameters";
    const WRITES: &'static [usize] = &[3, 4];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            design(
                "vec4",
                &[&piece::LINEAR_INDEX, &piece::VEC4_VALUES],
                |parameters| {
                    whole_vec4(parameters.width)?;
                    bounded(parameters)
                },
                |parameters| [u64::from(parameters.width).div_ceil(4 * 8), 1, 1],
            ),
            design("scalar", &[&piece::LINEAR_INDEX, &piece::SCALAR_VALUES], bounded, |parameters| {
                [u64::from(parameters.width).div_ceil(8), 1, 1]
            }),
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (x, output_gradient, statistics) = (operands.real(0), operands.real(1), operands.real(2));
        let (mut weight_gradient, mut bias_gradient) = (operands.real_mut(3), operands.real_mut(4));
        let (rows, width) = (parameters.rows as usize, parameters.width as usize);
        let mut sums = vec![(S::Wide::of(0.0), S::Wide::of(0.0)); width];
        for row in 0..rows {
            let (mean, rstd) = (statistics[row].wide(), statistics[rows + row].wide());
            let elements = x[row * width..][..width].iter().zip(&output_gradient[row * width..][..width]);
            for ((weight_sum, bias_sum), (x, gradient)) in sums.iter_mut().zip(elements) {
                *weight_sum += gradient.wide() * (x.wide() - mean) * rstd;
                *bias_sum += gradient.wide();
            }
        }
        for (column, (weight_sum, bias_sum)) in sums.into_iter().enumerate() {
            weight_gradient[column] = S::narrow(weight_sum);
            bias_gradient[column] = S::narrow(bias_sum);
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let (x, output_gradient, statistics) = (operands.real(0), operands.real(1), operands.real(2));
        let (rows, width) = (parameters.rows as usize, parameters.width as usize);
        let of_sum = of_sum(parameters.rows.into());
        for row in 0..rows {
            let (mean, rstd) = (statistics[row].wide(), statistics[rows + row].wide());
            for column in 0..width {
                let (x, gradient) =
                    (x[row * width + column].wide(), output_gradient[row * width + column].wide().abs());
                let of_deviation = UNIT * (x.abs() + mean.abs());
                bounds[0][column] += gradient * rstd * (of_sum * (x - mean).abs() + of_deviation);
                bounds[1][column] += of_sum * gradient;
            }
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let (rows, width) = (u64::from(parameters.rows), u64::from(parameters.width));
        Cost { flops: 5 * rows * width, bytes: 4 * (2 * rows * width + 2 * rows + 2 * width) }
    }

    fn cases() -> Vec<Case> {
        // Beside the common shapes: a block's rows and one more, and many rows.
        let shapes = SHAPES.iter().copied().chain([(63, 5), (64, 8), (65, 36), (20_000, 4), (200_003, 1)]);
        shapes
            .map(|(rows, width)| {
                let x = rows_of_every_kind(rows, width);
                let operands = vec![
                    Operand::Input(x.clone()),
                    Operand::Input(normal(5, 1, rows * width, 1.0)),
                    Operand::Input(statistics(&x, width)),
                    Operand::Output(width),
                    Operand::Output(width),
                ];
                let parameters = Parameters { rows: rows as u32, width: width as u32 };
                // The rounding of a sum of n terms of size 1 grows with the root of n.
                let absolute = 1e-6 * (rows as f64).sqrt();
                Case::new(format!("rows={rows} C={width} seed=5"), parameters, operands, Tolerance::new(absolute, 1e-6))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::finite_difference::{numbers, run};
    use crate::tape::HostBuffer;

    #[test]
    fn the_twin_equals_values_worked_out_by_hand() {
        // Normalised rows: (-1, 1) and, with mean 4 and rstd 1/2, (-1, 1).
        let operands = [
            vec![1.0, 3.0, 2.0, 6.0],
            vec![10.0, 20.0, 1.0, 2.0],
            vec![2.0, 4.0, 1.0, 0.5],
            vec![0.0; 2],
            vec![0.0; 2],
        ];
        let results = run::<LayerNormBackwardParameters>(
            &Parameters { rows: 2, width: 2 },
            operands.into_iter().map(HostBuffer::Real).collect(),
        );
        assert_eq!(numbers(&results[3]), [-11.0, 22.0]);
        assert_eq!(numbers(&results[4]), [11.0, 22.0]);
    }
}
