// y[o, l] = sum over k <= l of x[o, k], or over k >= l where the sum runs backwards: x and y are [outer, length].
//
// One invocation owns a row and walks along it, one vec4 a step: an element depends on those that the sum has met and on
// no other. Assumes that length is a multiple of 4 and inner is 1. Positions are added in blocks (see
// cumulative_sum.wgsl), here of 32 vec4.

struct Params {
    outer: u32,
    length: u32,
    inner: u32,
    reverse: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

const WIDTH: u32 = 64u;
const BLOCK: u32 = 32u;

// In the order in which the sum meets them.
fn met_order(values: vec4<f32>) -> vec4<f32> {
    return select(values, values.wzyx, params.reverse != 0u);
}

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = linear_index(workgroup, workgroups, local, WIDTH);
    if row >= params.outer {
        return;
    }
    let quads = params.length / 4u;
    let first = row * quads;
    var high = 0.0;
    var middle = 0.0;
    var low = 0.0;
    for (var met = 0u; met < quads; met++) {
        let at = first + select(met, quads - 1u - met, params.reverse != 0u);
        let values = met_order(x[at]);
        var sums = vec4<f32>(low + values.x);
        sums.y = sums.x + values.y;
        sums.z = sums.y + values.z;
        sums.w = sums.z + values.w;
        low = sums.w;
        y[at] = met_order(high + (middle + sums));
        if met % BLOCK == BLOCK - 1u {
            middle += low;
            low = 0.0;
        }
        if met % (BLOCK * BLOCK) == BLOCK * BLOCK - 1u {
            high += middle;
            middle = 0.0;
        }
    }
}
