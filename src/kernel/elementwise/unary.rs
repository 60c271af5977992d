//! Operations of one tensor and one constant.

use super::{exact, operations, power_error};
use crate::tape::rounding::{OPERATIONS, of_exp, of_log};

/// sqrt(2 / pi)
const GELU_ROOT: f64 = 0.797_884_560_802_865_4;
const GELU_CUBIC: f64 = 0.044715;

operations! {
    /// Operations `y = f(x, constant)`. Most ignore the constant.
    pub enum Unary with arity 1 {
        /// x
        Identity = "identity", "x", |x, _| x, exact;
        /// constant * x
        Scale = "scale", "constant * x", |x, constant| constant * x, |x, constant| OPERATIONS * (constant * x).abs();
        /// x + constant
        AddConstant = "add_constant", "x + constant", |x, constant| x + constant, |x, constant| OPERATIONS * (x.abs() + constant.abs());
        /// -x
        Negate = "negate", "-x", |x, _| -x, exact;
        /// e^x
        Exp = "exp", "exp(x)", |x, _| x.exp(), |x, _| x.exp() * of_exp(x);
        /// Natural logarithm.
        Log = "log", "log(x)", |x, _| x.ln(), |x, _| of_log(x.ln());
        /// Square root.
        Sqrt = "sqrt", "sqrt(x)", |x, _| x.sqrt(), |x, _| 2.0 * OPERATIONS * x.sqrt();
        /// 1 / x
        Reciprocal = "reciprocal", "1.0 / x", |x, _| 1.0 / x, |x, _| OPERATIONS / x.abs();
        /// |x|
        Absolute = "absolute", "abs(x)", |x, _| x.abs(), exact;
        /// Hyperbolic tangent. In WGSL its argument is bounded: some drivers overflow beyond +-44.
        Tanh = "tanh", "tanh(clamp(x, vec4<f32>(-10.0), vec4<f32>(10.0)))", |x, _| x.tanh(), |x, _| 2.0 * OPERATIONS * (1.0 + x.abs().min(10.0));
        /// 1 / (1 + e^-x)
        Sigmoid = "sigmoid", "sigmoid(x)", |x, _| 1.0 / (1.0 + (-x).exp()), |x, _| sigmoid_error(x);
        /// max(x, 0); NaN stays NaN.
        Relu = "relu", "select(x, vec4<f32>(0.0), x < vec4<f32>(0.0))", |x, _| if x < 0.0 { 0.0 } else { x }, exact;
        /// GELU in its tanh form (Hendrycks and Gimpel 2016, section 2).
        Gelu = "gelu", "gelu(x)", |x, _| {
            0.5 * x * (1.0 + (GELU_ROOT * (x + GELU_CUBIC * x * x * x)).tanh())
        }, |x, _| gelu_error(x);
        /// x * x
        Square = "square", "x * x", |x, _| x * x, |x, _| OPERATIONS * x * x;
        /// -1, 0 or 1.
        Sign = "sign", "sign(x)", |x, _| if x == 0.0 { 0.0 } else { x.signum() }, exact;
        /// 1 where x > 0, else 0.
        Step = "step", "select(vec4<f32>(0.0), vec4<f32>(1.0), x > vec4<f32>(0.0))", |x, _| f64::from(x > 0.0), exact;
        /// x^constant; negative x has a power where the constant is a whole number.
        Power = "power", "power(x, vec4<f32>(constant))", f64::powf, power_error;
    }
}

/// What becomes of a weight so small that its exponential is bounded, or that f32 cannot hold it.
const VANISHING: f64 = 1e-33;

/// 1 / (1 + e^-x)
fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The relative error of the sigmoid of x, where x itself is off by `of_x`: only the exponential has its part in it that
/// is not lost in the 1.
fn relative_sigmoid_error(x: f64, of_x: f64) -> f64 {
    (1.0 - sigmoid(x)) * (of_exp(x.clamp(-80.0, 80.0)) + of_x) + OPERATIONS
}

fn sigmoid_error(x: f64) -> f64 {
    sigmoid(x) * relative_sigmoid_error(x, 0.0) + VANISHING
}

/// GELU's gate, `sigmoid(z)` with z = 2 sqrt(2 / pi) (x + 0.044715 x^3), and its relative error.
fn gelu_gate(x: f64) -> (f64, f64) {
    let z = 2.0 * GELU_ROOT * (x + GELU_CUBIC * x * x * x);
    (sigmoid(z), relative_sigmoid_error(z, OPERATIONS * z.abs().min(80.0)))
}

/// The f64 formula has some rounding of its own where `1 + tanh` cancels.
fn gelu_error(x: f64) -> f64 {
    let (gate, error) = gelu_gate(x);
    x.abs() * (gate * (error + OPERATIONS) + 4.0 * f64::EPSILON + VANISHING)
}

/// The error of `gate + x gate (1 - gate) 2 du/dx` (see the shader): that of the gate counts in each place it has.
pub(super) fn gelu_slope_error(x: f64) -> f64 {
    let (gate, error) = gelu_gate(x);
    let x = x.abs().min(20.0);
    let bend = 2.0 * GELU_ROOT * (1.0 + 3.0 * GELU_CUBIC * x * x) * x * gate;
    let of_bend = (1.0 - gate) * (error + 2.0 * OPERATIONS) + gate * error;
    gate * (error + OPERATIONS) + bend * of_bend + 100.0 * (f64::EPSILON + VANISHING)
}

/// d gelu(x) / dx.
pub(super) fn gelu_slope(x: f64) -> f64 {
    let tanh = (GELU_ROOT * (x + GELU_CUBIC * x * x * x)).tanh();
    let inner = GELU_ROOT * (1.0 + 3.0 * GELU_CUBIC * x * x);
    let sech_squared = 1.0 - tanh * tanh;
    // A saturated tanh ends the product before x^3 can overflow.
    let bend = if sech_squared == 0.0 { 0.0 } else { 0.5 * x * sech_squared * inner };
    0.5 * (1.0 + tanh) + bend
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(operation: Unary, x: f64, constant: f64) -> f64 {
        (operation.row().function)(x, constant)
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
