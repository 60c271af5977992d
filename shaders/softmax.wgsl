// y[o, l, i] = exp(x[o, l, i] - m) / sum over l of exp(x[o, l, i] - m), with m the maximum over l: x and y are
// [outer, length, inner]. Scores at or below -2^126 are not seen: their weight is 0, and so are all weights where
// nothing is seen. A score that is NaN or +inf makes all weights NaN.
//
// A workgroup owns COLUMNS neighbouring distributions, SPLITS invocations share each (see
// common/split_reduction.wgsl). Three passes over x: maximum, sum, weights.

struct Params {
    outer: u32,
    length: u32,
    inner: u32,
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
    let column = linear_workgroup(workgroup, workgroups) * COLUMNS + local % COLUMNS;
    let outer = column / params.inner;
    let first = outer * params.length * params.inner + (column - outer * params.inner);
    // Columns past the end have nothing to read, but meet the others at the barriers.
    let length = select(0u, params.length, column < params.outer * params.inner);
    let split = local / COLUMNS;

    var greatest = MASKED;
    for (var position = split; position < length; position += SPLITS) {
        greatest = max(greatest, x[first + position * params.inner]);
    }
    greatest = maximum_of_splits(greatest, local);

    var total = 0.0;
    for (var position = split; position < length; position += SPLITS) {
        let score = x[first + position * params.inner];
        total += select(0.0, exp(score - greatest), is_visible(score));
    }
    total = sum_of_splits(total, local);

    // The greatest visible score adds exactly 1, so a total of 0 means that nothing is seen.
    let inverse = select(1.0 / total, 0.0, total == 0.0);
    // The weight of what is not seen.
    let unseen = select(0.0, total, is_nan(total));
    for (var position = split; position < length; position += SPLITS) {
        let at = first + position * params.inner;
        let score = x[at];
        y[at] = select(unseen, exp(score - greatest) * inverse, is_visible(score));
    }
}
