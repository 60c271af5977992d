// Attention backward to key and value by subgroup broadcasts.
//
//   p = exp(scale query . key - m) / l      dp = output_gradient . value      ds = p (dp - delta)
//   key_gradient = scale sum over queries of ds query        value_gradient = sum over queries of p output_gradient
//   (Dao et al. 2022, Algorithm 4, by rows of the key)
//
// m, 1 / l and delta of a query are its `row_statistics` (see attention_delta.wgsl).
//
// Each lane owns 2 keys, 8 apart. Queries come in rounds of 8, from the first that sees one of the keys: a lane loads the
// query, the output gradient and the statistics of one, and hands them to the others, so that one load of a vec4 serves
// 16 keys. All query heads that read the key/value head are gone through: sums are whole, and nothing is added atomically.
//
//   workgroup: 16 keys of one head     queries i .. i + 7, one a lane
//   lane 0: keys 0, 8             x    lane 0: query i, lane 1: query i + 1, ...      -> 2 x 8 scores a lane
//   lane 1: keys 1, 9
//
// Assumes that a workgroup is one subgroup of 8 whose lanes are numbered as its invocations. `Row`, `Element`, `products`
// and `accumulate` are generated for the class of the head dimension. Workgroups are counted [batch][key/value head]
// [block] along x and may be folded into y.

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

// The statistics of eight queries.
struct Statistics {
    largest: Eight,
    inverse_sum: Eight,
    delta: Eight,
}

// The weights that four queries from `index` on give one key, which is seen from query `first` on.
fn weights_of_four(
    products: vec4<f32>,
    largest: vec4<f32>,
    inverse_sum: vec4<f32>,
    index: u32,
    first: u32,
) -> vec4<f32> {
    let queries = index + vec4<u32>(0u, 1u, 2u, 3u);
    let visible = (queries >= vec4<u32>(first)) & (queries < vec4<u32>(params.query_length));
    let scores = select(vec4<f32>(MASKED), params.scale * products, visible);
    return select(vec4<f32>(0.0), exp(scores - largest) * inverse_sum, are_visible(scores));
}

fn weights_of_eight(products: Eight, statistics: Statistics, index: u32, first: u32) -> Eight {
    let largest = statistics.largest;
    let inverse_sum = statistics.inverse_sum;
    return Eight(
        weights_of_four(products.low, largest.low, inverse_sum.low, index, first),
        weights_of_four(products.high, largest.high, inverse_sum.high, index + 4u, first),
    );
}

fn score_gradients(weights: Eight, weight_gradients: Eight, delta: Eight) -> Eight {
    return Eight(
        weights.low * (weight_gradients.low - delta.low),
        weights.high * (weight_gradients.high - delta.high),
    );
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
    @builtin(local_invocation_index) lane: u32,
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
    let row0 = block * ROWS * WIDTH + lane;
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
        for (var index = begin; index < params.query_length; index += WIDTH) {
            // Queries past the end repeat the last one and have the weight 0.
            let own = min(index + lane, params.query_length - 1u);
            let query_row = load_query(queries + own * params.query_row_stride);
            let gradient_row = load_output_gradient(gradients + own * params.output_gradient_row_stride);
            let of_own = row_statistics[first_row + own];
            let statistics = Statistics(all_lanes(of_own.x), all_lanes(of_own.y), all_lanes(of_own.z));
            let scores = products(key0, key1, query_row);
            let weights0 = weights_of_eight(scores.r0, statistics, index, first0);
            let weights1 = weights_of_eight(scores.r1, statistics, index, first1);
            let slopes = products(value0, value1, gradient_row);
            accumulate(&value_sum0, &value_sum1, weights0, weights1, gradient_row);
            let slopes0 = score_gradients(weights0, slopes.r0, statistics.delta);
            let slopes1 = score_gradients(weights1, slopes.r1, statistics.delta);
            accumulate(&key_sum0, &key_sum1, slopes0, slopes1, query_row);
        }
    }
    finish(batch, key_head, row0, key_sum0, value_sum0);
    finish(batch, key_head, row1, key_sum1, value_sum1);
}
