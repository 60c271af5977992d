// C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n], plus bias[n] or what C[b, m, n] held
//
// One invocation owns 8 rows x 4 columns of C, held in registers, and takes four inner steps at a time:
//
//           columns n0 + 0..3 4..7 ...  28..31
//   rows m0  lane     0    1   ...   7             a workgroup: 8 rows x 32 columns
//     to +7
//
// That is 12 vec4 loads for 128 b_tile, without workgroup memory, barriers or subgroups. Rows past the edge are read
// at the edge and not stored; inner steps past the edge are zero in A.
//
// Assumes B stored by rows or by columns with every vec4 of it at a multiple of four elements; common/matmul_vec4.wgsl
// assumes the same of A and C.

@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;

const LANES: u32 = 8u;
const TILE_ROWS: u32 = 8u;
const TILE_COLUMNS: u32 = 32u;
// Whether B is stored by columns.
const B_TRANSPOSED: bool = false;

// Four columns at four inner steps from k on; past the last of them, where A is zero, any that exist.
fn load_b(start: u32, column: u32, k: u32) -> Tile {
    if B_TRANSPOSED {
        let at = start + select(0u, k, k < params.inner) + column * params.b_column_stride;
        return transpose(Tile(
            within_inner(b[at / 4u], k),
            within_inner(b[(at + params.b_column_stride) / 4u], k),
            within_inner(b[(at + 2u * params.b_column_stride) / 4u], k),
            within_inner(b[(at + 3u * params.b_column_stride) / 4u], k),
        ));
    }
    let steps = k + vec4<u32>(0u, 1u, 2u, 3u);
    let rows = select(vec4<u32>(), steps, steps < vec4<u32>(params.inner));
    let reads = (start + column + rows * params.b_row_stride) / 4u;
    return Tile(b[reads.x], b[reads.y], b[reads.z], b[reads.w]);
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let number = linear_index(workgroup, workgroups, 0u, 1u);
    let tile_rows = (params.rows + TILE_ROWS - 1u) / TILE_ROWS;
    let tile_columns = (params.columns + TILE_COLUMNS - 1u) / TILE_COLUMNS;
    let batch = number / tile_columns / tile_rows;
    let row = (number / tile_columns % tile_rows) * TILE_ROWS;
    let column = (number % tile_columns) * TILE_COLUMNS + lane * 4u;
    if batch >= params.batches || column >= params.columns {
        return;
    }
    let at = matrices(batch);
    var upper = Tile();
    if params.has_bias != 0u {
        let added = vec4<f32>(bias[column], bias[column + 1u], bias[column + 2u], bias[column + 3u]);
        upper = Tile(added, added, added, added);
    }
    var lower = upper;
    if params.accumulates != 0u {
        upper = load_c(at.c, row, column);
        lower = load_c(at.c, row + 4u, column);
    }
    for (var k = 0u; k < params.inner; k += 4u) {
        let b_tile = load_b(at.b, column, k);
        upper += b_tile * load_a(at.a, row, k);
        lower += b_tile * load_a(at.a, row + 4u, k);
    }
    store_c(at.c, row, column, upper);
    store_c(at.c, row + 4u, column, lower);
}
