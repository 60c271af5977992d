// Attention backward to the query by subgroup broadcasts.
//
//   p = exp(scale query . key - m) / l      dp = output_gradient . value      ds = p (dp - delta)
//   query_gradient = scale sum over keys of ds key           (Dao et al. 2022, Algorithm 4, by rows of the query)
//
// m, 1 / l and delta of a query are its `row_statistics` (see attention_delta.wgsl). 1 / l is the same for all keys of a
// query and multiplies the sum at the end.
//
// Each lane owns 2 queries, 8 apart. Keys come in rounds of 8: a lane loads the key and the value of one, and hands them
// to the others, so that one load of a vec4 serves 16 queries.
//
//   workgroup: 16 queries of one head     keys j .. j + 7, one a lane
//   lane 0: queries 0, 8             x    lane 0: key j, lane 1: key j + 1, ...       -> 2 x 8 scores a lane
//   lane 1: queries 1, 9
//
// Assumes that a workgroup is one subgroup of 8 whose lanes are numbered as its invocations. `Row`, `Element`, `products`
// and `accumulate` are generated for the class of the head dimension. Workgroups are counted [batch][head][block] along
// x and may be folded into y.

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

// l times the gradients of four scores of one query, of the keys from `first_key` on.
fn score_gradients(
    products: vec4<f32>,
    weight_gradients: vec4<f32>,
    statistics: vec4<f32>,
    first_key: u32,
    visible: u32,
) -> vec4<f32> {
    let keys = first_key + vec4<u32>(0u, 1u, 2u, 3u);
    let scores = select(vec4<f32>(MASKED), params.scale * products, keys < vec4<u32>(visible));
    let gradients = exp(scores - statistics.x) * (weight_gradients - statistics.z);
    return select(vec4<f32>(0.0), gradients, are_visible(scores));
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
    @builtin(local_invocation_index) lane: u32,
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
    let row0 = block * ROWS * WIDTH + lane;
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
    for (var index = 0u; index < end; index += WIDTH) {
        // Keys past the end repeat the last one and have the weight 0.
        let own = min(index + lane, params.key_length - 1u);
        let key_row = load_key(keys + own * params.key_row_stride);
        let scores = products(query0, query1, key_row);
        let slopes = products(gradient0, gradient1, load_value(values + own * params.value_row_stride));
        let eight0 = Eight(
            score_gradients(scores.r0.low, slopes.r0.low, statistics0, index, visible0),
            score_gradients(scores.r0.high, slopes.r0.high, statistics0, index + 4u, visible0),
        );
        let eight1 = Eight(
            score_gradients(scores.r1.low, slopes.r1.low, statistics1, index, visible1),
            score_gradients(scores.r1.high, slopes.r1.high, statistics1, index + 4u, visible1),
        );
        accumulate(&sum0, &sum1, eight0, eight1, key_row);
    }
    finish(batch, head, row0, statistics0, sum0);
    finish(batch, head, row1, statistics1, sum1);
}
