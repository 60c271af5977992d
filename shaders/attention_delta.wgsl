// Row statistics for the backward passes, one vec4 a query: the largest score m and 1 / l of the forward pass, with which
// a weight is exp(s - m) / l, and delta = output_gradient . output (Dao 2023, Algorithm 2). One load reads all three. A
// query that sees nothing has 0 for 1 / l, so that all its weights are 0. A query with a score that is NaN or +inf has NaN
// for m and 1 / l, and 0 for delta: keys that it does not see have the weight 0, and 0 times NaN would reach them.
//
//   softmax_statistics [2, B, H, Tq]: m, then l        ->        row_statistics [B, H, Tq, 4]: (m, 1 / l, delta, 0)
//
// One invocation owns one query. `Row`, `Element` and the row operations are generated for the class of the head
// dimension.

struct Params {
    batch: u32,
    heads: u32,
    query_length: u32,
    head_dim: u32,
    output_offset: u32,
    output_batch_stride: u32,
    output_head_stride: u32,
    output_row_stride: u32,
    output_gradient_offset: u32,
    output_gradient_batch_stride: u32,
    output_gradient_head_stride: u32,
    output_gradient_row_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> output: array<Element>;
@group(0) @binding(2) var<storage, read> output_gradient: array<Element>;
@group(0) @binding(3) var<storage, read> softmax_statistics: array<f32>;
@group(0) @binding(4) var<storage, read_write> row_statistics: array<vec4<f32>>;

const WIDTH: u32 = 64u;

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = linear_index(workgroup, workgroups, local, WIDTH);
    let count = params.batch * params.heads * params.query_length;
    if index >= count {
        return;
    }
    let row = index % params.query_length;
    let head = index / params.query_length % params.heads;
    let batch = index / params.query_length / params.heads;
    let output_row = load_output(
        params.output_offset + batch * params.output_batch_stride + head * params.output_head_stride
            + row * params.output_row_stride
    );
    let gradient_row = load_output_gradient(
        params.output_gradient_offset + batch * params.output_gradient_batch_stride
            + head * params.output_gradient_head_stride + row * params.output_gradient_row_stride
    );
    let sum = softmax_statistics[count + index];
    let inverse_sum = select(1.0 / sum, 0.0, sum == 0.0);
    let delta = select(dot_rows(output_row, gradient_row), 0.0, is_nan(sum));
    row_statistics[index] = vec4<f32>(softmax_statistics[index], inverse_sum, delta, 0.0);
}
