//! Ops that move no number where they need not, along every axis and in every order.

use std::collections::BTreeSet;

use headlight::graph::ops::{concat, multiply, permute, reshape, roll, slice};

use super::super::case::{Case, in_all_layouts, real};
use super::SHAPES;

const ORDERS: [&[usize]; 13] = [
    &[0],
    &[1, 0],
    &[0, 2, 1],
    &[1, 0, 2],
    &[1, 2, 0],
    &[2, 0, 1],
    &[2, 1, 0],
    &[0, 2, 1, 3],
    &[3, 1, 0, 2],
    &[2, 3, 0, 1],
    &[1, 0, 3, 2],
    &[4, 2, 0, 3, 1],
    &[2, 0, 1, 4, 3],
];

const RESHAPES: [(&[usize], &[usize]); 10] = [
    (&[6], &[2, 3]),
    (&[2, 3], &[6]),
    (&[2, 3], &[3, 2]),
    (&[1], &[]),
    (&[1, 1], &[1, 1, 1, 1, 1]),
    (&[2, 3, 4], &[4, 6]),
    (&[2, 3, 4], &[2, 12]),
    (&[2, 3, 4], &[2, 3, 2, 2]),
    (&[5, 1, 3], &[1, 5, 3, 1]),
    (&[2, 1, 3, 2, 1], &[3, 4]),
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for order in ORDERS {
        let shape = &[2, 3, 4, 1, 2][..order.len()];
        let name = format!("permute {shape:?} to {order:?}");
        cases.extend(in_all_layouts(name, &real(&[shape]), move |g, x| permute(g, x[0], order)));
    }
    for (from, to) in RESHAPES {
        let name = format!("reshape {from:?} to {to:?}");
        cases.extend(in_all_layouts(name, &real(&[from]), move |g, x| reshape(g, x[0], to)));
    }
    for shape in SHAPES {
        for axis in 0..shape.len() {
            let size = shape[axis];
            for (start, end) in BTreeSet::from([(0, size - 1), (1, size), (size / 2, size / 2 + 1)]) {
                if start < end && end - start < size {
                    let name = format!("slice {shape:?} {start}..{end} of axis {axis}");
                    cases.extend(in_all_layouts(name, &real(&[shape]), move |g, x| slice(g, x[0], axis, start, end)));
                }
            }
            let mut other = shape.to_vec();
            other[axis] += 2;
            let name = format!("concat {shape:?} {other:?} along axis {axis}");
            let parts = real(&[shape, &other]);
            cases.extend(in_all_layouts(&name, &parts, move |g, x| concat(g, x, axis)));
            let name = format!("{name}, the first twice");
            cases.extend(in_all_layouts(name, &parts, move |g, x| concat(g, &[x[0], x[1], x[0]], axis)));
        }
    }
    for shape in SHAPES {
        for axis in 0..shape.len() {
            for shift in [1, -2, 1 + 7 * shape[axis] as i64] {
                let name = format!("roll {shape:?} by {shift} along axis {axis}");
                // Times the tensor, which is a second term where it moves nothing.
                cases.extend(in_all_layouts(name, &real(&[shape]), move |g, x| {
                    let rolled = roll(g, x[0], axis, shift)?;
                    multiply(g, rolled, x[0])
                }));
            }
        }
    }
    cases
}
