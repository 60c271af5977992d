// C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n], plus bias[n] or what C[b, m, n] held
//
// For any strides and sizes. One invocation owns 8 rows x 8 columns of C, all held in registers; the columns of the
// eight invocations of a workgroup interleave, so that neighbours read and write neighbouring elements:
//
//            columns n0 + 0 1 2 3 4 5 6 7 | 8 9 ...
//   rows m0  lane       0 1 2 3 4 5 6 7 | 0 1 ...      a workgroup: 8 rows x 64 columns
//     to +7             0 1 2 3 4 5 6 7 | 0 1 ...
//
// Each k costs 16 loads for 64 products. No workgroup memory, no barriers: on an adapter that runs shaders on the CPU
// loads are dear and barriers dearer. Rows and columns past the edge are read at the edge and not stored.

@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(4) var<storage, read_write> c: array<f32>;

const WIDTH: u32 = 8u;
const TILE_ROWS: u32 = 8u;
const TILE_COLUMNS: u32 = 64u;

// Stores one column of the invocation's tile.
fn store_column(start: u32, row: u32, column: u32, upper: vec4<f32>, lower: vec4<f32>) {
    if column >= params.columns {
        return;
    }
    var added = 0.0;
    if params.has_bias != 0u {
        added = bias[column];
    }
    for (var r = 0u; r < min(TILE_ROWS, params.rows - row); r++) {
        let value = select(lower[r & 3u], upper[r & 3u], r < 4u);
        let at = start + (row + r) * params.c_row_stride + column;
        if params.accumulates != 0u {
            added = c[at];
        }
        c[at] = value + added;
    }
}

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let tile = linear_index(workgroup, workgroups, 0u, 1u);
    let tile_rows = (params.rows + TILE_ROWS - 1u) / TILE_ROWS;
    let tile_columns = (params.columns + TILE_COLUMNS - 1u) / TILE_COLUMNS;
    let batch = tile / (tile_rows * tile_columns);
    if batch >= params.batches {
        return;
    }
    let at = matrices(batch);
    let row = (tile / tile_columns % tile_rows) * TILE_ROWS;
    let column = (tile % tile_columns) * TILE_COLUMNS + lane;

    let last_row = vec4<u32>(params.rows - 1u);
    let last_column = vec4<u32>(params.columns - 1u);
    var a_upper = at.a + min(row + vec4<u32>(0u, 1u, 2u, 3u), last_row) * params.a_row_stride;
    var a_lower = at.a + min(row + vec4<u32>(4u, 5u, 6u, 7u), last_row) * params.a_row_stride;
    var b_left = at.b + min(column + vec4<u32>(0u, 8u, 16u, 24u), last_column) * params.b_column_stride;
    var b_right = at.b + min(column + vec4<u32>(32u, 40u, 48u, 56u), last_column) * params.b_column_stride;

    // One pair of vectors a column: rows 0 to 3 and rows 4 to 7.
    var c0u = vec4<f32>();
    var c0l = vec4<f32>();
    var c1u = vec4<f32>();
    var c1l = vec4<f32>();
    var c2u = vec4<f32>();
    var c2l = vec4<f32>();
    var c3u = vec4<f32>();
    var c3l = vec4<f32>();
    var c4u = vec4<f32>();
    var c4l = vec4<f32>();
    var c5u = vec4<f32>();
    var c5l = vec4<f32>();
    var c6u = vec4<f32>();
    var c6l = vec4<f32>();
    var c7u = vec4<f32>();
    var c7l = vec4<f32>();
    for (var k = 0u; k < params.inner; k++) {
        let upper = vec4<f32>(a[a_upper.x], a[a_upper.y], a[a_upper.z], a[a_upper.w]);
        let lower = vec4<f32>(a[a_lower.x], a[a_lower.y], a[a_lower.z], a[a_lower.w]);
        let left = vec4<f32>(b[b_left.x], b[b_left.y], b[b_left.z], b[b_left.w]);
        let right = vec4<f32>(b[b_right.x], b[b_right.y], b[b_right.z], b[b_right.w]);
        c0u += upper * left.x;
        c0l += lower * left.x;
        c1u += upper * left.y;
        c1l += lower * left.y;
        c2u += upper * left.z;
        c2l += lower * left.z;
        c3u += upper * left.w;
        c3l += lower * left.w;
        c4u += upper * right.x;
        c4l += lower * right.x;
        c5u += upper * right.y;
        c5l += lower * right.y;
        c6u += upper * right.z;
        c6l += lower * right.z;
        c7u += upper * right.w;
        c7l += lower * right.w;
        a_upper += params.a_column_stride;
        a_lower += params.a_column_stride;
        b_left += params.b_row_stride;
        b_right += params.b_row_stride;
    }

    store_column(at.c, row, column, c0u, c0l);
    store_column(at.c, row, column + 8u, c1u, c1l);
    store_column(at.c, row, column + 16u, c2u, c2l);
    store_column(at.c, row, column + 24u, c3u, c3l);
    store_column(at.c, row, column + 32u, c4u, c4l);
    store_column(at.c, row, column + 40u, c5u, c5l);
    store_column(at.c, row, column + 48u, c6u, c6l);
    store_column(at.c, row, column + 56u, c7u, c7l);
}
