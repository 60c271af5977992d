// Gradients of layer normalisation with respect to its weight and bias, sums over the rows:
//
//     weight_gradient[c] = sum_r output_gradient[r][c] * (x[r][c] - mean[r]) * rstd[r]
//     bias_gradient[c]   = sum_r output_gradient[r][c]
//
// One invocation owns one value of columns and walks down all rows. Rows are summed in blocks, and the blocks' sums in
// turn, so that the error grows with BLOCK + rows / BLOCK and not with the rows. Assumes that a row is a whole number
// of values.

struct Params {
    rows: u32,
    width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<Value>;
@group(0) @binding(2) var<storage, read> output_gradient: array<Value>;
@group(0) @binding(3) var<storage, read> statistics: array<f32>;
@group(0) @binding(4) var<storage, read_write> weight_gradient: array<Value>;
@group(0) @binding(5) var<storage, read_write> bias_gradient: array<Value>;

const WIDTH: u32 = 8u;
const BLOCK: u32 = 64u; // rows

struct Sums {
    weight: Value,
    bias: Value,
}

fn with_row(sums: Sums, row: u32, column: u32, columns: u32) -> Sums {
    let gradient = output_gradient[row * columns + column];
    let normal = (x[row * columns + column] - statistics[row]) * statistics[params.rows + row];
    return Sums(sums.weight + gradient * normal, sums.bias + gradient);
}

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let column = linear_index(workgroup, workgroups, local, WIDTH);
    let columns = params.width / LANES;
    if column >= columns {
        return;
    }
    var total = Sums(Value(0.0), Value(0.0));
    var row = 0u;
    while row < params.rows {
        let end = min(row + BLOCK, params.rows);
        var block = Sums(Value(0.0), Value(0.0));
        for (; row + 3u < end; row += 4u) {
            block = with_row(block, row, column, columns);
            block = with_row(block, row + 1u, column, columns);
            block = with_row(block, row + 2u, column, columns);
            block = with_row(block, row + 3u, column, columns);
        }
        for (; row < end; row += 1u) {
            block = with_row(block, row, column, columns);
        }
        total.weight += block.weight;
        total.bias += block.bias;
    }
    weight_gradient[column] = total.weight;
    bias_gradient[column] = total.bias;
}
