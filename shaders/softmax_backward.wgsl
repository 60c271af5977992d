// dx = y * (dy - sum over l of y * dy), the gradient of softmax along l: y, dy and dx are [outer, length, inner].
//
// A workgroup owns COLUMNS neighbouring distributions, SPLITS invocations share each (see
// common/split_reduction.wgsl). Two passes: the sum, then dx. Where y is 0, masked or not, dx is 0.

struct Params {
    outer: u32,
    length: u32,
    inner: u32,
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
    let column = linear_workgroup(workgroup, workgroups) * COLUMNS + local % COLUMNS;
    let outer = column / params.inner;
    let first = outer * params.length * params.inner + (column - outer * params.inner);
    // Columns past the end have nothing to read, but meet the others at the barriers.
    let length = select(0u, params.length, column < params.outer * params.inner);
    let split = local / COLUMNS;

    var dot = 0.0;
    for (var position = split; position < length; position += SPLITS) {
        let at = first + position * params.inner;
        dot += y[at] * dy[at];
    }
    dot = sum_of_splits(dot, local);

    for (var position = split; position < length; position += SPLITS) {
        let at = first + position * params.inner;
        dx[at] = y[at] * (dy[at] - dot);
    }
}
