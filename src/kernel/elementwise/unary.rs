//! Operations of one tensor and one constant.

use super::{operations, truth};
use crate::tape::Wide;

/// sqrt(2 / pi)
const GELU_ROOT: f64 = 0.797_884_560_802_865_4;
const GELU_CUBIC: f64 = 0.044715;

operations! {
    /// Operations `y = f(x, constant)`. Most ignore the constant.
    pub enum Unary with arity 1 {
        /// x
        Identity = "identity", "x", |x, _| x;
        /// constant * x
        Scale = "scale", "constant * x", |x, constant| constant * x;
        /// x + constant
        AddConstant = "add_constant", "x + constant", |x, constant| x + constant;
        /// -x
        Negate = "negate", "-x", |x, _| -x;
        /// e^x
        Exp = "exp", "exp(x)", |x, _| x.exp();
        /// Natural logarithm.
        Log = "log", "log(x)", |x, _| x.ln();
        /// Square root.
        Sqrt = "sqrt", "sqrt(x)", |x, _| x.sqrt();
        /// 1 / x
        Reciprocal = "reciprocal", "1.0 / x", |x, _| W::of(1.0) / x;
        /// |x|
        Absolute = "absolute", "abs(x)", |x, _| x.abs();
        /// Hyperbolic tangent. In WGSL its argument is bounded: some drivers overflow beyond +-44.
        Tanh = "tanh", "tanh(clamp(x, vec4<f32>(-10.0), vec4<f32>(10.0)))", |x, _| x.tanh();
        /// 1 / (1 + e^-x)
        Sigmoid = "sigmoid", "sigmoid(x)", |x, _| W::of(1.0) / (W::of(1.0) + (-x).exp());
        /// max(x, 0); NaN stays NaN.
        Relu = "relu", "select(x, vec4<f32>(0.0), x < vec4<f32>(0.0))", |x, _| {
            if x < W::of(0.0) { W::of(0.0) } else { x }
        };
        /// GELU in its tanh form (Hendrycks and Gimpel 2016, section 2).
        Gelu = "gelu", "gelu(x)", |x, _| {
            W::of(0.5) * x * (W::of(1.0) + gelu_tanh(x))
        };
        /// x * x
        Square = "square", "x * x", |x, _| x * x;
        /// -1, 0 or 1.
        Sign = "sign", "sign(x)", |x, _| {
            if x == W::of(0.0) { W::of(0.0) } else { x.signum() }
        };
        /// 1 where x > 0, else 0.
        Step = "step", "select(vec4<f32>(0.0), vec4<f32>(1.0), x > vec4<f32>(0.0))", |x, _| truth(x > W::of(0.0));
        /// x^constant; negative x has a power where the constant is a whole number.
        Power = "power", "power(x, vec4<f32>(constant))", W::powf;
    }
}

/// tanh(sqrt(2 / pi) (x + 0.044715 x^3))
fn gelu_tanh<W: Wide>(x: W) -> W {
    (W::of(GELU_ROOT) * (x + W::of(GELU_CUBIC) * x * x * x)).tanh()
}

/// d gelu(x) / dx.
pub(super) fn gelu_slope<W: Wide>(x: W) -> W {
    let [zero, half, one] = [0.0, 0.5, 1.0].map(W::of);
    let tanh = gelu_tanh(x);
    let inner = W::of(GELU_ROOT) * (one + W::of(3.0 * GELU_CUBIC) * x * x);
    let sech_squared = one - tanh * tanh;
    // A saturated tanh ends the product before x^3 can overflow.
    let bend = if sech_squared == zero { zero } else { half * x * sech_squared * inner };
    half * (one + tanh) + bend
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(operation: Unary, x: f64, constant: f64) -> f64 {
        operation.function()(x, constant)
    }

    #[test]
    fn values_are_those_worked_out_by_hand() {
        use Unary::*;
        for (operation, x, constant, expected) in [
            (Identity, -1.5, 9.0, -1.5),
            (Scale, -1.5, 2.0, -3.0),
            (AddConstant, -1.5, 2.0, 0.5),
            (Negate, 2.0, 0.0, -2.0),
            (Exp, 1.0, 0.0, std::f64::consts::E),
            (Log, std::f64::consts::E, 0.0, 1.0),
            (Sqrt, 6.25, 0.0, 2.5),
            (Reciprocal, 8.0, 0.0, 0.125),
            (Absolute, -3.0, 0.0, 3.0),
            (Tanh, 0.5, 0.0, 0.462_117_157_260_009_8),
            (Sigmoid, 0.0, 0.0, 0.5),
            (Sigmoid, -1000.0, 0.0, 0.0),
            (Relu, -2.0, 0.0, 0.0),
            (Relu, 2.0, 0.0, 2.0),
            (Gelu, 0.0, 0.0, 0.0),
            (Gelu, 1.0, 0.0, 0.841_191_990_608_276_9),
            (Gelu, -1.0, 0.0, -0.158_808_009_391_723_1),
            (Gelu, 1000.0, 0.0, 1000.0),
            (Gelu, -1000.0, 0.0, 0.0),
            (Square, -3.0, 0.0, 9.0),
            (Sign, -0.1, 0.0, -1.0),
            (Sign, 0.0, 0.0, 0.0),
            (Step, 0.0, 0.0, 0.0),
            (Step, 1e-30, 0.0, 1.0),
            (Power, -2.0, 3.0, -8.0),
            (Power, 2.0, -1.0, 0.5),
            (Power, 0.0, 0.0, 1.0),
        ] {
            let found = evaluate(operation, x, constant);
            assert!((found - expected).abs() <= 1e-12, "{}({x}, {constant}) = {found}", operation.name());
        }
        assert!(evaluate(Relu, f64::NAN, 0.0).is_nan());
    }

    #[test]
    fn the_slope_of_gelu_is_its_finite_difference_and_stays_finite() {
        for x in [-6.0, -3.0, -1.0, -0.1, 0.0, 0.3, 1.0, 2.5, 6.0] {
            let step = 1e-5;
            let difference =
                (evaluate(Unary::Gelu, x + step, 0.0) - evaluate(Unary::Gelu, x - step, 0.0)) / (2.0 * step);
            assert!((gelu_slope(x) - difference).abs() < 1e-9, "at {x}: {} against {difference}", gelu_slope(x));
        }
        assert_eq!((gelu_slope(1e200), gelu_slope(-1e200)), (1.0, 0.0));
    }
}
