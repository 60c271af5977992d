// Layer normalisation over the last axis (Ba, Kiros and Hinton 2016, section 3):
//
//     y[r][c] = (x[r][c] - mean[r]) * rstd[r] * weight[c] + bias[c],   rstd = 1 / sqrt(variance + epsilon)
//
// with the biased variance. One invocation owns one row and reads it three times:
//
//     pass 1   a first mean, with the rounding of a long sum
//     pass 2   the mean and the mean square of what is left, x - first mean; the former corrects the mean, and its
//              square the variance (Chan, Golub and LeVeque 1983, eq. 1.7)
//     pass 3   y
//
// so a row far from 0, or a constant one, loses nothing. statistics[0] is the mean of each row, statistics[1] its rstd.
// Assumes that a row is a whole number of values.

struct Params {
    rows: u32,
    width: u32,
    epsilon: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<Value>;
@group(0) @binding(2) var<storage, read> weight: array<Value>;
@group(0) @binding(3) var<storage, read> bias: array<Value>;
@group(0) @binding(4) var<storage, read_write> y: array<Value>;
@group(0) @binding(5) var<storage, read_write> statistics: array<f32>;

const WIDTH: u32 = 8u;

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
    let columns = params.width / LANES;
    let start = row * columns;
    let share = 1.0 / f32(params.width);

    var sum = Value(0.0);
    for (var column = 0u; column < columns; column += 1u) {
        sum += x[start + column];
    }
    let first_mean = sum_of(sum) * share;

    var rest = Value(0.0);
    var squares = Value(0.0);
    for (var column = 0u; column < columns; column += 1u) {
        let deviation = x[start + column] - first_mean;
        rest += deviation;
        squares += deviation * deviation;
    }
    let correction = sum_of(rest) * share;
    let variance = max(sum_of(squares) * share - correction * correction, 0.0);
    let rstd = 1.0 / sqrt(variance + params.epsilon);

    for (var column = 0u; column < columns; column += 1u) {
        let normal = ((x[start + column] - first_mean) - correction) * rstd;
        y[start + column] = normal * weight[column] + bias[column];
    }
    statistics[row] = first_mean + correction;
    statistics[params.rows + row] = rstd;
}
