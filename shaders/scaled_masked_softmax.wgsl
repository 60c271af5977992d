// y[r, :] = softmax over the visible keys j of scale * x[r, j]: x and y are [rows, Tk], rows of [.., Tq, Tk] from number
// `first_row` of a matrix on, so that row r is that of query i = (first_row + r) mod Tq. Weights of keys that are not
// visible are 0. Causal: query i sees key j iff j <= i + Tk - Tq (bottom-right alignment). A scaled score at or below
// -2^126 is not seen either. A visible score that is NaN or +inf makes all weights of its row NaN.
//
// A workgroup owns COLUMNS neighbouring rows, SPLITS invocations share each (see common/split_reduction.wgsl). Only
// visible keys are read. Three passes: maximum, sum, weights.

struct Params {
    rows: u32,
    first_row: u32,
    query_length: u32,
    key_length: u32,
    causal: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = linear_workgroup(workgroup, workgroups) * COLUMNS + local % COLUMNS;
    let first = row * params.key_length;
    // Rows past the end have nothing to read, but meet the others at the barriers.
    let length = select(0u, params.key_length, row < params.rows);
    let seen = min(length, visible_keys((params.first_row + row) % params.query_length));
    let split = local / COLUMNS;

    var greatest = MASKED;
    for (var key = split; key < seen; key += SPLITS) {
        greatest = max(greatest, params.scale * x[first + key]);
    }
    greatest = maximum_of_splits(greatest, local);

    var total = 0.0;
    for (var key = split; key < seen; key += SPLITS) {
        let score = params.scale * x[first + key];
        total += select(0.0, exp(score - greatest), is_visible(score));
    }
    total = sum_of_splits(total, local);

    let inverse = select(1.0 / total, 0.0, total == 0.0);
    // The weight of what is not seen.
    let unseen = select(0.0, total, is_nan(total));
    for (var key = split; key < length; key += SPLITS) {
        var weight = unseen;
        if key < seen {
            let score = params.scale * x[first + key];
            weight = select(unseen, exp(score - greatest) * inverse, is_visible(score));
        }
        y[first + key] = weight;
    }
}
