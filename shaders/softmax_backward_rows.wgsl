// dx = y * (dy - sum over l of y * dy), the gradient of softmax along rows: y, dy and dx are [outer, length].
//
// One invocation owns one row and walks along it, one vec4 a step, twice: the sum, then dx. Assumes that length is a
// multiple of 4 and inner is 1.

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
    let row = linear_index(workgroup, workgroups, local, WIDTH);
    if row >= params.outer {
        return;
    }
    let quads = params.length / 4u;
    let first = row * quads;
    var sums = vec4<f32>(0.0);
    for (var quad = 0u; quad < quads; quad++) {
        sums += y[first + quad] * dy[first + quad];
    }
    let dot = (sums.x + sums.y) + (sums.z + sums.w);
    for (var quad = 0u; quad < quads; quad++) {
        dx[first + quad] = y[first + quad] * (dy[first + quad] - dot);
    }
}
