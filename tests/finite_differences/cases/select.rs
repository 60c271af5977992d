//! One of two tensors, picked by a condition: every way to broadcast the three.

use headlight::graph::ops::{binary, constant, multiply, select, unary};
use headlight::kernel::elementwise::{Binary, Unary};

use super::super::case::{Case, in_all_layouts, real};

/// Shapes of condition, a and b.
const TRIPLES: [[&[usize]; 3]; 12] = [
    [&[7], &[7], &[7]],
    [&[2, 3], &[2, 3], &[2, 3]],
    // A mask for every matrix of a batch.
    [&[3, 3], &[2, 2, 3, 3], &[2, 2, 3, 3]],
    [&[3, 1], &[2, 2, 3, 3], &[]],
    [&[1, 3], &[], &[2, 2, 3, 3]],
    [&[2, 1, 1, 1], &[2, 2, 1, 3], &[1, 2, 3, 1]],
    // The condition is the largest, or each side is in one dimension.
    [&[2, 3, 4], &[4], &[3, 1]],
    [&[2, 1], &[1, 3], &[]],
    [&[2, 1, 1], &[3, 1], &[5]],
    [&[5], &[], &[]],
    [&[1], &[1], &[1]],
    [&[], &[2, 3], &[3]],
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for [condition, a, b] in TRIPLES {
        let name = format!("where {condition:?} {a:?} {b:?}");
        // The condition itself, which is nowhere 0 but on its kinks.
        cases.extend(in_all_layouts(&name, &real(&[condition, a, b]), |g, x| select(g, x[0], x[1], x[2])));
        // Half of it holds.
        let leaves = real(&[condition, a, b]);
        cases.extend(in_all_layouts(format!("{name} by sign"), &leaves, |g, x| {
            let positive = unary(g, x[0], Unary::Step, 0.0)?;
            select(g, positive, x[1], x[2])
        }));
    }
    // A condition that does not move leaves every other draw to the two sides.
    cases.extend(in_all_layouts("where neither side is told apart", &real(&[&[2, 3], &[2, 3]]), |g, x| {
        let never = constant(g, &[3], 0.0)?;
        let first = select(g, never, x[0], x[1])?;
        let always = constant(g, &[2, 1], -0.5)?;
        let second = select(g, always, x[0], x[1])?;
        multiply(g, first, second)
    }));
    cases.extend(in_all_layouts("where of a tensor and itself", &real(&[&[2, 3], &[3]]), |g, x| {
        let smaller = binary(g, x[0], x[1], Binary::Less)?;
        select(g, smaller, x[0], x[1])
    }));
    cases
}
