//! Operations of two tensors.

use super::super::domain::{Defined, Domain, Kinks};
use super::{exact, operations, power_error, truth};
use crate::tape::rounding::OPERATIONS;

const TIES: Domain = Domain::with_kinks(Kinks::AtTies);
/// What nothing differentiates: a gradient, and powers whose exponent is a tensor.
const NO_RULE: Domain = Domain::NotDifferentiable { what: "its inputs" };

operations! {
    /// Operations `y = f(a, b)`. Comparisons and logic give 1 or 0; every value but 0 counts as true.
    pub enum Binary with arity 2 {
        /// a + b
        Add = "add" {
            wgsl: "a + b",
            function: |a, b| a + b,
            domain: Domain::SMOOTH,
            error: |a, b| OPERATIONS * (a + b).abs(),
        }
        /// a - b
        Subtract = "subtract" {
            wgsl: "a - b",
            function: |a, b| a - b,
            domain: Domain::SMOOTH,
            error: |a, b| OPERATIONS * (a - b).abs(),
        }
        /// a * b
        Multiply = "multiply" {
            wgsl: "a * b",
            function: |a, b| a * b,
            domain: Domain::SMOOTH,
            error: |a, b| OPERATIONS * (a * b).abs(),
        }
        /// a / b
        Divide = "divide" {
            wgsl: "a / b",
            function: |a, b| a / b,
            domain: Domain::smooth(&[Defined::Everywhere, Defined::NonZero]),
            error: |a, b| OPERATIONS * (a / b).abs(),
        }
        /// The smaller of both.
        Minimum = "minimum" {
            wgsl: "min(a, b)",
            function: W::min,
            domain: TIES,
            error: exact,
        }
        /// The larger of both.
        Maximum = "maximum" {
            wgsl: "max(a, b)",
            function: W::max,
            domain: TIES,
            error: exact,
        }
        /// The gradient of GELU's input: `a` is that input, `b` the gradient of the output.
        GeluGradient = "gelu_gradient" {
            wgsl: "b * gelu_slope(a)",
            function: |a, b| b * super::unary::gelu_slope(a),
            domain: NO_RULE,
            error: |a, b| b.abs() * super::unary::gelu_slope_error(a),
        }
        /// a < b
        Less = "less" {
            wgsl: "select(vec4<f32>(0.0), vec4<f32>(1.0), a < b)",
            function: |a, b| truth(a < b),
            domain: TIES,
            error: exact,
        }
        /// a <= b
        LessEqual = "less_equal" {
            wgsl: "select(vec4<f32>(0.0), vec4<f32>(1.0), a <= b)",
            function: |a, b| truth(a <= b),
            domain: TIES,
            error: exact,
        }
        /// a = b
        Equal = "equal" {
            wgsl: "select(vec4<f32>(0.0), vec4<f32>(1.0), a == b)",
            function: |a, b| truth(a == b),
            domain: TIES,
            error: exact,
        }
        /// a and b
        And = "and" {
            wgsl: "select(vec4<f32>(0.0), vec4<f32>(1.0), (a != vec4<f32>(0.0)) & (b != vec4<f32>(0.0)))",
            function: |a, b| truth(a != W::of(0.0) && b != W::of(0.0)),
            domain: Domain::with_kinks(Kinks::AtZero),
            error: exact,
        }
        /// a or b
        Or = "or" {
            wgsl: "select(vec4<f32>(0.0), vec4<f32>(1.0), (a != vec4<f32>(0.0)) | (b != vec4<f32>(0.0)))",
            function: |a, b| truth(a != W::of(0.0) || b != W::of(0.0)),
            domain: Domain::with_kinks(Kinks::AtZero),
            error: exact,
        }
        /// a^b; negative a has a power where b is a whole number.
        PowerOf = "power_of" {
            wgsl: "power(a, b)",
            function: W::powf,
            domain: NO_RULE,
            error: power_error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_worked_out_by_hand() {
        use Binary::*;
        for (operation, a, b, expected) in [
            (Add, 1.5, 2.0, 3.5),
            (Subtract, 1.5, 2.0, -0.5),
            (Multiply, 1.5, 2.0, 3.0),
            (Divide, 1.5, 2.0, 0.75),
            (Minimum, 1.5, 2.0, 1.5),
            (Maximum, 1.5, 2.0, 2.0),
            (GeluGradient, 0.0, 3.0, 1.5),
            (Less, 1.0, 1.0, 0.0),
            (Less, 0.5, 1.0, 1.0),
            (LessEqual, 1.0, 1.0, 1.0),
            (LessEqual, 1.5, 1.0, 0.0),
            (Equal, 1.0, 1.0, 1.0),
            (Equal, 1.0, -1.0, 0.0),
            (And, 2.0, -1.0, 1.0),
            (And, 2.0, 0.0, 0.0),
            (Or, 0.0, -1.0, 1.0),
            (Or, 0.0, 0.0, 0.0),
            (PowerOf, -2.0, 2.0, 4.0),
        ] {
            assert_eq!(operation.function()(a, b), expected, "{}({a}, {b})", operation.name());
        }
    }
}
