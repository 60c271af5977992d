// sum[i] = x[i] in the first micro-batch of a step, sum[i] + x[i] in every later one.
//
// `scalars[0]` is 1 in the first micro-batch and 0 afterwards. The first one does not read `sum`, so whatever the step
// before left there, NaN included, is gone. One invocation owns one vec4; lanes past `count` keep what they held.

struct Params {
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> scalars: array<f32>;
@group(0) @binding(3) var<storage, read_write> sum: array<vec4<f32>>;

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
    var result = x[index];
    if scalars[0] == 0.0 {
        result += sum[index];
    }
    if first + 4u <= params.count {
        sum[index] = result;
    } else {
        let lanes = vec4<u32>(first, first + 1u, first + 2u, first + 3u) < vec4<u32>(params.count);
        sum[index] = select(sum[index], result, lanes);
    }
}
