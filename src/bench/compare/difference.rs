//! Whether two forms of attention are one function: the largest difference of their results.

use serde::Serialize;

/// How far two forms may be apart, as a share of the largest value of the tensor. Their sums differ in order alone, which
/// in f32 makes some 1e-6.
pub const TOLERANCE: f64 = 1e-4;

/// What is rounding where a whole tensor is nearly zero, as the gradient of a query that sees one key alone: inputs are
/// of unit variance, so that what cancels in it was of the order of 1.
const FLOOR: f64 = 1e-5;

/// How far two results of one tensor are apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// `output`, `dq`, `dk` or `dv`.
    pub tensor: String,
    /// The largest absolute difference of two elements; infinite where one is not finite.
    pub largest: f64,
    /// The largest absolute value of naive attention's tensor.
    pub against: f64,
}

impl Difference {
    /// Compares the elements of two tensors of one shape.
    pub fn of(tensor: &str, naive: &[f32], fused: &[f32]) -> Self {
        let apart = |(&naive, &fused): (&f32, &f32)| match naive.is_finite() && fused.is_finite() {
            true => (f64::from(naive) - f64::from(fused)).abs(),
            false => f64::INFINITY,
        };
        let unequal = if naive.len() == fused.len() { 0.0 } else { f64::INFINITY };
        let largest = naive.iter().zip(fused).map(apart).fold(unequal, f64::max);
        let against = naive.iter().map(|&value| f64::from(value).abs()).fold(0.0, f64::max);
        Self { tensor: tensor.into(), largest, against }
    }

    /// The largest difference that rounding may make here.
    pub fn allowed(&self) -> f64 {
        TOLERANCE * self.against + FLOOR
    }

    /// Whether it is rounding.
    pub fn agrees(&self) -> bool {
        self.largest.is_finite() && self.largest <= self.allowed()
    }

    fn words(&self) -> String {
        match self.largest.is_finite() {
            true => format!(
                "{} differs by up to {:.1e} where its largest value is {:.3}, and rounding explains {:.1e}",
                self.tensor,
                self.largest,
                self.against,
                self.allowed()
            ),
            false => format!("{} has values that are not finite", self.tensor),
        }
    }
}

/// The error of a row in words, if its two forms are not one function.
pub fn disagreement(context_length: u64, differences: &[Difference]) -> Option<String> {
    let apart: Vec<String> =
        differences.iter().filter(|difference| !difference.agrees()).map(Difference::words).collect();
    (!apart.is_empty()).then(|| format!("naive and fused disagree at T={context_length}: {}", apart.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_agrees_and_all_else_does_not() {
        for (naive, fused, agrees) in [
            (&[1.0f32, -2.0][..], &[1.0f32, -2.0][..], true),
            (&[1.0, -2.0], &[1.000_1, -2.0], true),
            (&[1.0, -2.0], &[1.001, -2.0], false),
            (&[1.0, f32::NAN], &[1.0, f32::NAN], false),
            (&[1.0, 2.0], &[1.0, f32::INFINITY], false),
            (&[1.0, 2.0], &[1.0], false),
            // A gradient that is zero but for rounding.
            (&[0.0, 0.0], &[3e-7, 0.0], true),
            (&[0.0, 0.0], &[3e-5, 0.0], false),
            (&[], &[], true),
        ] {
            let difference = Difference::of("dq", naive, fused);
            assert_eq!(difference.agrees(), agrees, "{naive:?} {fused:?} {difference:?}");
            assert_eq!(disagreement(64, &[difference]).is_none(), agrees);
        }
    }

    #[test]
    fn a_disagreement_names_length_tensor_and_numbers() {
        let differences = [
            Difference::of("output", &[1.0, 2.0], &[1.0, 2.0]),
            Difference::of("dq", &[1.0, 2.0], &[1.0, 2.5]),
            Difference::of("dv", &[1.0, 2.0], &[1.0, f32::NAN]),
        ];
        assert_eq!(
            disagreement(128, &differences).unwrap(),
            "naive and fused disagree at T=128: dq differs by up to 5.0e-1 where its largest value is 2.000, and \
             rounding explains 2.1e-4; dv has values that are not finite"
        );
    }
}
