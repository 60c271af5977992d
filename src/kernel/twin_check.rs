//! Twins run on their own in f64, and backward twins held against finite differences of their forward twins.

use std::cell::RefCell;

use crate::tape::{HostBuffer, KernelDefinition, Operands};

/// Runs the twin of `K` on these operands and returns them as it left them.
pub fn run_twin<K: KernelDefinition>(parameters: &K::Parameters, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let cells: Vec<RefCell<HostBuffer<f64>>> =
        operands.iter().map(|values| RefCell::new(HostBuffer::Real(values.clone()))).collect();
    let windows = cells.iter().zip(operands).map(|(cell, values)| (cell, 0, values.len())).collect();
    K::twin(parameters, &Operands::new(windows));
    cells
        .into_iter()
        .map(|cell| match cell.into_inner() {
            HostBuffer::Real(values) => values,
            HostBuffer::Words(_) => Vec::new(),
        })
        .collect()
}

/// Compares a gradient with central differences of `forward`, where the loss is the sum of `weights * forward(x)`.
pub fn assert_gradient(forward: impl Fn(&[f64]) -> Vec<f64>, x: &[f64], weights: &[f64], gradient: &[f64]) {
    let step = 1e-5;
    let loss = |x: &[f64]| -> f64 { forward(x).iter().zip(weights).map(|(y, weight)| y * weight).sum() };
    for index in 0..x.len() {
        let (mut above, mut below) = (x.to_vec(), x.to_vec());
        above[index] += step;
        below[index] -= step;
        let difference = (loss(&above) - loss(&below)) / (2.0 * step);
        let error = (gradient[index] - difference).abs();
        assert!(error <= 1e-8, "index {index}: {} against a difference of {difference}", gradient[index]);
    }
}
