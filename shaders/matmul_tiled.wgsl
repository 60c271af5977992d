// C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n], plus bias[n] or what C[b, m, n] held
//
// The classic design for GPUs: a workgroup of 256 owns 64 rows x 64 columns of C, an invocation 4 x 4 of them in
// registers. For every 16 inner steps the workgroup brings 64 x 16 of A and 16 x 64 of B into its memory, one vec4 of
// each an invocation, and every value is then used 64 times:
//
//                  B  16 x 64 (vec4 along n)
//   A  64 x 16     C  64 x 64 = 16 x 16 invocations of 4 x 4
//   (vec4 along m)
//
// Any strides and sizes: storage is read element by element, with neighbouring invocations along whichever dimension
// lies closer in memory. Rows and columns past the edge are read at the edge and not stored; inner steps past the edge
// are zero in A. Rows of workgroup memory have one vec4 of padding, so that writes across them fall into
// different banks.

@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(4) var<storage, read_write> c: array<f32>;

const TILE: u32 = 64u;
const STEPS: u32 = 16u;
const PITCH: u32 = 17u;

var<workgroup> a_tile: array<vec4<f32>, STEPS * PITCH>;
var<workgroup> b_tile: array<vec4<f32>, STEPS * PITCH>;

// Which vec4 of a tile an invocation brings: x counts vec4 along the tile's side, y inner steps.
fn share(local: u32, inner_is_closer: bool) -> vec2<u32> {
    return select(vec2<u32>(local % 16u, local / 16u), vec2<u32>(local / 16u, local % 16u), inner_is_closer);
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let number = linear_index(workgroup, workgroups, 0u, 1u);
    let tile_rows = (params.rows + TILE - 1u) / TILE;
    let tile_columns = (params.columns + TILE - 1u) / TILE;
    let batch = number / tile_columns / tile_rows;
    let inside = batch < params.batches;
    let first_row = (number / tile_columns % tile_rows) * TILE;
    let first_column = (number % tile_columns) * TILE;
    let at = matrices(select(0u, batch, inside));

    let a_share = share(local, params.a_column_stride < params.a_row_stride);
    let b_share = share(local, params.b_row_stride < params.b_column_stride);
    let quad = vec4<u32>(0u, 1u, 2u, 3u);
    let rows = min(first_row + a_share.x * 4u + quad, vec4<u32>(params.rows - 1u));
    let columns = min(first_column + b_share.x * 4u + quad, vec4<u32>(params.columns - 1u));
    let a_reads = at.a + rows * params.a_row_stride;
    let b_reads = at.b + columns * params.b_column_stride;
    let a_slot = a_share.y * PITCH + a_share.x;
    let b_slot = b_share.y * PITCH + b_share.x;

    let side = vec2<u32>(local % 16u, local / 16u);
    var sums = Tile();
    // The bound is the same in all invocations of a workgroup, so that they meet at the barriers.
    let inner = select(0u, params.inner, inside);
    for (var k = 0u; k < inner; k += STEPS) {
        let a_step = k + a_share.y;
        let b_step = k + b_share.y;
        let a_at = a_reads + min(a_step, inner - 1u) * params.a_column_stride;
        let b_at = b_reads + min(b_step, inner - 1u) * params.b_row_stride;
        let a_values = vec4<f32>(a[a_at.x], a[a_at.y], a[a_at.z], a[a_at.w]);
        let b_values = vec4<f32>(b[b_at.x], b[b_at.y], b[b_at.z], b[b_at.w]);
        a_tile[a_slot] = select(vec4<f32>(), a_values, a_step < inner);
        b_tile[b_slot] = b_values;
        workgroupBarrier(); // the tiles are whole
        for (var step = 0u; step < STEPS; step++) {
            let of_a = a_tile[step * PITCH + side.y];
            let of_b = b_tile[step * PITCH + side.x];
            sums += Tile(of_b * of_a.x, of_b * of_a.y, of_b * of_a.z, of_b * of_a.w);
        }
        workgroupBarrier(); // nobody reads them any more
    }

    let row = first_row + side.y * 4u;
    for (var column = 0u; column < 4u; column++) {
        let n = first_column + side.x * 4u + column;
        if !inside || n >= params.columns {
            continue;
        }
        var added = 0.0;
        if params.has_bias != 0u {
            added = bias[n];
        }
        for (var r = 0u; r < 4u; r++) {
            if row + r < params.rows {
                let element = at.c + (row + r) * params.c_row_stride + n;
                if params.accumulates != 0u {
                    added = c[element];
                }
                c[element] = sums[r][column] + added;
            }
        }
    }
}
