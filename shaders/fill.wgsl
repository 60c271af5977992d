// y[i] = value
//
// One invocation owns one vec4. Lanes past `count` keep what they held, so the padding is never written.

struct Params {
    count: u32,
    value: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;

const WIDTH: u32 = 64u;

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
    let result = vec4<f32>(params.value);
    if first + 4u <= params.count {
        y[index] = result;
    } else {
        let lanes = vec4<u32>(first, first + 1u, first + 2u, first + 3u) < vec4<u32>(params.count);
        y[index] = select(y[index], result, lanes);
    }
}
