// Attention backward to key and value by tiles.
//
//   p = exp(scale query . key - m) / l      dp = output_gradient . value      ds = p (dp - delta)
//   key_gradient = scale sum over queries of ds query        value_gradient = sum over queries of p output_gradient
//   (Dao et al. 2022, Algorithm 4, by rows of the key)
//
// m, 1 / l and delta of a query are its `row_statistics` (see attention_delta.wgsl).
//
// A workgroup of 64 owns 32 keys of one key/value head and reads the queries that see them in tiles of 32, of every head
// that reads the key/value head: sums are whole, and nothing is added atomically. Rows of a tile are keys, its columns
// queries. Who owns which scores and sums, and what lies in workgroup memory: see common/attention_tile.wgsl.
//
//   for each tile of queries:  stage key and query by slices, scores;  stage value and output gradient by slices, dp;
//                              p, shared;   stage output gradient by slices, sums of the value gradient;
//                              ds, shared;  stage query by slices, sums of the key gradient
//
// 13,440 bytes of workgroup memory. `Element`, `stage_...` and `store_..._chunk` are generated. Workgroups are counted
// [batch][key/value head][block] along x and may be folded into y.

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

@compute @workgroup_size(INVOCATIONS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let blocks = (params.key_length + TILE - 1u) / TILE;
    let group = workgroup.x + workgroup.y * workgroups.x;
    if group >= blocks * params.key_value_heads * params.batch {
        return;
    }
    let block = group % blocks;
    let key_head = group / blocks % params.key_value_heads;
    let batch = group / blocks / params.key_value_heads;
    let heads_per_key = params.heads / params.key_value_heads;
    let y = local / 8u;
    let x = local % 8u;

    // Keys past the end repeat the last one and are not stored.
    let last_key = params.key_length - 1u;
    let last_query = params.query_length - 1u;
    let first_row = block * TILE + 4u * y;
    let first_of_keys = params.key_offset + batch * params.key_batch_stride + key_head * params.key_head_stride;
    let keys = TileRows(first_of_keys, params.key_row_stride, block * TILE, last_key);
    let first_of_values = params.value_offset + batch * params.value_batch_stride
        + key_head * params.value_head_stride;
    let values = TileRows(first_of_values, params.value_row_stride, block * TILE, last_key);

    var key_sums: array<vec4<f32>, 4u * SLICES>;
    var value_sums: array<vec4<f32>, 4u * SLICES>;
    // Queries before `begin` see no key of this workgroup.
    let begin = first_query(block * TILE);
    for (var head = key_head * heads_per_key; head < (key_head + 1u) * heads_per_key; head++) {
        let first_of_queries = params.query_offset + batch * params.query_batch_stride
            + head * params.query_head_stride;
        let first_of_gradients = params.output_gradient_offset + batch * params.output_gradient_batch_stride
            + head * params.output_gradient_head_stride;
        let first_statistics = (batch * params.heads + head) * params.query_length;
        for (var first_column = begin; first_column < params.query_length; first_column += TILE) {
            let queries = TileRows(first_of_queries, params.query_row_stride, first_column, last_query);
            let gradients = TileRows(first_of_gradients, params.output_gradient_row_stride, first_column, last_query);
            var scores: array<vec4<f32>, 4>;
            var weight_gradients: array<vec4<f32>, 4>;
            for (var slice = 0u; slice < SLICES; slice++) {
                workgroupBarrier(); // the last readers of the staged slices and of the shared weights are done
                stage_key(LEFT, keys, slice, local);
                stage_query(RIGHT, queries, slice, local);
                workgroupBarrier(); // key and query are staged
                add_products(&scores, y, x);
                workgroupBarrier(); // key and query are read
                stage_value(LEFT, values, slice, local);
                stage_output_gradient(RIGHT, gradients, slice, local);
                workgroupBarrier(); // value and output gradient are staged
                add_products(&weight_gradients, y, x);
            }

            // Queries past the end repeat the last one and have the weight 0.
            let columns = first_column + x + vec4<u32>(0u, 8u, 16u, 24u);
            var largest: vec4<f32>;
            var inverse_sum: vec4<f32>;
            var delta: vec4<f32>;
            for (var c = 0u; c < 4u; c++) {
                let statistics = row_statistics[first_statistics + min(columns[c], last_query)];
                largest[c] = statistics.x;
                inverse_sum[c] = statistics.y;
                delta[c] = statistics.z;
            }
            for (var r = 0u; r < 4u; r++) {
                let first = vec4<u32>(first_query(first_row + r));
                let visible = (columns >= first) & (columns < vec4<u32>(params.query_length));
                let masked = select(vec4<f32>(MASKED), params.scale * scores[r], visible);
                let weights = exp(masked - largest) * inverse_sum;
                scores[r] = select(vec4<f32>(0.0), weights, are_visible(masked));
                weight_gradients[r] = scores[r] * (weight_gradients[r] - delta);
            }

            share_weights(scores, y, x);
            for (var slice = 0u; slice < SLICES; slice++) {
                workgroupBarrier(); // the last readers of the right slice are done, and the weights are shared
                stage_output_gradient(RIGHT, gradients, slice, local);
                workgroupBarrier(); // output gradient is staged
                add_weighted(&value_sums, slice, y, x);
            }
            workgroupBarrier(); // the weights are read
            share_weights(weight_gradients, y, x);
            for (var slice = 0u; slice < SLICES; slice++) {
                workgroupBarrier(); // the last readers of the right slice are done, and the score gradients are shared
                stage_query(RIGHT, queries, slice, local);
                workgroupBarrier(); // query is staged
                add_weighted(&key_sums, slice, y, x);
            }
        }
    }

    for (var r = 0u; r < 4u; r++) {
        let row = first_row + r;
        if row < params.key_length && x < SLICE {
            let first_of_key = params.key_gradient_offset + batch * params.key_gradient_batch_stride
                + key_head * params.key_gradient_head_stride + row * params.key_gradient_row_stride;
            let first_of_value = params.value_gradient_offset + batch * params.value_gradient_batch_stride
                + key_head * params.value_gradient_head_stride + row * params.value_gradient_row_stride;
            for (var slice = 0u; slice < SLICES; slice++) {
                store_key_gradient_chunk(first_of_key, slice * SLICE + x, params.scale * key_sums[4u * slice + r]);
                store_value_gradient_chunk(first_of_value, slice * SLICE + x, value_sums[4u * slice + r]);
            }
        }
    }
}
