// Attention forward, several rows an invocation: output = softmax(scale query key^T) value, its log-sum-exp, and the two
// numbers that the log-sum-exp is made of. The backward passes read those: the sum of a large and a small number would
// round the small one away.
//
// Each invocation owns 4 queries, 8 apart, and reads key after key with the online softmax (Milakov and Gimelshein
// 2018; Dao et al. 2022, Algorithm 1): m is the largest score so far, l the sum of exp(s - m), o that of exp(s - m) v.
//
//   workgroup: 32 queries of one head      lane 0: queries 0, 8, 16, 24     lane 1: 1, 9, 17, 25     ...
//   each key:  D/4 loads, 4 scores; each value: D/4 loads, 4 sums of D
//
// No workgroup memory, no barriers, no subgroups. `Row`, `Element` and the row operations are generated for the class of
// the head dimension. Workgroups are counted [batch][head][block] along x and may be folded into y.

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
    output_offset: u32,
    output_batch_stride: u32,
    output_head_stride: u32,
    output_row_stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> query: array<Element>;
@group(0) @binding(2) var<storage, read> key: array<Element>;
@group(0) @binding(3) var<storage, read> value: array<Element>;
@group(0) @binding(4) var<storage, read_write> output: array<Element>;
@group(0) @binding(5) var<storage, read_write> log_sum_exp: array<f32>;
@group(0) @binding(6) var<storage, read_write> softmax_statistics: array<f32>;

const WIDTH: u32 = 8u;
const ROWS: u32 = 4u;

// What the online softmax knows of one query.
struct Softmax {
    largest: f32,
    sum: f32,
}

// Adds one score: the old output is to be multiplied by x, and the value's row by y.
fn add_score(softmax: ptr<function, Softmax>, product: f32, visible: bool) -> vec2<f32> {
    let score = select(MASKED, params.scale * product, visible);
    let largest = max((*softmax).largest, score);
    let correction = exp((*softmax).largest - largest);
    let weight = select(0.0, exp(score - largest), is_visible(score));
    *softmax = Softmax(largest, (*softmax).sum * correction + weight);
    return vec2<f32>(correction, weight);
}

fn update(sum: ptr<function, Row>, factors: vec2<f32>, row: Row) {
    *sum = scaled_row(*sum, factors.x);
    add_scaled_row(sum, factors.y, row);
}

fn finish(batch: u32, head: u32, index: u32, softmax: Softmax, sum: Row) {
    if index < params.query_length {
        // The sum alone says that a score was NaN or +inf: a maximum may drop a NaN.
        let nothing = softmax.sum == 0.0;
        let largest = select(select(softmax.largest, softmax.sum, is_nan(softmax.sum)), MASKED, nothing);
        let first = params.output_offset + batch * params.output_batch_stride + head * params.output_head_stride
            + index * params.output_row_stride;
        store_output(first, scaled_row(sum, select(1.0 / softmax.sum, 0.0, nothing)));
        let statistics = (batch * params.heads + head) * params.query_length + index;
        log_sum_exp[statistics] = select(largest + log(softmax.sum), MASKED, nothing);
        softmax_statistics[statistics] = largest;
        let sums = params.batch * params.heads * params.query_length;
        softmax_statistics[sums + statistics] = softmax.sum;
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
    let first_row = block * ROWS * WIDTH + local;
    let rows = vec4<u32>(first_row, first_row + WIDTH, first_row + 2u * WIDTH, first_row + 3u * WIDTH);
    let last_query = params.query_length - 1u;
    let queries = params.query_offset + batch * params.query_batch_stride + head * params.query_head_stride;
    let query0 = load_query(queries + min(rows.x, last_query) * params.query_row_stride);
    let query1 = load_query(queries + min(rows.y, last_query) * params.query_row_stride);
    let query2 = load_query(queries + min(rows.z, last_query) * params.query_row_stride);
    let query3 = load_query(queries + min(rows.w, last_query) * params.query_row_stride);
    let visible = vec4<u32>(visible_keys(rows.x), visible_keys(rows.y), visible_keys(rows.z), visible_keys(rows.w));

    var softmax0 = Softmax(MASKED, 0.0);
    var softmax1 = Softmax(MASKED, 0.0);
    var softmax2 = Softmax(MASKED, 0.0);
    var softmax3 = Softmax(MASKED, 0.0);
    var sum0 = zero_row();
    var sum1 = zero_row();
    var sum2 = zero_row();
    var sum3 = zero_row();
    let keys = params.key_offset + batch * params.key_batch_stride + key_head * params.key_head_stride;
    let values = params.value_offset + batch * params.value_batch_stride + key_head * params.value_head_stride;
    let end = visible_keys(min((block + 1u) * ROWS * WIDTH - 1u, last_query));
    for (var index = 0u; index < end; index++) {
        let key_row = load_key(keys + index * params.key_row_stride);
        let factors0 = add_score(&softmax0, dot_rows(query0, key_row), index < visible.x);
        let factors1 = add_score(&softmax1, dot_rows(query1, key_row), index < visible.y);
        let factors2 = add_score(&softmax2, dot_rows(query2, key_row), index < visible.z);
        let factors3 = add_score(&softmax3, dot_rows(query3, key_row), index < visible.w);
        let value_row = load_value(values + index * params.value_row_stride);
        update(&sum0, factors0, value_row);
        update(&sum1, factors1, value_row);
        update(&sum2, factors2, value_row);
        update(&sum3, factors3, value_row);
    }
    finish(batch, head, rows.x, softmax0, sum0);
    finish(batch, head, rows.y, softmax1, sum1);
    finish(batch, head, rows.z, softmax2, sum2);
    finish(batch, head, rows.w, softmax3, sum3);
}
