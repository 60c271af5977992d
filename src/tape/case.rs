//! Parity cases: the parameters and contents of one launch, on which every design of a kernel must equal its twin.

use std::sync::Arc;

use rand::RngExt;

use super::parameters::{AnyParameters, KernelParameters};
use crate::random::{Stream, generator};

/// An element passes if `|found - expected| <= absolute + relative * |expected|`; NaN never does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    pub absolute: f64,
    pub relative: f64,
}

impl Tolerance {
    /// Bit-equal values only.
    pub const EXACT: Self = Self { absolute: 0.0, relative: 0.0 };

    pub const fn new(absolute: f64, relative: f64) -> Self {
        Self { absolute, relative }
    }

    /// The share of the tolerance that a difference uses: at most 1 passes. NaN, and any difference where nothing is
    /// tolerated, give infinity.
    pub fn share(&self, found: f64, expected: f64) -> f64 {
        let allowed = self.absolute + self.relative * expected.abs();
        let error = (found - expected).abs();
        if error == 0.0 {
            return 0.0;
        }
        let share = error / allowed;
        if share.is_finite() { share } else { f64::INFINITY }
    }
}

/// The contents of one storage binding before a launch.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// Numbers that are read.
    Input(Vec<f32>),
    /// Words that are read.
    InputWords(Vec<u32>),
    /// So many numbers that are written; what the launch does not write must stay as it was.
    Output(usize),
    /// So many words that are written.
    OutputWords(usize),
    /// Numbers that are read and written in place.
    InOut(Vec<f32>),
    /// Words that are read and written in place.
    InOutWords(Vec<u32>),
}

impl Operand {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Input(values) | Self::InOut(values) => values.len(),
            Self::InputWords(words) | Self::InOutWords(words) => words.len(),
            Self::Output(count) | Self::OutputWords(count) => *count,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One case of a kernel.
#[derive(Clone)]
pub struct Case {
    /// Sizes, masks and seed, so that a failure can be repeated: `B=1 H=2 Tq=65 Tk=65 D=24 causal seed=7`.
    pub name: String,
    pub parameters: Arc<dyn AnyParameters>,
    /// In the order of the shader's bindings from 1 on.
    pub operands: Vec<Operand>,
    pub tolerance: Tolerance,
    /// Whether the reference has NaN: the design must have it in the same elements. Elsewhere a reference must be finite.
    pub has_nan: bool,
}

impl Case {
    pub fn new<P: KernelParameters>(
        name: impl Into<String>,
        parameters: P,
        operands: Vec<Operand>,
        tolerance: Tolerance,
    ) -> Self {
        Self { name: name.into(), parameters: Arc::new(parameters), operands, tolerance, has_nan: false }
    }

    /// Says that the reference has NaN, which a case must do that means it.
    #[must_use]
    pub fn with_nan(mut self) -> Self {
        self.has_nan = true;
        self
    }
}

/// Seeded normal values for a case, by the Box-Muller transform (Box and Muller 1958). `tensor` tells apart the inputs
/// of one case.
pub fn normal(seed: u64, tensor: u64, count: usize, standard_deviation: f64) -> Vec<f32> {
    let mut random = generator(seed, Stream::Cases, 0, tensor);
    (0..count)
        .map(|_| {
            let (u, v): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
            ((-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos() * standard_deviation) as f32
        })
        .collect()
}

/// Seeded words below `bound` for a case.
pub fn words(seed: u64, tensor: u64, count: usize, bound: u32) -> Vec<u32> {
    let mut random = generator(seed, Stream::Cases, 0, tensor);
    (0..count).map(|_| random.random_range(0..bound)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_a_tolerance_never_lets_nan_or_infinity_pass() {
        let tolerance = Tolerance::new(1e-3, 0.1);
        for (found, expected, passes) in [
            (1.0, 1.0, true),
            (1.1, 1.0, true),
            (1.2, 1.0, false),
            (f64::NAN, 1.0, false),
            (1.0, f64::NAN, false),
            (f64::NAN, f64::NAN, false),
            (f64::INFINITY, 1.0, false),
            (1.0, f64::INFINITY, false),
            (f64::INFINITY, f64::INFINITY, false),
            (0.0, 0.0, true),
        ] {
            assert_eq!(tolerance.share(found, expected) <= 1.0, passes, "{found} against {expected}");
        }
        assert!(Tolerance::EXACT.share(1.0, 1.0) <= 1.0);
        assert!(Tolerance::EXACT.share(1.0, 1.0 + 1e-12) > 1.0);
    }
}
