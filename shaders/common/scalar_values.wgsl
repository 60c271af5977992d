// The unit a kernel loads and stores: here one element. `vec4_values.wgsl` explains the names.
alias Value = f32;
alias Columns = u32;
alias Mask = bool;

const LANES: u32 = 1u;

fn columns_from(first: u32) -> Columns {
    return first;
}

fn sum_of(value: Value) -> f32 {
    return value;
}

fn largest_of(value: Value) -> f32 {
    return value;
}

fn magnitude_bits(value: Value) -> u32 {
    return bitcast<u32>(value) & 0x7fffffffu;
}
