// The unit a kernel loads and stores: here four neighbouring elements. `scalar_values.wgsl` has the same names for one
// element, so that one text serves rows that begin at a multiple of 16 bytes and rows that do not.
alias Value = vec4<f32>;
alias Columns = vec4<u32>;
alias Mask = vec4<bool>;

const LANES: u32 = 4u;

// The numbers of the elements of a value whose first element is `first`.
fn columns_from(first: u32) -> Columns {
    return vec4<u32>(first, first + 1u, first + 2u, first + 3u);
}

fn sum_of(value: Value) -> f32 {
    return (value.x + value.y) + (value.z + value.w);
}

fn largest_of(value: Value) -> f32 {
    return max(max(value.x, value.y), max(value.z, value.w));
}

// The largest bits of an absolute value: above 0x7f800000 where an element is NaN.
fn magnitude_bits(value: Value) -> u32 {
    let bits = bitcast<vec4<u32>>(value) & vec4<u32>(0x7fffffffu);
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}
