// dx = y * (dy - sum over l of y * dy), the gradient of softmax along l: y, dy and dx are [outer, length, inner].
//
// One invocation owns four neighbouring distributions and walks down them, one vec4 a step, twice: the sum, then dx.
// Assumes that inner is a multiple of 4.

struct Params {
    outer: u32,
    length: u32,
    inner: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> y: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> dy: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> dx: array<vec4<f32>>;

const WIDTH: u32 = 8u;

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let columns = linear_index(workgroup, workgroups, local, WIDTH);
    let inner = params.inner / 4u;
    if columns >= params.outer * inner {
        return;
    }
    let outer = columns / inner;
    let first = outer * params.length * inner + (columns - outer * inner);
    var dot = vec4<f32>(0.0);
    for (var position = 0u; position < params.length; position++) {
        let at = first + position * inner;
        dot += y[at] * dy[at];
    }
    for (var position = 0u; position < params.length; position++) {
        let at = first + position * inner;
        dx[at] = y[at] * (dy[at] - dot);
    }
}
