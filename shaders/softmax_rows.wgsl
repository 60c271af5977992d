// y[o, l] = exp(x[o, l] - m) / sum over l of exp(x[o, l] - m), with m the maximum of row o: x and y are
// [outer, length]. Scores at or below -2^126 are not seen (see softmax.wgsl).
//
// One invocation owns one row and walks along it, one vec4 a step, twice: maximum and sum at once, the sum rescaled
// whenever the maximum grows (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", section 3), each
// of the four lanes for itself; then the weights. Assumes that length is a multiple of 4 and inner is 1.

struct Params {
    outer: u32,
    length: u32,
    inner: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

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
    let zero = vec4<f32>(0.0);
    var maxima = vec4<f32>(MASKED);
    var sums = zero;
    for (var quad = 0u; quad < quads; quad++) {
        let scores = x[first + quad];
        let raised = max(maxima, scores);
        sums = sums * exp(maxima - raised) + select(zero, exp(scores - raised), are_visible(scores));
        maxima = raised;
    }
    let greatest = max(max(maxima.x, maxima.y), max(maxima.z, maxima.w));
    sums *= exp(maxima - greatest);
    let total = (sums.x + sums.y) + (sums.z + sums.w);
    let inverse = select(1.0 / total, 0.0, total == 0.0);
    // The weights of what is not seen.
    let unseen = vec4<f32>(select(0.0, total, is_nan(total)));
    for (var quad = 0u; quad < quads; quad++) {
        let scores = x[first + quad];
        y[first + quad] = select(unseen, exp(scores - greatest) * inverse, are_visible(scores));
    }
}
