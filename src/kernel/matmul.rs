//! Batched matrix multiplication: `C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n]`, plus `bias[n]` where there is one.
//!
//! All three matrices are strided views, so that transposed operands, the heads of a packed projection and operands
//! that every batch shares need no copy.

mod cases;
mod designs;
mod twin;

use crate::tape::{Case, Cost, Design, Kernel, KernelDefinition, Operands, Real};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<Matmul>();

crate::kernel_parameters! {
    /// Operands: `a`, `b`, `bias [columns]`, `c`. Where `has_bias` is 0, any readable buffer stands in for `bias`.
    ///
    /// Batch `i` is number `i / batch_inner` of the outer and `i % batch_inner` of the inner dimension (say sequences
    /// and heads). Offsets and strides are in elements; a batch stride of 0 uses one matrix for every batch. Elements of
    /// a row of C are adjacent.
    pub struct Parameters {
        /// Matrices to multiply: the product of the two batch dimensions.
        batches: u32,
        /// Length of the inner batch dimension, at least 1.
        batch_inner: u32,
        /// Rows of A and C.
        rows: u32,
        /// Columns of B and C.
        columns: u32,
        /// Columns of A and rows of B, over which the products are summed. 0 leaves the bias alone.
        inner: u32,
        a_offset: u32,
        a_outer_stride: u32,
        a_inner_stride: u32,
        a_row_stride: u32,
        a_column_stride: u32,
        b_offset: u32,
        b_outer_stride: u32,
        b_inner_stride: u32,
        b_row_stride: u32,
        b_column_stride: u32,
        c_offset: u32,
        c_outer_stride: u32,
        c_inner_stride: u32,
        c_row_stride: u32,
        /// 1 adds the bias, 0 does not read it.
        has_bias: u32,
    }
}

impl Parameters {
    /// `C [rows, columns] = A [rows, inner] B [inner, columns]`, all dense and row-major.
    pub fn plain(rows: u32, columns: u32, inner: u32) -> Self {
        Self {
            batches: 1,
            batch_inner: 1,
            rows,
            columns,
            inner,
            a_offset: 0,
            a_outer_stride: 0,
            a_inner_stride: 0,
            a_row_stride: inner,
            a_column_stride: 1,
            b_offset: 0,
            b_outer_stride: 0,
            b_inner_stride: 0,
            b_row_stride: columns,
            b_column_stride: 1,
            c_offset: 0,
            c_outer_stride: 0,
            c_inner_stride: 0,
            c_row_stride: columns,
            has_bias: 0,
        }
    }

    /// As [`Parameters::plain`], with A stored transposed, as `[inner, rows]`.
    pub fn a_transposed(rows: u32, columns: u32, inner: u32) -> Self {
        Self { a_row_stride: 1, a_column_stride: rows, ..Self::plain(rows, columns, inner) }
    }

    /// As [`Parameters::plain`], with B stored transposed, as `[columns, inner]`.
    pub fn b_transposed(rows: u32, columns: u32, inner: u32) -> Self {
        Self { b_row_stride: 1, b_column_stride: inner, ..Self::plain(rows, columns, inner) }
    }
}

pub struct Matmul;

impl KernelDefinition for Matmul {
    type Parameters = Parameters;
    const NAME: &'static str = "matmul";
    const WRITES: &'static [usize] = &[3];

    fn designs() -> &'static [Design<Parameters>] {
        designs::DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        twin::matmul(parameters, operands);
    }

    fn cost(parameters: &Parameters) -> Cost {
        let of = |sizes: &[u32]| sizes.iter().fold(1u64, |product, &size| product.saturating_mul(u64::from(size)));
        let Parameters { batches, rows, columns, inner, .. } = *parameters;
        let elements = of(&[batches, rows, inner])
            .saturating_add(of(&[batches, inner, columns]))
            .saturating_add(of(&[batches, rows, columns]));
        Cost { flops: of(&[2, batches, rows, columns, inner]), bytes: elements.saturating_mul(4) }
    }

    fn cases() -> Vec<Case> {
        cases::all()
    }
}
