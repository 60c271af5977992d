// Whether a condition holds: whatever is neither 0 nor -0 does, NaN too. A test of the bits, since adapters may compare
// NaN as they like and take the smallest numbers for 0.
fn holds(condition: vec4<f32>) -> vec4<bool> {
    return (bitcast<vec4<u32>>(condition) & vec4<u32>(0x7fffffffu)) != vec4<u32>(0u);
}
