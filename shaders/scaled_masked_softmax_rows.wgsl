// y[r, :] = softmax over the visible keys j of scale * x[r, j]: x and y are [rows, Tk] (see
// scaled_masked_softmax.wgsl).
//
// One invocation owns one row and walks along its visible keys, one vec4 a step, twice: maximum and sum at once, the
// sum rescaled whenever the maximum grows (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax",
// section 3), each of the four lanes for itself; then the weights. Assumes that Tk is a multiple of 4. In the vec4 on the
// edge of the mask, hidden keys are set to -2^127 as they are read.

struct Params {
    rows: u32,
    first_row: u32,
    query_length: u32,
    key_length: u32,
    causal: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

const WIDTH: u32 = 8u;

fn scores_of(first: u32, quad: u32, seen: u32) -> vec4<f32> {
    let keys = 4u * quad + vec4<u32>(0u, 1u, 2u, 3u);
    return select(vec4<f32>(MASKED), params.scale * x[first + quad], keys < vec4<u32>(seen));
}

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
    var maxima = vec4<f32>(MASKED);
    var sums = zero;
    for (var quad = 0u; quad < seen_quads; quad++) {
        let scores = scores_of(first, quad, seen);
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
    for (var quad = 0u; quad < seen_quads; quad++) {
        let scores = scores_of(first, quad, seen);
        y[first + quad] = select(unseen, exp(scores - greatest) * inverse, are_visible(scores));
    }
    for (var quad = seen_quads; quad < quads; quad++) {
        y[first + quad] = unseen;
    }
}
