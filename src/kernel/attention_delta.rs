//! Row statistics for the backward passes of fused attention: the largest score `m` and `1 / l` of each query, and
//! `delta = output_gradient . output` (Dao 2023, Algorithm 2), packed so that one load reads all three.

use super::attention_cases::setups;
use super::attention_reference::{self as reference, Rows};
use super::attention_rows::{Operations, RowText, Storage};
use super::attention_shape::{AttentionShape, RowView};
use super::piece;
use crate::tape::MutantKind::{Accumulator, Formula, Index, Tile};
use crate::tape::rounding::bound_sums;
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<AttentionDelta>();

crate::kernel_parameters! {
    /// Operands: `output [B, H, Tq, D]` and `output_gradient [B, H, Tq, D]`, rows by offset and strides in elements,
    /// `softmax_statistics [2, B, H, Tq]` as [`super::attention_forward`] writes it and `row_statistics [B, H, Tq, 4]`,
    /// contiguous. The four numbers of a query are `m`, `1 / l` (0 where it sees no key), delta, and 0.
    pub struct Parameters {
        batch: u32,
        heads: u32,
        query_length: u32,
        head_dim: u32,
        output_offset: u32,
        output_batch_stride: u32,
        output_head_stride: u32,
        output_row_stride: u32,
        output_gradient_offset: u32,
        output_gradient_batch_stride: u32,
        output_gradient_head_stride: u32,
        output_gradient_row_stride: u32,
    }
}

impl Parameters {
    /// Parameters from the sizes and from where the rows lie: `output` and `output_gradient [B, H, Tq, D]`; keys have no part in it.
    pub fn new(shape: &AttentionShape, [output, output_gradient]: [RowView; 2]) -> Self {
        Self {
            batch: shape.batch,
            heads: shape.heads,
            query_length: shape.query_length,
            head_dim: shape.head_dim,
            output_offset: output.offset,
            output_batch_stride: output.batch_stride,
            output_head_stride: output.head_stride,
            output_row_stride: output.row_stride,
            output_gradient_offset: output_gradient.offset,
            output_gradient_batch_stride: output_gradient.batch_stride,
            output_gradient_head_stride: output_gradient.head_stride,
            output_gradient_row_stride: output_gradient.row_stride,
        }
    }

    /// Sizes; keys have no part in this kernel.
    fn shape(&self) -> AttentionShape {
        AttentionShape {
            batch: self.batch,
            heads: self.heads,
            key_value_heads: self.heads,
            query_length: self.query_length,
            key_length: self.query_length,
            head_dim: self.head_dim,
            causal: false,
            scale: 1.0,
        }
    }

    fn output(&self) -> RowView {
        RowView::new(self.output_offset, self.output_batch_stride, self.output_head_stride, self.output_row_stride)
    }

    fn output_gradient(&self) -> RowView {
        RowView::new(
            self.output_gradient_offset,
            self.output_gradient_batch_stride,
            self.output_gradient_head_stride,
            self.output_gradient_row_stride,
        )
    }
}

const fn rows(storage: Storage) -> RowText {
    RowText { storage, loads: &["output", "output_gradient"], stores: &[], operations: Operations::Rows }
}

fn workgroups(parameters: &Parameters) -> [u64; 3] {
    [parameters.shape().query_rows().div_ceil(64), 1, 1]
}

const MUTANTS: &[Mutant] = &[
    Mutant::new(
        Accumulator,
        "the first products of a row are overwritten",
        "sum += a.c1 * b.c1;",
        "sum = a.c1 * b.c1;",
    ),
    Mutant::new(
        Index,
        "the largest score and the sum are swapped",
        "let sum = softmax_statistics[count + index];",
        "let sum = softmax_statistics[index];",
    ),
    Mutant::new(
        Index,
        "the statistics lie one query off",
        "row_statistics[index] = vec4",
        "row_statistics[index + 1u] = vec4",
    ),
    Mutant::new(
        Formula,
        "a query that sees nothing divides by its sum",
        "select(1.0 / sum, 0.0, sum == 0.0)",
        "1.0 / sum",
    ),
    Mutant::new(
        Formula,
        "delta is NaN where the sum is",
        "select(dot_rows(output_row, gradient_row), 0.0, is_nan(sum))",
        "dot_rows(output_row, gradient_row)",
    ),
    Mutant::new(Tile, "rows past the end are written", "if index >= count {", "if index > count {"),
    Mutant::new(
        Index,
        "heads and batches are swapped",
        "index / params.query_length % params.heads;",
        "index / params.query_length % params.batch;",
    ),
];

pub struct AttentionDelta;

impl KernelDefinition for AttentionDelta {
    type Parameters = Parameters;
    const NAME: &'static str = "attention_delta";
    const WRITES: &'static [usize] = &[3];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            Design {
                name: "vec4",
                file: "attention_delta.wgsl",
                text: include_str!("../../shaders/attention_delta.wgsl"),
                pieces: &[&piece::LINEAR_INDEX, &piece::NAN],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |parameters| {
                    parameters.shape().check_vec4(&[parameters.output(), parameters.output_gradient()])
                },
                constants: |_| Vec::new(),
                generated: |parameters| rows(Storage::Vec4).generate(&parameters.shape()),
                workgroups,
                mutants: &[MUTANTS],
            },
            Design {
                name: "general",
                file: "attention_delta.wgsl",
                text: include_str!("../../shaders/attention_delta.wgsl"),
                pieces: &[&piece::LINEAR_INDEX, &piece::NAN],
                preference: Preference::Any,
                subgroup_width: None,
                supports: |parameters| parameters.shape().check(),
                constants: |_| Vec::new(),
                generated: |parameters| rows(Storage::Scalar).generate(&parameters.shape()),
                workgroups,
                mutants: &[MUTANTS],
            },
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (output, output_gradient, softmax_statistics) = (operands.real(0), operands.real(1), operands.real(2));
        let mut row_statistics = operands.real_mut(3);
        reference::row_statistics(
            &parameters.shape(),
            &Rows { elements: &output, view: parameters.output() },
            &Rows { elements: &output_gradient, view: parameters.output_gradient() },
            &softmax_statistics,
            &mut row_statistics,
        );
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        bound_sums::<Self>(parameters, operands, u64::from(parameters.head_dim), bounds);
    }

    fn cost(parameters: &Parameters) -> Cost {
        let (rows, head_dim) = (parameters.shape().query_rows(), u64::from(parameters.head_dim));
        Cost { flops: 2 * rows * head_dim, bytes: 4 * rows * (2 * head_dim + 6) }
    }

    fn cases() -> Vec<Case> {
        setups()
            .into_iter()
            .map(|setup| {
                let (shape, forward) = (setup.shape, setup.forward());
                let (output, output_gradient) = (forward.output.view, setup.output_gradient.view);
                let parameters = Parameters::new(&shape, [output, output_gradient]);
                let operands = vec![
                    Operand::Input(forward.output.elements),
                    Operand::Input(setup.output_gradient.elements),
                    Operand::Input(forward.softmax_statistics),
                    Operand::Output(forward.row_statistics.len()),
                ];
                let has_nan = setup.nan.is_some();
                Case {
                    has_nan,
                    ..Case::new(setup.name, parameters, operands, Tolerance::new(4e-6 * setup.magnitudes.value, 1e-6))
                }
            })
            .collect()
    }
}
