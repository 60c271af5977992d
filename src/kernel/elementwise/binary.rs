//! Operations of two tensors.

use super::{operations, truth};

operations! {
    /// Operations `y = f(a, b)`. Comparisons and logic give 1 or 0; every value but 0 counts as true.
    pub enum Binary with arity 2 {
        /// a + b
        Add = "add", "a + b", |a, b| a + b;
        /// a - b
        Subtract = "subtract", "a - b", |a, b| a - b;
        /// a * b
        Multiply = "multiply", "a * b", |a, b| a * b;
        /// a / b
        Divide = "divide", "a / b", |a, b| a / b;
        /// The smaller of both.
        Minimum = "minimum", "min(a, b)", W::min;
        /// The larger of both.
        Maximum = "maximum", "max(a, b)", W::max;
        /// The gradient of GELU's input: `a` is that input, `b` the gradient of the output.
        GeluGradient = "gelu_gradient", "b * gelu_slope(a)", |a, b| b * super::unary::gelu_slope(a);
        /// a < b
        Less = "less", "select(vec4<f32>(0.0), vec4<f32>(1.0), a < b)", |a, b| truth(a < b);
        /// a <= b
        LessEqual = "less_equal", "select(vec4<f32>(0.0), vec4<f32>(1.0), a <= b)", |a, b| truth(a <= b);
        /// a = b
        Equal = "equal", "select(vec4<f32>(0.0), vec4<f32>(1.0), a == b)", |a, b| truth(a == b);
        /// a and b
        And = "and",
            "select(vec4<f32>(0.0), vec4<f32>(1.0), (a != vec4<f32>(0.0)) & (b != vec4<f32>(0.0)))",
            |a, b| truth(a != W::of(0.0) && b != W::of(0.0));
        /// a or b
        Or = "or",
            "select(vec4<f32>(0.0), vec4<f32>(1.0), (a != vec4<f32>(0.0)) | (b != vec4<f32>(0.0)))",
            |a, b| truth(a != W::of(0.0) || b != W::of(0.0));
        /// a^b; negative a has a power where b is a whole number.
        PowerOf = "power_of", "power(a, b)", W::powf;
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
