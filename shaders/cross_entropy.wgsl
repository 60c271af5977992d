// Cross-entropy of a row of logits with its target, by the log-sum-exp of the row, m + log(l):
//
//     m = max_c logits[r][c],   l = sum_c exp(logits[r][c] - m)
//     row_loss[r] = log(l) + (m - logits[r][target])
//     softmax_statistics[0][r] = m,   softmax_statistics[1][r] = l
//
// (the shift by the maximum: Blanchard, Higham and Higham 2021, eq. 1.4). One invocation owns one row and reads it
// twice, four values an iteration. The sums of BLOCK values are added to the total together, so that the error does not
// grow with the vocabulary.
// Logits of -inf weigh exactly nothing. A row that has a NaN or +inf, or nothing but -inf, has NaN for all its results: found
// and written by bits, since `max` and `exp` may drop a NaN.
// A target of IGNORED gives a loss of 0; any other past the vocabulary reads the last column, never out of it.
// Assumes that row_stride is a whole number of values; columns from `vocabulary` on may hold anything.

struct Params {
    rows: u32,
    vocabulary: u32,
    row_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> logits: array<Value>;
@group(0) @binding(2) var<storage, read> targets: array<u32>;
@group(0) @binding(3) var<storage, read_write> row_loss: array<f32>;
@group(0) @binding(4) var<storage, read_write> softmax_statistics: array<f32>;

const WIDTH: u32 = 8u;
const BLOCK: u32 = 128u; // values
const IGNORED: u32 = 0xffffffffu;
const LOWEST: f32 = -3.4028234663852886e38;
const INFINITY_BITS: u32 = 0x7f800000u;
const NAN_BITS: u32 = 0x7fc00000u;

// A value of the row that begins at `start`; LOWEST where a column lies outside.
fn value_at(start: u32, column: u32, end: u32) -> Value {
    let inside = columns_from(column * LANES) < Columns(params.vocabulary);
    return select(Value(LOWEST), logits[start + min(column, end - 1u)], inside);
}

fn weight_of(value: Value, maximum: f32) -> Value {
    return select(Value(0.0), exp(value - maximum), value > Value(LOWEST));
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
    let start = row * (params.row_stride / LANES);
    let end = (params.vocabulary + LANES - 1u) / LANES;

    var largest = Value(LOWEST);
    var magnitude = 0u;
    for (var column = 0u; column < end; column += 4u) {
        let a = value_at(start, column, end);
        let b = value_at(start, column + 1u, end);
        let c = value_at(start, column + 2u, end);
        let d = value_at(start, column + 3u, end);
        largest = max(largest, max(max(a, b), max(c, d)));
        magnitude = max(max(magnitude, magnitude_bits(a)), magnitude_bits(b));
        magnitude = max(max(magnitude, magnitude_bits(c)), magnitude_bits(d));
    }
    let maximum = largest_of(largest);

    var total = 0.0;
    var column = 0u;
    while column < end {
        let block_end = min(column + BLOCK, end);
        var sum = Value(0.0);
        for (; column < block_end; column += 4u) {
            let ab = weight_of(value_at(start, column, end), maximum)
                + weight_of(value_at(start, column + 1u, end), maximum);
            let cd = weight_of(value_at(start, column + 2u, end), maximum)
                + weight_of(value_at(start, column + 3u, end), maximum);
            sum += ab + cd;
        }
        total += sum_of(sum);
    }
    let log_sum = log(total);

    let named = targets[row];
    let column_named = min(named, params.vocabulary - 1u);
    let holder = column_named / LANES;
    let chosen = columns_from(holder * LANES) == Columns(column_named);
    let target_logit = sum_of(select(Value(0.0), logits[start + holder], chosen));

    let broken = magnitude > INFINITY_BITS || bitcast<u32>(maximum) == INFINITY_BITS || total == 0.0;
    let not_a_number = bitcast<f32>(magnitude | NAN_BITS);
    let loss = select(log_sum + (maximum - target_logit), not_a_number, broken);
    row_loss[row] = select(loss, 0.0, named == IGNORED);
    softmax_statistics[row] = select(maximum, not_a_number, broken);
    softmax_statistics[params.rows + row] = select(total, not_a_number, broken);
}
