// Gradient of the mean cross-entropy with respect to the logits:
//
//     logits_gradient[r][c] = upstream / count * (exp(logits[r][c] - m[r]) / l[r] - (c == targets[r] ? 1 : 0))
//
// (Bishop 2006, eq. 4.109), where m and l, in softmax_statistics, are the row's largest logit and the sum of exp(logits - m)
// and count, in summary[1], is the number of targets that are not IGNORED. The row of an ignored target is 0; one whose l is
// NaN is NaN. The weight is not exp(logits - (m + log(l))): near logits of 20,000 that sum in f32 is off by 0.001.
// One invocation owns one row, four values an iteration. Columns from `vocabulary` on are
// not written. Assumes that row_stride is a whole number of values.

struct Params {
    rows: u32,
    vocabulary: u32,
    row_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> logits: array<Value>;
@group(0) @binding(2) var<storage, read> targets: array<u32>;
@group(0) @binding(3) var<storage, read> softmax_statistics: array<f32>; // [2, rows]
@group(0) @binding(4) var<storage, read> summary: array<f32>;
@group(0) @binding(5) var<storage, read> upstream: array<f32>;
@group(0) @binding(6) var<storage, read_write> logits_gradient: array<Value>;

const WIDTH: u32 = 8u;
const IGNORED: u32 = 0xffffffffu;
const LOWEST: f32 = -3.4028234663852886e38;

struct Row {
    start: u32,
    end: u32,
    target_column: u32,
    maximum: f32,
    inverse_sum: f32,
    // upstream / count
    factor: f32,
    is_ignored: bool,
}

fn write_value(row: Row, column: u32) {
    if column >= row.end {
        return;
    }
    let columns = columns_from(column * LANES);
    let value = logits[row.start + column];
    let weight = select(Value(0.0), exp(value - row.maximum) * row.inverse_sum, value > Value(LOWEST));
    let expected = select(Value(0.0), Value(1.0), columns == Columns(row.target_column));
    var gradient = select(row.factor * (weight - expected), Value(0.0), row.is_ignored);
    if (column + 1u) * LANES > params.vocabulary {
        gradient = select(logits_gradient[row.start + column], gradient, columns < Columns(params.vocabulary));
    }
    logits_gradient[row.start + column] = gradient;
}

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = linear_index(workgroup, workgroups, local, WIDTH);
    if index >= params.rows {
        return;
    }
    let start = index * (params.row_stride / LANES);
    let end = (params.vocabulary + LANES - 1u) / LANES;
    let target_column = min(targets[index], params.vocabulary - 1u);
    let is_ignored = targets[index] == IGNORED;
    // Where nothing counts the count is 0, and every row is ignored.
    let share = upstream[0] / max(summary[1], 1.0);
    let sum = softmax_statistics[params.rows + index];
    // A comparison may drop a NaN, a product does not.
    let factor = select(share, sum, is_nan(sum));
    let row = Row(start, end, target_column, softmax_statistics[index], 1.0 / sum, factor, is_ignored);
    for (var column = 0u; column < end; column += 4u) {
        write_value(row, column);
        write_value(row, column + 1u);
        write_value(row, column + 2u);
        write_value(row, column + 3u);
    }
}
