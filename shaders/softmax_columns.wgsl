// y[o, l, i] = exp(x[o, l, i] - m) / sum over l of exp(x[o, l, i] - m), with m the maximum over l: x and y are
// [outer, length, inner]. Scores at or below -2^126 are not seen (see softmax.wgsl).
//
// One invocation owns four neighbouring distributions and walks down them, one vec4 a step, twice: maximum and sum at
// once, the sum rescaled whenever the maximum grows (Milakov and Gimelshein 2018, "Online normalizer calculation for
// softmax", section 3), then the weights. Assumes that inner is a multiple of 4.

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
    let columns = linear_index(workgroup, workgroups, local, WIDTH);
    let inner = params.inner / 4u;
    if columns >= params.outer * inner {
        return;
    }
    let outer = columns / inner;
    let first = outer * params.length * inner + (columns - outer * inner);
    let zero = vec4<f32>(0.0);
    var greatest = vec4<f32>(MASKED);
    var total = zero;
    for (var position = 0u; position < params.length; position++) {
        let scores = x[first + position * inner];
        let raised = max(greatest, scores);
        total = total * exp(greatest - raised) + select(zero, exp(scores - raised), are_visible(scores));
        greatest = raised;
    }
    let inverse = select(1.0 / total, zero, total == zero);
    // The weights of what is not seen.
    let unseen = select(zero, total, are_nan(total));
    for (var position = 0u; position < params.length; position++) {
        let at = first + position * inner;
        let scores = x[at];
        y[at] = select(unseen, exp(scores - greatest) * inverse, are_visible(scores));
    }
}
