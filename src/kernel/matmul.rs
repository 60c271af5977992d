//! Batched matrix multiplication: `C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n]`, plus `bias[n]` where there is one,
//! or plus what C holds.
//!
//! All three matrices are strided views, so that transposed operands, the heads of a packed projection and operands
//! that every batch shares need no copy.
//!
//! GFLOP/s of the designs on lavapipe (two cores, Mesa 22.3), for the shapes of a small model's training step, rows x
//! inner x columns; "T" marks a transposed matrix. From processor time on a busy machine, so good for ratios. `tiled` is
//! for GPUs, and barriers are slow here.
//!
//! | shape | `subgroup` | `subgroup_scalar` | `rows_vec4` | `general` | `tiled` |
//! |---|---|---|---|---|---|
//! | NN 768x128x512 | 41 | 34 | 12 | 9 | 5 |
//! | NN 768x512x128 | 38 | 29 | 12 | 10 | 5 |
//! | NT 768x512x128 | 38 | 30 | 11 | 9 | 5 |
//! | TN 128x768x512 | 39 | 32 | 11 | 9 | 5 |
//! | NN 512x512x512 | 42 | 34 | 12 | 9 | 5 |
//! | logits, NT 768x128x65 | - | 23 | - | 5 | 2 |
//! | their gradient, NN 768x65x128 | - | 15 | - | 8 | 4 |
//! | their weights' gradient, TN 65x768x128 | - | 18 | - | 9 | 3 |
//! | scores, NT 48 of 64x32x64 | 27 | 18 | 9 | 6 | 4 |
//! | attention output, NN 48 of 64x64x32 | 24 | 15 | 10 | 4 | 2 |

mod cases;
mod designs;
mod twin;

use crate::tape::rounding::{bound_sums, of_sum};
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
        /// 1 adds the products to what C holds, and no bias: how a sum is continued whose operands no binding holds at
        /// once. 0 does not read C.
        accumulates: u32,
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
            accumulates: 0,
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

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let terms = u64::from(parameters.inner) + 1;
        let products = Parameters { accumulates: 0, ..parameters.clone() };
        bound_sums::<Self>(&products, operands, terms, bounds);
        if parameters.accumulates != 0 {
            let c = operands.real(3);
            for at in twin::rows_of_c(parameters).flat_map(|start| start..start + parameters.columns as usize) {
                bounds[0][at] += of_sum(terms) * f64::from(c[at].abs());
            }
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let of = |sizes: &[u32]| sizes.iter().fold(1u64, |product, &size| product.saturating_mul(u64::from(size)));
        let Parameters { batches, rows, columns, inner, .. } = *parameters;
        let of_c = of(&[batches, rows, columns]).saturating_mul(if parameters.accumulates == 0 { 1 } else { 2 });
        let elements = of(&[batches, rows, inner]).saturating_add(of(&[batches, inner, columns])).saturating_add(of_c);
        Cost { flops: of(&[2, batches, rows, columns, inner]), bytes: elements.saturating_mul(4) }
    }

    fn cases() -> Vec<Case> {
        cases::all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::HostBuffer;
    use std::cell::RefCell;

    /// The twin's C, in a buffer of `elements` that held -1 before.
    fn multiply(parameters: &Parameters, a: &[f64], b: &[f64], bias: &[f64], elements: usize) -> Vec<f64> {
        let buffers = [a, b, bias, &vec![-1.0; elements]].map(|values| RefCell::new(HostBuffer::Real(values.to_vec())));
        let lengths = [a.len(), b.len(), bias.len(), elements];
        let windows = buffers.iter().zip(lengths).map(|(buffer, length)| (buffer, 0, length)).collect();
        let operands = Operands::new(windows);
        Matmul::twin(parameters, &operands);
        operands.real(3).to_vec()
    }

    #[test]
    fn the_twin_multiplies_by_hand_in_every_layout() {
        // [1 2 3; 4 5 6] * [7 8; 9 10; 11 12] = [58 64; 139 154]
        let (a, a_transposed) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let (b, b_transposed) = ([7.0, 8.0, 9.0, 10.0, 11.0, 12.0], [7.0, 9.0, 11.0, 8.0, 10.0, 12.0]);
        for (parameters, a, b) in [
            (Parameters::plain(2, 2, 3), a, b),
            (Parameters::a_transposed(2, 2, 3), a_transposed, b),
            (Parameters::b_transposed(2, 2, 3), a, b_transposed),
        ] {
            assert_eq!(multiply(&parameters, &a, &b, &[f64::NAN], 4), [58.0, 64.0, 139.0, 154.0], "{parameters:?}");
            let biased = Parameters { has_bias: 1, ..parameters };
            assert_eq!(multiply(&biased, &a, &b, &[0.5, -1.0], 4), [58.5, 63.0, 139.5, 153.0], "{biased:?}");
        }
    }

    #[test]
    fn the_twin_leaves_gaps_of_a_strided_result_alone() {
        // Two batches of 1x1 times a shared 1x2, in rows of four with an offset of one.
        let parameters = Parameters {
            batches: 2,
            batch_inner: 2,
            a_inner_stride: 2,
            c_offset: 1,
            c_inner_stride: 4,
            ..Parameters::plain(1, 2, 1)
        };
        let c = multiply(&parameters, &[3.0, 0.0, 5.0], &[2.0, 10.0], &[0.0], 8);
        assert_eq!(c, [-1.0, 6.0, 30.0, -1.0, -1.0, 10.0, 50.0, -1.0]);
    }

    #[test]
    fn nothing_to_sum_gives_the_bias_and_no_rows_give_nothing() {
        let empty_sum = Parameters { has_bias: 1, ..Parameters::plain(2, 2, 0) };
        assert_eq!(multiply(&empty_sum, &[0.0], &[0.0], &[1.0, 2.0], 4), [1.0, 2.0, 1.0, 2.0]);
        assert_eq!(multiply(&Parameters::plain(2, 1, 0), &[0.0], &[0.0], &[0.0], 2), [0.0, 0.0]);
        assert_eq!(multiply(&Parameters::plain(0, 2, 3), &[0.0], &[0.0; 6], &[0.0], 1), [-1.0]);
    }

    #[test]
    fn a_sum_that_is_continued_begins_with_what_c_holds_and_not_with_the_bias() {
        let parameters = Parameters { has_bias: 1, accumulates: 1, ..Parameters::plain(1, 2, 1) };
        assert_eq!(multiply(&parameters, &[3.0], &[2.0, 10.0], &[7.0, 7.0], 3), [5.0, 29.0, -1.0]);
    }

    #[test]
    fn old_contents_of_c_count_in_the_bounds_of_what_is_added_to_and_of_nothing_else() {
        let buffers = [vec![3.0], vec![2.0, -10.0], vec![0.0], vec![-8.0, 4.0, 100.0]]
            .map(|values: Vec<f32>| RefCell::new(HostBuffer::Real(values)));
        let operands = Operands::new(buffers.iter().map(|buffer| (buffer, 0, buffer.borrow().len())).collect());
        let parameters = Parameters { accumulates: 1, ..Parameters::plain(1, 2, 1) };
        let mut bounds = [vec![0.0; 3]];
        Matmul::error_bounds(&parameters, &operands, &mut bounds);
        assert_eq!(bounds, [vec![of_sum(2) * 6.0 + of_sum(2) * 8.0, of_sum(2) * 30.0 + of_sum(2) * 4.0, 0.0]]);
    }

    #[test]
    fn empty_products_dispatch_nothing_and_huge_ones_do_not_overflow() {
        let huge = Parameters { batches: u32::MAX, ..Parameters::plain(u32::MAX, u32::MAX, u32::MAX) };
        assert_eq!(Matmul::cost(&huge).flops, u64::MAX);
        for design in Matmul::designs() {
            for empty in [Parameters::plain(0, 4, 4), Parameters::plain(4, 0, 4)] {
                assert_eq!((design.workgroups)(&empty)[0], 0, "{}", design.name);
            }
            assert!((design.workgroups)(&huge)[0] > u64::from(u32::MAX), "{}", design.name);
        }
    }
}
