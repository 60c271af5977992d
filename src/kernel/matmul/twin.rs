//! The reference: `c[m, :] = bias + sum over k of a[m, k] * b[k, :]`, row by row, or `c[m, :] += ..`.

use super::Parameters;
use crate::tape::{Operands, Real, Wide};

/// Multiplies every batch. B is unpacked to dense rows once a batch, so that the innermost loop runs along memory
/// whatever B's strides are.
pub(super) fn matmul<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
    let accumulates = parameters.accumulates != 0;
    let bias = (parameters.has_bias != 0 && !accumulates).then(|| operands.real(2));
    let (a, b, mut c) = (operands.real(0), operands.real(1), operands.real_mut(3));
    let [rows, columns, inner] = [parameters.rows, parameters.columns, parameters.inner].map(|size| size as usize);
    let zero = S::Wide::of(0.0);
    let mut b_dense = vec![zero; inner * columns];
    let mut sums = vec![zero; columns];
    for batch in 0..parameters.batches {
        let (outer, inner_index) = (batch / parameters.batch_inner, batch % parameters.batch_inner);
        let start = |offset: u32, outer_stride: u32, inner_stride: u32| {
            (offset + outer * outer_stride + inner_index * inner_stride) as usize
        };
        let a_start = start(parameters.a_offset, parameters.a_outer_stride, parameters.a_inner_stride);
        let b_start = start(parameters.b_offset, parameters.b_outer_stride, parameters.b_inner_stride);
        let c_start = start(parameters.c_offset, parameters.c_outer_stride, parameters.c_inner_stride);
        for k in 0..inner {
            for n in 0..columns {
                let at = k * parameters.b_row_stride as usize + n * parameters.b_column_stride as usize;
                b_dense[k * columns + n] = b[b_start + at].wide();
            }
        }
        for m in 0..rows {
            let c_row = &mut c[c_start + m * parameters.c_row_stride as usize..];
            let begin = if accumulates { Some(&*c_row) } else { bias.as_deref() };
            match begin {
                Some(begin) => sums.iter_mut().zip(begin).for_each(|(sum, value)| *sum = value.wide()),
                None => sums.fill(zero),
            }
            for k in 0..inner {
                let at = m * parameters.a_row_stride as usize + k * parameters.a_column_stride as usize;
                let a_value = a[a_start + at].wide();
                let b_row = &b_dense[k * columns..(k + 1) * columns];
                for (sum, b_value) in sums.iter_mut().zip(b_row) {
                    *sum += a_value * *b_value;
                }
            }
            for (element, sum) in c_row.iter_mut().zip(&sums) {
                *element = S::narrow(*sum);
            }
        }
    }
}

/// Where each row of C begins.
pub(super) fn rows_of_c(parameters: &Parameters) -> impl Iterator<Item = usize> {
    let &Parameters { batches, batch_inner, rows, c_offset, c_outer_stride, c_inner_stride, c_row_stride, .. } =
        parameters;
    (0..batches).flat_map(move |batch| {
        let start = c_offset + batch / batch_inner * c_outer_stride + batch % batch_inner * c_inner_stride;
        (0..rows).map(move |row| (start + row * c_row_stride) as usize)
    })
}
