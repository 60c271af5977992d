//! The cases: every op, in many shapes and layouts. A new op gets a case here; `coverage` finds one without.

mod attention;
mod chains;
mod elementwise;
mod matmul;
mod normalisation;
mod reductions;
mod select;
mod tokens;
mod views;

use super::case::Case;

/// Ranks 1 to 5; ones, primes, sizes that no vector width divides.
const SHAPES: [&[usize]; 13] = [
    &[1],
    &[7],
    &[13],
    &[3, 5],
    &[1, 6],
    &[5, 1],
    &[2, 3, 5],
    &[7, 1, 3],
    &[1, 1, 1],
    &[2, 3, 2, 3],
    &[1, 2, 1, 5],
    &[2, 1, 3, 2, 3],
    &[1, 2, 2, 1, 3],
];

/// Every case.
pub fn every() -> Vec<Case> {
    [
        attention::cases(),
        chains::cases(),
        elementwise::cases(),
        matmul::cases(),
        normalisation::cases(),
        reductions::cases(),
        select::cases(),
        tokens::cases(),
        views::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
