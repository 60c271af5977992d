//! Operations of two tensors.

use super::{exact, operations, power_error};
use crate::tape::rounding::OPERATIONS;

operations! {
    /// Operations `y = f(a, b)`. Comparisons and logic give 1 or 0; every value but 0 counts as true.
    pub enum Binary with arity 2 {
        /// a + b
        Add = "add", "a + b", |a, b| a + b, |a, b| OPERATIONS * (a + b).abs();
        /// a - b
        Subtract = "subtract", "a - b", |a, b| a - b, |a, b| OPERATIONS * (a - b).abs();
        /// a * b
        Multiply = "multiply", "a * b", |a, b| a * b, |a, b| OPERATIONS * (a * b).abs();
        /// a / b
        Divide = "divide", "a / b", |a, b| a / b, |a, b| OPERATIONS * (a / b).abs();
        /// The smaller of both.
        Minimum = "minimum", "min(a, b)", f64::min, exact;
        /// The larger of both.
        Maximum = "maximum", "max(a, b)", f64::max, exact;
        /// The gradient of GELU's input: `a` is that input, `b` the gradient of the output.
        GeluGradient = "gelu_gradient", "b * gelu_slope(a)", |a, b| b * super::unary::gelu_slope(a), |a, b| b.abs() * super::unary::gelu_slope_error(a);
        /// a < b
        Less = "less", "select(vec4<f32>(0.0), vec4<f32>(1.0), a < b)", |a, b| f64::from(a < b), exact;
        /// a <= b
        LessEqual = "less_equal", "select(vec4<f32>(0.0), vec4<f32>(1.0), a <= b)", |a, b| f64::from(a <= b), exact;
        /// a = b
        Equal = "equal", "select(vec4<f32>(0.0), vec4<f32>(1.0), a == b)", |a, b| f64::from(a == b), exact;
        /// a and b
        And = "and",
            "select(vec4<f32>(0.0), vec4<f32>(1.0), (a != vec4<f32>(0.0)) & (b != vec4<f32>(0.0)))",
            |a, b| f64::from(a != 0.0 && b != 0.0), exact;
        /// a or b
        Or = "or",
            "select(vec4<f32>(0.0), vec4<f32>(1.0), (a != vec4<f32>(0.0)) | (b != vec4<f32>(0.0)))",
            |a, b| f64::from(a != 0.0 || b != 0.0), exact;
        /// a^b; negative a has a power where b is a whole number.
        PowerOf = "power_of", "power(a, b)", f64::powf, power_error;
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
            assert_eq!((operation.row().function)(a, b), expected, "{}({a}, {b})", operation.name());
        }
    }
}
