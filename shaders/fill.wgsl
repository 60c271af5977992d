// y[i] = value + i * step
//
// One invocation owns one vec4. Lanes past `count` keep what they held, so the padding is never written. Assumes a count
// whose numbers f32 holds exactly where the step is not 0; where it is, every element is `value` itself, infinity too.

struct Params {
    count: u32,
    value: f32,
    step: f32,
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
    let numbers = first + vec4<u32>(0u, 1u, 2u, 3u);
    let result = params.value + params.step * vec4<f32>(numbers);
    if first + 4u <= params.count {
        y[index] = result;
    } else {
        y[index] = select(y[index], result, numbers < vec4<u32>(params.count));
    }
}
