// y[i] = a[...] where condition[...] is not 0, else b[...]; all three are broadcast to the shape of y.
//
// One invocation owns one vec4 of y, which is contiguous from `y_offset` on; `common/broadcast_position.wgsl` says which operands it can read. Nothing is
// multiplied, so that NaN and infinity of the side that is not taken stay behind. Lanes past `count` keep what they held.

struct Params {
    shape_low: vec4<u32>,
    shape_high: vec4<u32>,
    condition_strides_low: vec4<u32>,
    condition_strides_high: vec4<u32>,
    a_strides_low: vec4<u32>,
    a_strides_high: vec4<u32>,
    b_strides_low: vec4<u32>,
    b_strides_high: vec4<u32>,
    count: u32,
    condition_offset: u32,
    a_offset: u32,
    b_offset: u32,
    y_offset: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> condition: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> y: array<vec4<f32>>;

const WIDTH: u32 = 64u;
const CONDITION_LAYOUT: u32 = 0u;
const A_LAYOUT: u32 = 0u;
const B_LAYOUT: u32 = 0u;

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = linear_index(workgroup, workgroups, local, WIDTH);
    let first = index * 4u;
    if first >= params.count {
        return;
    }
    let condition_at = params.condition_offset
        + broadcast_position(first, CONDITION_LAYOUT, params.condition_strides_low, params.condition_strides_high);
    let a_at = params.a_offset + broadcast_position(first, A_LAYOUT, params.a_strides_low, params.a_strides_high);
    let b_at = params.b_offset + broadcast_position(first, B_LAYOUT, params.b_strides_low, params.b_strides_high);
    let conditions = broadcast_values(condition[condition_at / 4u], condition_at, CONDITION_LAYOUT);
    let a_values = broadcast_values(a[a_at / 4u], a_at, A_LAYOUT);
    let b_values = broadcast_values(b[b_at / 4u], b_at, B_LAYOUT);
    let result = select(b_values, a_values, holds(conditions));
    let target_index = params.y_offset / 4u + index;
    if first + 4u <= params.count {
        y[target_index] = result;
    } else {
        let lanes = vec4<u32>(first, first + 1u, first + 2u, first + 3u) < vec4<u32>(params.count);
        y[target_index] = select(y[target_index], result, lanes);
    }
}
