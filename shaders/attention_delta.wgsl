// Row statistics for the backward passes: row_statistics[0] = log_sum_exp, row_statistics[1] = output_gradient . output
// (the `delta` of Dao 2023, Algorithm 2), both [B, H, Tq], packed in one buffer to save a binding.
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
@group(0) @binding(3) var<storage, read> log_sum_exp: array<f32>;
@group(0) @binding(4) var<storage, read_write> row_statistics: array<f32>;

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
    row_statistics[index] = log_sum_exp[index];
    row_statistics[count + index] = dot_rows(output_row, gradient_row);
}
