// Attention backward to the query by tiles.
//
//   p = exp(scale query . key - m) / l      dp = output_gradient . value      ds = p (dp - delta)
//   query_gradient = scale sum over keys of ds key           (Dao et al. 2022, Algorithm 4, by rows of the query)
//
// m, 1 / l and delta of a query are its `row_statistics` (see attention_delta.wgsl). 1 / l is the same for all keys of a
// query and multiplies the sum at the end.
//
// A workgroup of 64 owns 32 queries of one head and reads the keys they see in tiles of 32. Who owns which scores and
// sums of a tile, and what lies in workgroup memory: see common/attention_tile.wgsl.
//
//   for each tile of keys:  stage query and key by slices, scores;  stage output gradient and value by slices, dp;
//                           ds, shared;  stage key by slices, sums
//
// 13,440 bytes of workgroup memory. `Element`, `stage_...` and `store_query_gradient_chunk` are generated. Workgroups are
// counted [batch][head][block] along x and may be folded into y.

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

@compute @workgroup_size(INVOCATIONS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let blocks = (params.query_length + TILE - 1u) / TILE;
    let group = workgroup.x + workgroup.y * workgroups.x;
    if group >= blocks * params.heads * params.batch {
        return;
    }
    let block = group % blocks;
    let head = group / blocks % params.heads;
    let batch = group / blocks / params.heads;
    let key_head = head / (params.heads / params.key_value_heads);
    let y = local / 8u;
    let x = local % 8u;

    let last_query = params.query_length - 1u;
    let first_of_queries = params.query_offset + batch * params.query_batch_stride + head * params.query_head_stride;
    let queries = TileRows(first_of_queries, params.query_row_stride, block * TILE, last_query);
    let first_of_gradients = params.output_gradient_offset + batch * params.output_gradient_batch_stride
        + head * params.output_gradient_head_stride;
    let gradients = TileRows(first_of_gradients, params.output_gradient_row_stride, block * TILE, last_query);
    let first_of_keys = params.key_offset + batch * params.key_batch_stride + key_head * params.key_head_stride;
    let first_of_values = params.value_offset + batch * params.value_batch_stride
        + key_head * params.value_head_stride;

    // Queries past the end repeat the last one and are not stored.
    let first_row = block * TILE + 4u * y;
    let first_statistics = (batch * params.heads + head) * params.query_length;
    var statistics: array<vec4<f32>, 4>;
    for (var r = 0u; r < 4u; r++) {
        statistics[r] = row_statistics[first_statistics + min(first_row + r, last_query)];
    }

    var sums: array<vec4<f32>, 4u * SLICES>;
    let end = visible_keys(min((block + 1u) * TILE - 1u, last_query));
    for (var first_key = 0u; first_key < end; first_key += TILE) {
        let keys = TileRows(first_of_keys, params.key_row_stride, first_key, params.key_length - 1u);
        let values = TileRows(first_of_values, params.value_row_stride, first_key, params.key_length - 1u);
        var scores: array<vec4<f32>, 4>;
        var weight_gradients: array<vec4<f32>, 4>;
        for (var slice = 0u; slice < SLICES; slice++) {
            workgroupBarrier(); // the last readers of the staged slices and of the shared weights are done
            stage_query(LEFT, queries, slice, local);
            stage_key(RIGHT, keys, slice, local);
            workgroupBarrier(); // query and key are staged
            add_products(&scores, y, x);
            workgroupBarrier(); // query and key are read
            stage_output_gradient(LEFT, gradients, slice, local);
            stage_value(RIGHT, values, slice, local);
            workgroupBarrier(); // output gradient and value are staged
            add_products(&weight_gradients, y, x);
        }

        let columns = first_key + x + vec4<u32>(0u, 8u, 16u, 24u);
        for (var r = 0u; r < 4u; r++) {
            let visible = columns < vec4<u32>(visible_keys(first_row + r));
            let masked = select(vec4<f32>(MASKED), params.scale * scores[r], visible);
            let gradient = exp(masked - statistics[r].x) * (weight_gradients[r] - statistics[r].z);
            scores[r] = select(vec4<f32>(0.0), gradient, are_visible(masked));
        }
        share_weights(scores, y, x);

        for (var slice = 0u; slice < SLICES; slice++) {
            workgroupBarrier(); // the last readers of the right slice are done, and the weights are shared
            stage_key(RIGHT, keys, slice, local);
            workgroupBarrier(); // key is staged
            add_weighted(&sums, slice, y, x);
        }
    }

    for (var r = 0u; r < 4u; r++) {
        let row = first_row + r;
        if row < params.query_length && x < SLICE {
            let first = params.query_gradient_offset + batch * params.query_gradient_batch_stride
                + head * params.query_gradient_head_stride + row * params.query_gradient_row_stride;
            let factor = params.scale * statistics[r].y;
            for (var slice = 0u; slice < SLICES; slice++) {
                store_query_gradient_chunk(first, slice * SLICE + x, factor * sums[4u * slice + r]);
            }
        }
    }
}
