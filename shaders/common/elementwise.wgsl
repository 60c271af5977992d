// Functions that rows of the element-wise table call. All stay finite wherever the mathematics does: arguments of exp
// are bounded, so that no driver's overflow behaviour is met.

// 1 / (1 + exp(-x))
fn sigmoid(x: vec4<f32>) -> vec4<f32> {
    return 1.0 / (1.0 + exp(min(-x, vec4<f32>(80.0))));
}

// GELU in its tanh form (Hendrycks and Gimpel 2016, section 2): gelu(x) = x/2 * (1 + tanh(u)) with
// u = sqrt(2/pi) * (x + 0.044715 x^3). Since (1 + tanh(u)) / 2 = sigmoid(2u), one exponential does, and nothing
// cancels where x is negative. Beyond |x| = 20 the gate is 0 or 1 to the last bit.
const GELU_SLOPE: f32 = 1.5957691216057308; // 2 * sqrt(2/pi)
const GELU_CUBIC: f32 = 0.044715;

fn gelu_gate(bounded: vec4<f32>) -> vec4<f32> {
    return sigmoid(GELU_SLOPE * bounded * (1.0 + GELU_CUBIC * bounded * bounded));
}

fn gelu(x: vec4<f32>) -> vec4<f32> {
    let bounded = clamp(x, vec4<f32>(-20.0), vec4<f32>(20.0));
    // Not `max(x, bounded)`: NaN must stay NaN.
    return select(x, bounded, x < bounded) * gelu_gate(bounded);
}

// d gelu / dx = g + x * g * (1 - g) * 2 du/dx, where g is the gate.
fn gelu_slope(x: vec4<f32>) -> vec4<f32> {
    let bounded = clamp(x, vec4<f32>(-20.0), vec4<f32>(20.0));
    let gate = gelu_gate(bounded);
    let inner = GELU_SLOPE * (1.0 + 3.0 * GELU_CUBIC * bounded * bounded);
    return gate + bounded * gate * (1.0 - gate) * inner;
}

// base^exponent as in C: a negative base has a real power where the exponent is a whole number, and 0^0 is 1. WGSL's
// own pow knows neither.
fn power(base: vec4<f32>, exponent: vec4<f32>) -> vec4<f32> {
    let whole = exponent == floor(exponent);
    let odd = whole & (exponent != 2.0 * floor(0.5 * exponent));
    let magnitude = pow(abs(base), exponent);
    let signed = select(magnitude, -magnitude, odd & (base < vec4<f32>(0.0)));
    let real = whole | (base >= vec4<f32>(0.0));
    return select(select(pow(base, exponent), signed, real), vec4<f32>(1.0), exponent == vec4<f32>(0.0));
}
