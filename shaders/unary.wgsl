// y[i] = apply(x[i], constant), where `apply` is generated from a row of the element-wise table.
//
// One invocation owns one vec4. Assumes that both buffers are padded to whole vec4; lanes past `count` keep what they
// held, so the padding is never written.

struct Params {
    count: u32,
    operation: u32,
    constant: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

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
    let result = apply(x[index], params.constant);
    if first + 4u <= params.count {
        y[index] = result;
    } else {
        let lanes = vec4<u32>(first, first + 1u, first + 2u, first + 3u) < vec4<u32>(params.count);
        y[index] = select(y[index], result, lanes);
    }
}
