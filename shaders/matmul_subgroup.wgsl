// C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n], plus bias[n] or what C[b, m, n] held
//
// For adapters that run shaders on the CPU with subgroups of 8: an invocation is a SIMD lane, a load is a loop over the
// lanes, whatever it loads, and arithmetic is cheap. So A stays in registers, and one load of B, a different vec4 in
// each lane, is broadcast to serve 32 rows x 4 columns x 8 inner steps:
//
//                    k ... k + CHUNK         column ... + 3
//   row      lane 0 +-----------------+     +---+
//   row + 4  lane 1 | tiles of A,     |     |   | k       B stored by rows: lane l loads row k + l
//      ...          | held for all    |     |   | ...     B stored by columns: lane l loads column + l / 2, one half
//   row + 28 lane 7 | columns         |     |   | k + 7     of the eight inner steps
//                   +-----------------+     +---+
//
// A workgroup walks along its span of columns by four, for one chunk of the inner dimension after the other; from the
// second chunk on C itself carries the sums, and from the first on where it accumulates. Rows and columns past the edge are read at the edge and not stored; inner
// steps past the edge are zero in both matrices.
//
// Assumes subgroups of exactly 8, and every vec4 of B at a multiple of four elements. The common piece before this file
// (matmul_vec4 or matmul_scalar) says how A and C are reached.

@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;

const LANES: u32 = 8u;
const TILE_ROWS: u32 = 32u;
// Workgroups that keep a processor busy, and the fewest columns that are worth loading a tile of A for.
const ENOUGH_WORKGROUPS: u32 = 8u;
const LEAST_SPAN: u32 = 128u;
// Inner steps of A that are held at a time: 32 or 128.
const CHUNK: u32 = 32u;
// Whether B is stored by columns.
const B_TRANSPOSED: bool = false;

// Adds the products of eight inner steps from k on to the sums of four rows and four columns.
fn multiply_add(sums: Tile, b_start: u32, column: u32, k: u32, lane: u32, a_first: Tile, a_second: Tile) -> Tile {
    if B_TRANSPOSED {
        let k_lane = k + (lane & 1u) * 4u;
        let k_read = select(0u, k_lane, k_lane < params.inner);
        let column_read = min(column + (lane >> 1u), params.columns - 1u);
        let own = within_inner(b[(b_start + column_read * params.b_column_stride + k_read) / 4u], k_lane);
        let first = Tile(
            subgroupBroadcast(own, 0u),
            subgroupBroadcast(own, 2u),
            subgroupBroadcast(own, 4u),
            subgroupBroadcast(own, 6u),
        );
        let second = Tile(
            subgroupBroadcast(own, 1u),
            subgroupBroadcast(own, 3u),
            subgroupBroadcast(own, 5u),
            subgroupBroadcast(own, 7u),
        );
        return sums + (transpose(first) * a_first + transpose(second) * a_second);
    }
    let k_lane = k + lane;
    let k_read = select(0u, k_lane, k_lane < params.inner);
    let loaded = b[(b_start + k_read * params.b_row_stride + column) / 4u];
    let own = select(vec4<f32>(), loaded, k_lane < params.inner);
    let first = Tile(
        subgroupBroadcast(own, 0u),
        subgroupBroadcast(own, 1u),
        subgroupBroadcast(own, 2u),
        subgroupBroadcast(own, 3u),
    );
    let second = Tile(
        subgroupBroadcast(own, 4u),
        subgroupBroadcast(own, 5u),
        subgroupBroadcast(own, 6u),
        subgroupBroadcast(own, 7u),
    );
    return sums + (first * a_first + second * a_second);
}

// What the sums of four columns begin with: the bias, or zero.
fn begin(column: u32, lane: u32) -> Tile {
    if params.has_bias == 0u {
        return Tile();
    }
    let own = bias[min(column + (lane & 3u), params.columns - 1u)];
    let added = vec4<f32>(
        subgroupBroadcast(own, 0u),
        subgroupBroadcast(own, 1u),
        subgroupBroadcast(own, 2u),
        subgroupBroadcast(own, 3u),
    );
    return Tile(added, added, added, added);
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let number = linear_index(workgroup, workgroups, 0u, 1u);
    let tile_rows = (params.rows + TILE_ROWS - 1u) / TILE_ROWS;
    let tiles = params.batches * tile_rows;
    // Few tiles are divided along the columns too, into spans of whole vec4.
    let most_spans = (params.columns + LEAST_SPAN - 1u) / LEAST_SPAN;
    let spans = min(most_spans, (ENOUGH_WORKGROUPS + tiles - 1u) / tiles);
    let span = ((params.columns + spans - 1u) / spans + 3u) & ~3u;
    if number >= tiles * spans {
        return;
    }
    let at = matrices(number / spans / tile_rows);
    let row = (number / spans % tile_rows) * TILE_ROWS + lane * 4u;
    let first_column = (number % spans) * span;
    let last_column = min(first_column + span, params.columns);
    // An inner dimension of 0 still needs one pass, which stores the bias.
    for (var k = 0u; k == 0u || k < params.inner; k += CHUNK) {
        let a00 = load_a(at.a, row, k + 0u);
        let a01 = load_a(at.a, row, k + 4u);
        let a02 = load_a(at.a, row, k + 8u);
        let a03 = load_a(at.a, row, k + 12u);
        let a04 = load_a(at.a, row, k + 16u);
        let a05 = load_a(at.a, row, k + 20u);
        let a06 = load_a(at.a, row, k + 24u);
        let a07 = load_a(at.a, row, k + 28u);
        var a08 = Tile();
        var a09 = Tile();
        var a10 = Tile();
        var a11 = Tile();
        var a12 = Tile();
        var a13 = Tile();
        var a14 = Tile();
        var a15 = Tile();
        var a16 = Tile();
        var a17 = Tile();
        var a18 = Tile();
        var a19 = Tile();
        var a20 = Tile();
        var a21 = Tile();
        var a22 = Tile();
        var a23 = Tile();
        var a24 = Tile();
        var a25 = Tile();
        var a26 = Tile();
        var a27 = Tile();
        var a28 = Tile();
        var a29 = Tile();
        var a30 = Tile();
        var a31 = Tile();
        if CHUNK > 32u {
            a08 = load_a(at.a, row, k + 32u);
            a09 = load_a(at.a, row, k + 36u);
            a10 = load_a(at.a, row, k + 40u);
            a11 = load_a(at.a, row, k + 44u);
            a12 = load_a(at.a, row, k + 48u);
            a13 = load_a(at.a, row, k + 52u);
            a14 = load_a(at.a, row, k + 56u);
            a15 = load_a(at.a, row, k + 60u);
            a16 = load_a(at.a, row, k + 64u);
            a17 = load_a(at.a, row, k + 68u);
            a18 = load_a(at.a, row, k + 72u);
            a19 = load_a(at.a, row, k + 76u);
            a20 = load_a(at.a, row, k + 80u);
            a21 = load_a(at.a, row, k + 84u);
            a22 = load_a(at.a, row, k + 88u);
            a23 = load_a(at.a, row, k + 92u);
            a24 = load_a(at.a, row, k + 96u);
            a25 = load_a(at.a, row, k + 100u);
            a26 = load_a(at.a, row, k + 104u);
            a27 = load_a(at.a, row, k + 108u);
            a28 = load_a(at.a, row, k + 112u);
            a29 = load_a(at.a, row, k + 116u);
            a30 = load_a(at.a, row, k + 120u);
            a31 = load_a(at.a, row, k + 124u);
        }
        for (var column = first_column; column < last_column; column += 4u) {
            var sums = begin(column, lane);
            if k > 0u || params.accumulates != 0u {
                sums = load_c(at.c, row, column);
            }
            sums = multiply_add(sums, at.b, column, k + 0u, lane, a00, a01);
            sums = multiply_add(sums, at.b, column, k + 8u, lane, a02, a03);
            sums = multiply_add(sums, at.b, column, k + 16u, lane, a04, a05);
            sums = multiply_add(sums, at.b, column, k + 24u, lane, a06, a07);
            if CHUNK > 32u {
                sums = multiply_add(sums, at.b, column, k + 32u, lane, a08, a09);
                sums = multiply_add(sums, at.b, column, k + 40u, lane, a10, a11);
                sums = multiply_add(sums, at.b, column, k + 48u, lane, a12, a13);
                sums = multiply_add(sums, at.b, column, k + 56u, lane, a14, a15);
                sums = multiply_add(sums, at.b, column, k + 64u, lane, a16, a17);
                sums = multiply_add(sums, at.b, column, k + 72u, lane, a18, a19);
                sums = multiply_add(sums, at.b, column, k + 80u, lane, a20, a21);
                sums = multiply_add(sums, at.b, column, k + 88u, lane, a22, a23);
                sums = multiply_add(sums, at.b, column, k + 96u, lane, a24, a25);
                sums = multiply_add(sums, at.b, column, k + 104u, lane, a26, a27);
                sums = multiply_add(sums, at.b, column, k + 112u, lane, a28, a29);
                sums = multiply_add(sums, at.b, column, k + 120u, lane, a30, a31);
            }
            store_c(at.c, row, column, sums);
        }
    }
}
