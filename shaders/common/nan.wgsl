// Whether a value is a NaN, by its bits: compilers may take `x != x` for false.
const MAGNITUDE: u32 = 0x7fffffffu;
const INFINITY: u32 = 0x7f800000u;

fn is_nan(value: f32) -> bool {
    return (bitcast<u32>(value) & MAGNITUDE) > INFINITY;
}

fn are_nan(values: vec4<f32>) -> vec4<bool> {
    return (bitcast<vec4<u32>>(values) & vec4<u32>(MAGNITUDE)) > vec4<u32>(INFINITY);
}
