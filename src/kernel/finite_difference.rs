//! Twins run on f64 buffers, and their finite differences: what the tests of backward kernels compare with.

use std::cell::RefCell;

use crate::tape::{HostBuffer, KernelDefinition, Operands};

/// Runs a twin on the given buffers and returns them as it left them.
pub(super) fn run<K: KernelDefinition>(
    parameters: &K::Parameters,
    buffers: Vec<HostBuffer<f64>>,
) -> Vec<HostBuffer<f64>> {
    let cells: Vec<RefCell<HostBuffer<f64>>> = buffers.into_iter().map(RefCell::new).collect();
    let windows = cells
        .iter()
        .map(|cell| match &*cell.borrow() {
            HostBuffer::Real(values) => (cell, 0, values.len()),
            HostBuffer::Words(words) => (cell, 0, words.len()),
        })
        .collect();
    K::twin(parameters, &Operands::new(windows));
    cells.into_iter().map(RefCell::into_inner).collect()
}

/// As [`run`], where every operand holds numbers.
pub(super) fn run_twin<K: KernelDefinition>(parameters: &K::Parameters, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let buffers = operands.iter().cloned().map(HostBuffer::Real).collect();
    run::<K>(parameters, buffers).iter().map(|buffer| numbers(buffer).to_vec()).collect()
}

/// The numbers of a buffer.
pub(super) fn numbers(buffer: &HostBuffer<f64>) -> &[f64] {
    match buffer {
        HostBuffer::Real(values) => values,
        HostBuffer::Words(_) => panic!("the buffer holds words"),
    }
}

/// Holds a gradient against central differences of `value` at `at`, element by element.
pub(super) fn assert_is_gradient(name: &str, gradient: &[f64], at: &[f64], value: impl Fn(&[f64]) -> f64) {
    const STEP: f64 = 1e-5;
    assert_eq!(gradient.len(), at.len(), "{name}");
    for (index, &found) in gradient.iter().enumerate() {
        let moved = |by: f64| {
            let mut moved = at.to_vec();
            moved[index] += by;
            value(&moved)
        };
        let expected = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
        let error = (found - expected).abs();
        assert!(error <= 1e-7 + 1e-6 * expected.abs(), "{name}[{index}]: {found} against the difference {expected}");
    }
}

/// As [`assert_is_gradient`], where the value is the sum of `weights * forward(x)`.
pub(super) fn assert_gradient(forward: impl Fn(&[f64]) -> Vec<f64>, x: &[f64], weights: &[f64], gradient: &[f64]) {
    let value = |x: &[f64]| forward(x).iter().zip(weights).map(|(y, weight)| y * weight).sum();
    assert_is_gradient("x", gradient, x, value);
}
