// Attention forward by tiles: output = softmax(scale query key^T) value, its log-sum-exp, and the two numbers that the
// log-sum-exp is made of (Dao et al. 2022, Algorithm 1; the order of loops is that of Dao 2023: a workgroup keeps its
// queries and goes through the keys). The backward passes read those two: the sum of a large and a small number would
// round the small one away.
//
// A workgroup of 64 owns 32 queries of one head and reads the keys they see in tiles of 32. Who owns which scores and
// sums of a tile, and what lies in workgroup memory: see common/attention_tile.wgsl. The 8 invocations of a row agree on
// its largest score through `row_parts`; each sums the weights of its own columns only, until the end.
//
//   for each tile of keys:  stage query and key by slices, scores;  mask;  largest score of each row;
//                           rescale, share weights;  stage value by slices, sums
//
// 14,464 bytes of workgroup memory. `Element`, `stage_...` and `store_output_chunk` are generated. Workgroups are counted
// [batch][head][block] along x and may be folded into y.

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

// What each of the 8 invocations of a row has to say of it.
var<workgroup> row_parts: array<f32, TILE * 8u>;

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
    let first_row = block * TILE + 4u * y;
    let first_of_keys = params.key_offset + batch * params.key_batch_stride + key_head * params.key_head_stride;
    let first_of_values = params.value_offset + batch * params.value_batch_stride
        + key_head * params.value_head_stride;

    var largest = vec4<f32>(MASKED);
    var weight_sums = vec4<f32>(0.0);
    var sums: array<vec4<f32>, 4u * SLICES>;
    let end = visible_keys(min((block + 1u) * TILE - 1u, last_query));
    for (var first_key = 0u; first_key < end; first_key += TILE) {
        let keys = TileRows(first_of_keys, params.key_row_stride, first_key, params.key_length - 1u);
        let values = TileRows(first_of_values, params.value_row_stride, first_key, params.key_length - 1u);
        var scores: array<vec4<f32>, 4>;
        for (var slice = 0u; slice < SLICES; slice++) {
            workgroupBarrier(); // the last readers of the staged slices are done
            stage_query(LEFT, queries, slice, local);
            stage_key(RIGHT, keys, slice, local);
            workgroupBarrier(); // query and key are staged
            add_products(&scores, y, x);
        }

        let columns = first_key + x + vec4<u32>(0u, 8u, 16u, 24u);
        for (var r = 0u; r < 4u; r++) {
            let visible = columns < vec4<u32>(visible_keys(first_row + r));
            let masked = select(vec4<f32>(MASKED), params.scale * scores[r], visible);
            scores[r] = masked;
            row_parts[(4u * y + r) * 8u + x] = max(max(masked.x, masked.y), max(masked.z, masked.w));
        }
        workgroupBarrier(); // the largest scores of all parts are there

        for (var r = 0u; r < 4u; r++) {
            var row_largest = largest[r];
            for (var part = 0u; part < 8u; part++) {
                row_largest = max(row_largest, row_parts[(4u * y + r) * 8u + part]);
            }
            let correction = exp(largest[r] - row_largest);
            let weights = exp(scores[r] - row_largest);
            scores[r] = select(vec4<f32>(0.0), weights, are_visible(scores[r]));
            weight_sums[r] = weight_sums[r] * correction + dot(scores[r], vec4<f32>(1.0));
            largest[r] = row_largest;
            for (var slice = 0u; slice < SLICES; slice++) {
                sums[4u * slice + r] *= correction;
            }
        }
        share_weights(scores, y, x);

        for (var slice = 0u; slice < SLICES; slice++) {
            workgroupBarrier(); // the last readers of the right slice are done, and the weights are shared
            stage_value(RIGHT, values, slice, local);
            workgroupBarrier(); // value is staged
            add_weighted(&sums, slice, y, x);
        }
    }

    // All who read the largest scores have since met at a barrier, before the values were staged.
    for (var r = 0u; r < 4u; r++) {
        row_parts[(4u * y + r) * 8u + x] = weight_sums[r];
    }
    workgroupBarrier(); // the sums of all parts are there
    for (var r = 0u; r < 4u; r++) {
        let row = first_row + r;
        if row < params.query_length {
            var sum = 0.0;
            for (var part = 0u; part < 8u; part++) {
                sum += row_parts[(4u * y + r) * 8u + part];
            }
            // The sum alone says that a score was NaN or +inf: a maximum may drop a NaN.
            let nothing = sum == 0.0;
            let row_largest = select(select(largest[r], sum, is_nan(sum)), MASKED, nothing);
            let factor = select(1.0 / sum, 0.0, nothing);
            let first = params.output_offset + batch * params.output_batch_stride + head * params.output_head_stride
                + row * params.output_row_stride;
            if x < SLICE {
                for (var slice = 0u; slice < SLICES; slice++) {
                    store_output_chunk(first, slice * SLICE + x, factor * sums[4u * slice + r]);
                }
            }
            if x == 0u {
                let statistics = (batch * params.heads + head) * params.query_length + row;
                log_sum_exp[statistics] = select(row_largest + log(sum), MASKED, nothing);
                softmax_statistics[statistics] = row_largest;
                softmax_statistics[params.batch * params.heads * params.query_length + statistics] = sum;
            }
        }
    }
}
