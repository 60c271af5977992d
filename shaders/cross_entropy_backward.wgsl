// Gradient of the mean cross-entropy with respect to the logits:
//
//     logits_gradient[r][c] = upstream / count * (exp(logits[r][c] - log_sum_exp[r]) - (c == targets[r] ? 1 : 0))
//
// (Bishop 2006, eq. 4.109), where count, in summary[1], is the number of targets that are not IGNORED; the row of an
// ignored target is 0. One invocation owns one row, four values an iteration. Columns from `vocabulary` on are
// not written. Assumes that row_stride is a whole number of values.

struct Params {
    rows: u32,
    vocabulary: u32,
    row_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> logits: array<Value>;
@group(0) @binding(2) var<storage, read> targets: array<u32>;
@group(0) @binding(3) var<storage, read> log_sum_exp: array<f32>;
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
    log_sum: f32,
    // upstream / count, and 0 where the target is ignored.
    factor: f32,
}

fn write_value(row: Row, column: u32) {
    if column >= row.end {
        return;
    }
    let columns = columns_from(column * LANES);
    let value = logits[row.start + column];
    let weight = select(Value(0.0), exp(value - row.log_sum), value > Value(LOWEST));
    let expected = select(Value(0.0), Value(1.0), columns == Columns(row.target_column));
    var gradient = select(Value(0.0), row.factor * (weight - expected), row.factor != 0.0);
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
    // Where nothing counts the count is 0, and every row is ignored.
    let share = upstream[0] / max(summary[1], 1.0);
    let factor = select(share, 0.0, targets[index] == IGNORED);
    let row = Row(start, end, target_column, log_sum_exp[index], factor);
    for (var column = 0u; column < end; column += 4u) {
        write_value(row, column);
        write_value(row, column + 1u);
        write_value(row, column + 2u);
        write_value(row, column + 3u);
    }
}
