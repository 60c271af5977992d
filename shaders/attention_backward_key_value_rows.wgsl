// Attention backward to key and value, several rows an invocation.
//
//   p = exp(scale query . key - m) / l      dp = output_gradient . value      ds = p (dp - delta)
//   key_gradient = scale sum over queries of ds query        value_gradient = sum over queries of p output_gradient
//   (Dao et al. 2022, Algorithm 4, by rows of the key)
//
// m, 1 / l and delta of a query are its `row_statistics` (see attention_delta.wgsl).
//
// Each invocation owns 2 keys, 8 apart, and reads query after query, from the first that sees one of them, of every head
// that reads the key/value head: sums are whole, and nothing is added atomically. No workgroup memory, no barriers, no
// subgroups. `Row`, `Element` and the row operations are generated for the class of the head dimension. Workgroups are
// counted [batch][key/value head][block] along x and may be folded into y.

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
    key_gradient_offset: u32,
    key_gradient_batch_stride: u32,
    key_gradient_head_stride: u32,
    key_gradient_row_stride: u32,
    value_gradient_offset: u32,
    value_gradient_batch_stride: u32,
    value_gradient_head_stride: u32,
    value_gradient_row_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> query: array<Element>;
@group(0) @binding(2) var<storage, read> key: array<Element>;
@group(0) @binding(3) var<storage, read> value: array<Element>;
@group(0) @binding(4) var<storage, read> output_gradient: array<Element>;
@group(0) @binding(5) var<storage, read> row_statistics: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> key_gradient: array<Element>;
@group(0) @binding(7) var<storage, read_write> value_gradient: array<Element>;

const WIDTH: u32 = 8u;
const ROWS: u32 = 2u;

fn weight(product: f32, statistics: vec4<f32>, visible: bool) -> f32 {
    let score = select(MASKED, params.scale * product, visible);
    return select(0.0, exp(score - statistics.x) * statistics.y, is_visible(score));
}

fn finish(batch: u32, key_head: u32, index: u32, key_sum: Row, value_sum: Row) {
    if index < params.key_length {
        let first_of_key = params.key_gradient_offset + batch * params.key_gradient_batch_stride
            + key_head * params.key_gradient_head_stride + index * params.key_gradient_row_stride;
        store_key_gradient(first_of_key, scaled_row(key_sum, params.scale));
        let first_of_value = params.value_gradient_offset + batch * params.value_gradient_batch_stride
            + key_head * params.value_gradient_head_stride + index * params.value_gradient_row_stride;
        store_value_gradient(first_of_value, value_sum);
    }
}

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let blocks = (params.key_length + ROWS * WIDTH - 1u) / (ROWS * WIDTH);
    let group = workgroup.x + workgroup.y * workgroups.x;
    if group >= blocks * params.key_value_heads * params.batch {
        return;
    }
    let block = group % blocks;
    let key_head = group / blocks % params.key_value_heads;
    let batch = group / blocks / params.key_value_heads;
    let heads_per_key = params.heads / params.key_value_heads;

    // Keys past the end repeat the last one and are not stored.
    let row0 = block * ROWS * WIDTH + local;
    let row1 = row0 + WIDTH;
    let last_key = params.key_length - 1u;
    let keys = params.key_offset + batch * params.key_batch_stride + key_head * params.key_head_stride;
    let key0 = load_key(keys + min(row0, last_key) * params.key_row_stride);
    let key1 = load_key(keys + min(row1, last_key) * params.key_row_stride);
    let values = params.value_offset + batch * params.value_batch_stride + key_head * params.value_head_stride;
    let value0 = load_value(values + min(row0, last_key) * params.value_row_stride);
    let value1 = load_value(values + min(row1, last_key) * params.value_row_stride);
    let first0 = first_query(row0);
    let first1 = first_query(row1);

    var key_sum0 = zero_row();
    var key_sum1 = zero_row();
    var value_sum0 = zero_row();
    var value_sum1 = zero_row();
    // Queries before `begin` see no key of this workgroup.
    let begin = first_query(block * ROWS * WIDTH);
    for (var head = key_head * heads_per_key; head < (key_head + 1u) * heads_per_key; head++) {
        let queries = params.query_offset + batch * params.query_batch_stride + head * params.query_head_stride;
        let gradients = params.output_gradient_offset + batch * params.output_gradient_batch_stride
            + head * params.output_gradient_head_stride;
        let first_row = (batch * params.heads + head) * params.query_length;
        for (var index = begin; index < params.query_length; index++) {
            let query_row = load_query(queries + index * params.query_row_stride);
            let gradient_row = load_output_gradient(gradients + index * params.output_gradient_row_stride);
            let statistics = row_statistics[first_row + index];
            let delta = statistics.z;
            let weight0 = weight(dot_rows(key0, query_row), statistics, index >= first0);
            let weight1 = weight(dot_rows(key1, query_row), statistics, index >= first1);
            add_scaled_row(&value_sum0, weight0, gradient_row);
            add_scaled_row(&value_sum1, weight1, gradient_row);
            add_scaled_row(&key_sum0, weight0 * (dot_rows(value0, gradient_row) - delta), query_row);
            add_scaled_row(&key_sum1, weight1 * (dot_rows(value1, gradient_row) - delta), query_row);
        }
    }
    finish(batch, key_head, row0, key_sum0, value_sum0);
    finish(batch, key_head, row1, key_sum1, value_sum1);
}
