// dx = scale * y * (dy - sum over the visible keys of y * dy), the gradient of scaled_masked_softmax: y, dy and dx are
// [rows, Tk], rows of [.., Tq, Tk] from number `first_row` of a matrix on. dx is 0 where the key is not visible (see common/visible_keys.wgsl).
//
// A workgroup owns COLUMNS neighbouring rows, SPLITS invocations share each (see common/split_reduction.wgsl). Only
// visible keys are read. Two passes: the sum, then dx.

struct Params {
    rows: u32,
    first_row: u32,
    query_length: u32,
    key_length: u32,
    causal: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read> dy: array<f32>;
@group(0) @binding(3) var<storage, read_write> dx: array<f32>;

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

    var dot = 0.0;
    for (var key = split; key < seen; key += SPLITS) {
        dot += y[first + key] * dy[first + key];
    }
    dot = sum_of_splits(dot, local);

    for (var key = split; key < length; key += SPLITS) {
        var gradient = 0.0;
        if key < seen {
            gradient = params.scale * y[first + key] * (dy[first + key] - dot);
        }
        dx[first + key] = gradient;
    }
}
