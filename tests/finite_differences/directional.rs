//! Whole gradients held against differences along random directions.

use std::panic::{AssertUnwindSafe, catch_unwind};

use headlight::graph::Reuse;
use headlight::tape::{Contents, normal};

use super::problem::{Planned, Problem, equal_bits, real};

/// Steps along a direction whose elements are about 1.
const STEP: f64 = 2e-5;

/// The gradients of a problem at `contents`, checked along a direction in each leaf and along one in all of them, and
/// bit for bit between plans that share buffers and plans that do not.
///
/// # Errors
/// What differs, the seed and the graph.
pub fn check(problem: &Problem, contents: &[Contents], seed: u64) -> Result<Vec<Vec<f64>>, String> {
    // Twins panic where a plan gives them a buffer twice; the graph is wanted then too.
    let checked = catch_unwind(AssertUnwindSafe(|| slopes_agree(problem, contents, seed)));
    checked
        .unwrap_or_else(|_| Err("it panics".into()))
        .map_err(|fault| format!("seed {seed}: {fault}\n{}", problem.print()))
}

fn slopes_agree(problem: &Problem, contents: &[Contents], seed: u64) -> Result<Vec<Vec<f64>>, String> {
    let pooled = Planned::new(problem, Reuse::Pooled)?;
    let separate = Planned::new(problem, Reuse::Never)?;
    pooled.write(contents);
    separate.write(contents);
    let mut results = equal_bits(&pooled, &separate)?;
    let gradients = results.split_off(1);
    let loss = results[0][0];
    let directions: Vec<Vec<f64>> = gradients
        .iter()
        .enumerate()
        .map(|(at, gradient)| {
            normal(seed, 1_000_000 + at as u64, gradient.len(), 1.0).into_iter().map(f64::from).collect()
        })
        .collect();
    let each = (0..gradients.len()).map(|at| vec![at]);
    for moving in each.chain([(0..gradients.len()).collect()]) {
        let along = |by: f64| {
            for &at in &moving {
                let leaf = problem.wanted[at];
                let values = real(&contents[leaf]).iter().zip(&directions[at]);
                let values: Vec<f64> = values.map(|(value, direction)| value + by * direction).collect();
                pooled.write_real(leaf, &values);
            }
            pooled.loss()
        };
        // Central differences at two widths, so that their errors of second order cancel.
        let near = (along(STEP) - along(-STEP)) / (2.0 * STEP);
        let far = (along(2.0 * STEP) - along(-2.0 * STEP)) / (4.0 * STEP);
        let expected = (4.0 * near - far) / 3.0;
        along(0.0);
        let terms = || moving.iter().flat_map(|&at| gradients[at].iter().zip(&directions[at]).map(|(g, u)| g * u));
        let found: f64 = terms().sum();
        let scale: f64 = terms().map(f64::abs).sum();
        // Written so that NaN fails.
        let close = (found - expected).abs() <= 1e-6 * scale + 1e-7 * (1.0 + loss.abs());
        if !close {
            let leaves: Vec<usize> = moving.iter().map(|&at| problem.leaves[problem.wanted[at]].node).collect();
            return Err(format!("along %{leaves:?} the slope is {found} by the gradient, {expected} by differences"));
        }
    }
    Ok(gradients)
}
