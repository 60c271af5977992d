//! How far f32 arithmetic may lie from exact arithmetic: what the error bounds of kernels are made of.
//!
//! An error is in proportion to the terms that a result is made of, not to the result: where terms cancel, little is
//! left but their rounding (Higham 2002, sections 3.1 and 4.2). So every bound is a small number of units times the sum
//! of the absolute values of the terms, element by element, to first order. Functions are granted what WGSL grants them
//! ("Floating Point Accuracy" in its specification).

use std::cell::RefCell;

use super::host_buffer::{HostBuffer, Operands};
use super::kernel::KernelDefinition;

/// The unit roundoff of f32, 2^-24: the relative error of one rounding to nearest. Half a unit in the last place.
pub const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// The relative error of a few operations in a row, a division among them: WGSL grants it 2.5 units in the last place, and
/// a square root about 4.5.
pub const OPERATIONS: f64 = 8.0 * UNIT;

/// The error of a sum of so many products, relative to the sum of their absolute values. Roundings are as good as
/// independent, so that they grow as the root of their number (Higham and Mary 2019, theorem 2.4).
pub fn of_sum(terms: u64) -> f64 {
    OPERATIONS + UNIT * (terms as f64).sqrt()
}

/// The relative error of e^x: WGSL grants `3 + 2 |x|` units in the last place; and that of storing it.
pub fn of_exp(x: f64) -> f64 {
    (7.0 + 4.0 * x.abs()) * UNIT
}

/// The absolute error of a logarithm whose value is `log`: WGSL grants 2^-21 about 1, and 3 units in the last place
/// elsewhere; and that of storing it.
pub fn of_log(log: f64) -> f64 {
    (8.0 + 7.0 * log.abs()) * UNIT
}

/// Sets the bounds of a kernel that only adds up products of what it reads, at most `terms` for a result: the twin,
/// given the absolute values of its operands, gives the sums of the absolute values of the terms.
pub fn bound_sums<K: KernelDefinition>(
    parameters: &K::Parameters,
    operands: &Operands<'_, f32>,
    terms: u64,
    bounds: &mut [Vec<f64>],
) {
    let buffers: Vec<RefCell<HostBuffer<f64>>> = operands.magnitudes(K::WRITES);
    let windows = buffers.iter().map(|buffer| (buffer, 0, buffer.borrow().len())).collect();
    K::twin(parameters, &Operands::new(windows));
    for (bounds, &operand) in bounds.iter_mut().zip(K::WRITES) {
        if let HostBuffer::Real(magnitudes) = &*buffers[operand].borrow() {
            bounds.iter_mut().zip(magnitudes).for_each(|(bound, magnitude)| *bound = of_sum(terms) * magnitude);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::matmul;
    use crate::tape::normal;

    #[test]
    fn sums_in_f32_lie_within_their_bound_whether_terms_cancel_or_not() {
        for count in [1, 10, 1000, 100_000] {
            for (seed, signs) in (1..=5).flat_map(|seed| [(seed, true), (seed, false)]) {
                let terms: Vec<f32> = normal(seed, 0, count, 1.0);
                let terms: Vec<f32> = terms.into_iter().map(|term| if signs { term } else { term.abs() }).collect();
                let exact: f64 = terms.iter().map(|&term| f64::from(term)).sum();
                let magnitude: f64 = terms.iter().map(|&term| f64::from(term.abs())).sum();
                let error = (f64::from(terms.iter().sum::<f32>()) - exact).abs();
                let bound = of_sum(count as u64) * magnitude;
                assert!(error <= bound, "{count} terms, signs={signs}, seed {seed}: {error} beyond {bound}");
            }
        }
        assert!(of_sum(100_000) < 2e-5);
    }

    #[test]
    fn functions_in_f32_lie_within_their_bounds() {
        for x in normal(1, 0, 10_000, 10.0) {
            let exact = f64::from(x).exp();
            assert!((f64::from(x.exp()) - exact).abs() <= of_exp(f64::from(x)) * exact, "exp {x}");
            let positive = x.abs() + 1e-6;
            let exact = f64::from(positive).ln();
            assert!((f64::from(positive.ln()) - exact).abs() <= of_log(exact), "log {positive}");
        }
    }

    #[test]
    fn the_bound_of_a_sum_of_products_is_in_proportion_to_its_terms_and_not_to_the_sum() {
        // 3 * 5 - 5 * 3 = 0, and what lies behind the result is not written.
        let buffers = [vec![3.0, -5.0], vec![5.0, 3.0], vec![f32::NAN], vec![7.0; 4]]
            .map(|values: Vec<f32>| RefCell::new(HostBuffer::Real(values)));
        let operands = Operands::new(buffers.iter().map(|buffer| (buffer, 0, buffer.borrow().len())).collect());
        let mut bounds = [vec![0.0; 4]];
        bound_sums::<matmul::Matmul>(&matmul::Parameters::plain(1, 1, 2), &operands, 2, &mut bounds);
        assert_eq!(bounds, [vec![30.0 * of_sum(2), 0.0, 0.0, 0.0]]);
    }
}
