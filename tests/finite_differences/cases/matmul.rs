//! Products: batches that broadcast, transposed operands, bias.

use headlight::graph::ops::{MatMul, linear, matmul, transpose};

use super::super::case::{Case, in_all_layouts, real};

const PAIRS: [(&[usize], &[usize]); 15] = [
    (&[1, 1], &[1, 1]),
    (&[3, 4], &[4, 2]),
    (&[5, 7], &[7, 3]),
    (&[1, 5], &[5, 1]),
    (&[5, 1], &[1, 5]),
    (&[2, 3, 4], &[2, 4, 2]),
    (&[2, 3, 1, 4], &[2, 3, 4, 2]),
    // A side without batch.
    (&[2, 3, 4], &[4, 2]),
    (&[3, 4], &[2, 4, 2]),
    (&[3, 4], &[2, 1, 2, 4, 2]),
    // Batches that broadcast, on one side and on both.
    (&[1, 3, 4], &[2, 4, 2]),
    (&[2, 1, 3, 2], &[1, 3, 2, 2]),
    (&[2, 1, 2, 2, 3], &[1, 3, 2, 3, 1]),
    (&[2, 1, 2, 3, 1], &[1, 2, 1, 1, 3]),
    (&[3, 2, 2], &[2, 1, 2, 3]),
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (a, b) in PAIRS {
        let operands = real(&[a, b]);
        cases.extend(in_all_layouts(format!("matmul {a:?} {b:?}"), &operands, |g, x| matmul(g, x[0], x[1])));
        let bias = [b[b.len() - 1]];
        let operands = real(&[a, b, &bias]);
        cases.extend(in_all_layouts(format!("matmul {a:?} {b:?} with bias"), &operands, |g, x| g.add(MatMul, x)));
        let (a, b) = (exchanged(a), exchanged(b));
        let operands = real(&[&a, &b]);
        cases.extend(in_all_layouts(format!("matmul {a:?}^T {b:?}^T"), &operands, |g, x| {
            let (a, b) = (transpose(g, x[0])?, transpose(g, x[1])?);
            matmul(g, a, b)
        }));
    }
    cases.extend(in_all_layouts("matmul of a matrix and its transpose", &real(&[&[3, 5]]), |g, x| {
        let transposed = transpose(g, x[0])?;
        matmul(g, x[0], transposed)
    }));
    cases.extend(in_all_layouts("matmul of a matrix and itself", &real(&[&[3, 3]]), |g, x| matmul(g, x[0], x[0])));
    for x in [&[4][..], &[3, 4], &[2, 3, 4], &[2, 1, 2, 1, 4]] {
        let operands = real(&[x, &[4, 5], &[5]]);
        cases.extend(in_all_layouts(format!("matmul linear {x:?}"), &operands, |g, x| linear(g, x[0], x[1], x[2])));
    }
    cases
}

/// A shape with its last two sizes exchanged.
fn exchanged(shape: &[usize]) -> Vec<usize> {
    let mut shape = shape.to_vec();
    let rank = shape.len();
    shape.swap(rank - 2, rank - 1);
    shape
}
