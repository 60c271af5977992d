// dx = scale * y * (dy - sum over the visible keys of y * dy), the gradient of scaled_masked_softmax: y, dy and dx are
// [rows, Tk] (see scaled_masked_softmax_backward.wgsl).
//
// One invocation owns one row and walks along its visible keys, one vec4 a step, twice: the sum, then dx. Assumes that
// Tk is a multiple of 4. Hidden keys in the vec4 on the edge of the mask are skipped lane by lane: their dy may be
// anything.

struct Params {
    rows: u32,
    first_row: u32,
    query_length: u32,
    key_length: u32,
    causal: u32,
    scale: f32,
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
    if row >= params.rows {
        return;
    }
    let quads = params.key_length / 4u;
    let first = row * quads;
    let seen = visible_keys((params.first_row + row) % params.query_length);
    let seen_quads = (seen + 3u) / 4u;
    let zero = vec4<f32>(0.0);
    let lanes = vec4<u32>(0u, 1u, 2u, 3u);
    var sums = zero;
    for (var quad = 0u; quad < seen_quads; quad++) {
        let visible = 4u * quad + lanes < vec4<u32>(seen);
        sums += select(zero, y[first + quad] * dy[first + quad], visible);
    }
    let dot = (sums.x + sums.y) + (sums.z + sums.w);
    for (var quad = 0u; quad < seen_quads; quad++) {
        let visible = 4u * quad + lanes < vec4<u32>(seen);
        dx[first + quad] = select(zero, params.scale * y[first + quad] * (dy[first + quad] - dot), visible);
    }
    for (var quad = seen_quads; quad < quads; quad++) {
        dx[first + quad] = zero;
    }
}
