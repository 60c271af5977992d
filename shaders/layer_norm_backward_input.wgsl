// Gradient of layer normalisation with respect to its input. With n = (x - mean) * rstd and g = output_gradient * weight,
// a row's gradient is
//
//     input_gradient = rstd * (g - mean(g) - n * mean(g * n))
//
// (the derivative of Ba, Kiros and Hinton 2016, eq. 4, through both the mean and the variance). One invocation owns one
// row and reads it twice: once for the two means, once for the result. Assumes that a row is a whole number of values.

struct Params {
    rows: u32,
    width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<Value>;
@group(0) @binding(2) var<storage, read> weight: array<Value>;
@group(0) @binding(3) var<storage, read> output_gradient: array<Value>;
@group(0) @binding(4) var<storage, read> statistics: array<f32>;
@group(0) @binding(5) var<storage, read_write> input_gradient: array<Value>;

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
    let mean = statistics[row];
    let rstd = statistics[params.rows + row];

    var gradient_sum = Value(0.0);
    var product_sum = Value(0.0);
    for (var column = 0u; column < columns; column += 1u) {
        let gradient = output_gradient[start + column] * weight[column];
        let normal = (x[start + column] - mean) * rstd;
        gradient_sum += gradient;
        product_sum += gradient * normal;
    }
    let share = 1.0 / f32(params.width);
    let gradient_mean = sum_of(gradient_sum) * share;
    let product_mean = sum_of(product_sum) * share;

    for (var column = 0u; column < columns; column += 1u) {
        let gradient = output_gradient[start + column] * weight[column];
        let normal = (x[start + column] - mean) * rstd;
        input_gradient[start + column] = rstd * ((gradient - gradient_mean) - normal * product_mean);
    }
}
