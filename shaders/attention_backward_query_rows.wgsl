// Attention backward to the query, several rows an invocation.
//
//   p = exp(scale query . key - m) / l      dp = output_gradient . value      ds = p (dp - delta)
//   query_gradient = scale sum over keys of ds key           (Dao et al. 2022, Algorithm 4, by rows of the query)
//
// m, 1 / l and delta of a query are its `row_statistics` (see attention_delta.wgsl). 1 / l is the same for all keys of a
// query and multiplies the sum at the end.
//
// Each invocation owns 2 queries, 8 apart, and reads key after key: lane 0 of a workgroup has queries 0 and 8, lane 1 has
// 1 and 9, ... No workgroup memory, no barriers, no subgroups. `Row`, `Element` and the row operations are generated for
// the class of the head dimension. Workgroups are counted [batch][head][block] along x and may be folded into y.

struct Params {
    batch: u32,
    heads: u32,
    key_value_heads: u32,
    query_length: u32,
    key_length: u32,
    head_dim: u32,
    causal: u32,
    scale: f32,
    query_offset: u32,
    query_batch_stride: u32,
    query_head_stride: u32,
    query_row_stride: u32,
    key_offset: u32,
    key_batch_stride: u32,
    key_head_stride: u32,
    key_row_stride: u32,
    value_offset: u32,
    value_batch_stride: u32,
    value_head_stride: u32,
    value_row_stride: u32,
    output_gradient_offset: u32,
    output_gradient_batch_stride: u32,
    output_gradient_head_stride: u32,
    output_gradient_row_stride: u32,
    query_gradient_offset: u32,
    query_gradient_batch_stride: u32,
    query_gradient_head_stride: u32,
    query_gradient_row_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> query: array<Element>;
@group(0) @binding(2) var<storage, read> key: array<Element>;
@group(0) @binding(3) var<storage, read> value: array<Element>;
@group(0) @binding(4) var<storage, read> output_gradient: array<Element>;
@group(0) @binding(5) var<storage, read> row_statistics: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> query_gradient: array<Element>;

const WIDTH: u32 = 8u;
const ROWS: u32 = 2u;

// l times the gradient of a score.
fn score_gradient(product: f32, weight_gradient: f32, statistics: vec4<f32>, visible: bool) -> f32 {
    let score = select(MASKED, params.scale * product, visible);
    return select(0.0, exp(score - statistics.x) * (weight_gradient - statistics.z), is_visible(score));
}

fn finish(batch: u32, head: u32, index: u32, statistics: vec4<f32>, sum: Row) {
    if index < params.query_length {
        let first = params.query_gradient_offset + batch * params.query_gradient_batch_stride
            + head * params.query_gradient_head_stride + index * params.query_gradient_row_stride;
        store_query_gradient(first, scaled_row(sum, params.scale * statistics.y));
    }
}

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let blocks = (params.query_length + ROWS * WIDTH - 1u) / (ROWS * WIDTH);
    let group = workgroup.x + workgroup.y * workgroups.x;
    if group >= blocks * params.heads * params.batch {
        return;
    }
    let block = group % blocks;
    let head = group / blocks % params.heads;
    let batch = group / blocks / params.heads;
    let key_head = head / (params.heads / params.key_value_heads);

    // Queries past the end repeat the last one and are not stored.
    let row0 = block * ROWS * WIDTH + local;
    let row1 = row0 + WIDTH;
    let last_query = params.query_length - 1u;
    let queries = params.query_offset + batch * params.query_batch_stride + head * params.query_head_stride;
    let query0 = load_query(queries + min(row0, last_query) * params.query_row_stride);
    let query1 = load_query(queries + min(row1, last_query) * params.query_row_stride);
    let gradients = params.output_gradient_offset + batch * params.output_gradient_batch_stride
        + head * params.output_gradient_head_stride;
    let gradient0 = load_output_gradient(gradients + min(row0, last_query) * params.output_gradient_row_stride);
    let gradient1 = load_output_gradient(gradients + min(row1, last_query) * params.output_gradient_row_stride);
    let first_row = (batch * params.heads + head) * params.query_length;
    let statistics0 = row_statistics[first_row + min(row0, last_query)];
    let statistics1 = row_statistics[first_row + min(row1, last_query)];
    let visible0 = visible_keys(row0);
    let visible1 = visible_keys(row1);

    var sum0 = zero_row();
    var sum1 = zero_row();
    let keys = params.key_offset + batch * params.key_batch_stride + key_head * params.key_head_stride;
    let values = params.value_offset + batch * params.value_batch_stride + key_head * params.value_head_stride;
    let end = visible_keys(min((block + 1u) * ROWS * WIDTH - 1u, last_query));
    for (var index = 0u; index < end; index++) {
        let key_row = load_key(keys + index * params.key_row_stride);
        let value_row = load_value(values + index * params.value_row_stride);
        let weight_gradient0 = dot_rows(gradient0, value_row);
        let weight_gradient1 = dot_rows(gradient1, value_row);
        let score0 = dot_rows(query0, key_row);
        let score1 = dot_rows(query1, key_row);
        let slope0 = score_gradient(score0, weight_gradient0, statistics0, index < visible0);
        let slope1 = score_gradient(score1, weight_gradient1, statistics1, index < visible1);
        add_scaled_row(&sum0, slope0, key_row);
        add_scaled_row(&sum1, slope1, key_row);
    }
    finish(batch, head, row0, statistics0, sum0);
    finish(batch, head, row1, statistics1, sum1);
}
