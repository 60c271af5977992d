//! The numbers of a twin: what its buffers store, and what its formula is computed in.

use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub};

/// What a twin's buffers store, and with it what the twin computes in.
///
/// | stored | computed in | serves |
/// |---|---|---|
/// | f32 | f64 | the reference of a device, which stores f32 too; training on the CPU |
/// | f64 | f64 | the exact result, finite differences |
/// | [`Plain`] | f32 | the plain formula of a program that knows only f32: the yardstick of a design's error |
pub trait Real: Copy + Default + PartialEq + Debug + Send + Sync + 'static {
    /// What is computed in. Host scalars are rounded to it first ([`Wide::of`]).
    type Wide: Wide;

    /// The number as it enters a formula.
    fn wide(self) -> Self::Wide;
    /// The number as it is stored.
    fn narrow(value: Self::Wide) -> Self;
}

/// A float type that formulas are computed in: f64, or f32. The functions are those of the standard library.
pub trait Wide:
    Copy
    + PartialEq
    + PartialOrd
    + Debug
    + Send
    + Sync
    + 'static
    + Neg<Output = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
    + MulAssign
    + Sum
    + Into<f64>
{
    const NEG_INFINITY: Self;

    /// A constant of a formula, rounded to this type.
    fn of(value: f64) -> Self;

    fn abs(self) -> Self;
    fn exp(self) -> Self;
    fn is_finite(self) -> bool;
    fn is_nan(self) -> bool;
    fn ln(self) -> Self;
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn powf(self, exponent: Self) -> Self;
    fn signum(self) -> Self;
    fn sqrt(self) -> Self;
    fn tanh(self) -> Self;
}

/// An f32 that is computed in f32 as well: every product and every partial sum is rounded, sums run in their natural
/// order.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Plain(pub f32);

impl Real for f32 {
    type Wide = f64;

    fn wide(self) -> f64 {
        f64::from(self)
    }
    fn narrow(value: f64) -> Self {
        value as f32
    }
}

impl Real for f64 {
    type Wide = f64;

    fn wide(self) -> f64 {
        self
    }
    fn narrow(value: f64) -> Self {
        value
    }
}

impl Real for Plain {
    type Wide = f32;

    fn wide(self) -> f32 {
        self.0
    }
    fn narrow(value: f32) -> Self {
        Self(value)
    }
}

macro_rules! wide {
    ($float:ident) => {
        impl Wide for $float {
            const NEG_INFINITY: Self = $float::NEG_INFINITY;

            fn of(value: f64) -> Self {
                value as $float
            }
            fn abs(self) -> Self {
                self.abs()
            }
            fn exp(self) -> Self {
                self.exp()
            }
            fn is_finite(self) -> bool {
                self.is_finite()
            }
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            fn ln(self) -> Self {
                self.ln()
            }
            fn max(self, other: Self) -> Self {
                self.max(other)
            }
            fn min(self, other: Self) -> Self {
                self.min(other)
            }
            fn powf(self, exponent: Self) -> Self {
                self.powf(exponent)
            }
            fn signum(self) -> Self {
                self.signum()
            }
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            fn tanh(self) -> Self {
                self.tanh()
            }
        }
    };
}

wide!(f32);
wide!(f64);

#[cfg(test)]
mod tests {
    use super::*;

    fn sum<S: Real>(values: &[f64]) -> S {
        S::narrow(values.iter().map(|&value| S::Wide::of(value)).sum())
    }

    #[test]
    fn plain_numbers_lose_what_a_wide_sum_keeps() {
        // 2^24 + 1 is no f32: a plain sum stands still there, a wide one goes on.
        let values = [16_777_216.0, 1.0, 1.0, 1.0, 1.0];
        assert_eq!(sum::<Plain>(&values), Plain(16_777_216.0));
        assert_eq!(sum::<f32>(&values), 16_777_220.0);
        assert_eq!(sum::<f64>(&values), 16_777_220.0);
    }

    #[test]
    fn host_scalars_enter_a_plain_formula_rounded() {
        assert_eq!(<Plain as Real>::Wide::of(0.1), 0.1_f32);
        assert_eq!(<f32 as Real>::Wide::of(0.1), 0.1_f64);
    }
}
