// A and C of a matrix multiplication, by vec4.
//
// Assumes A stored by rows or by columns, every vec4 of A and C at a multiple of four elements, and a number of columns
// that is a multiple of four. Rows past the edge are read at the edge and not stored.

@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> c: array<vec4<f32>>;

// Whether A is stored by columns.
const A_TRANSPOSED: bool = false;

// Rows `row` to `row + 3` at four inner steps from k on, zero past the last of them.
fn load_a(start: u32, row: u32, k: u32) -> Tile {
    if A_TRANSPOSED {
        // Aligned like the matrix, so that no vec4 begins past its rows.
        let at = start + min(row, (params.rows - 1u) & ~3u);
        let steps = k + vec4<u32>(0u, 1u, 2u, 3u);
        let reads = select(vec4<u32>(), steps, steps < vec4<u32>(params.inner)) * params.a_column_stride;
        return transpose(Tile(
            select(vec4<f32>(), a[(at + reads.x) / 4u], steps.x < params.inner),
            select(vec4<f32>(), a[(at + reads.y) / 4u], steps.y < params.inner),
            select(vec4<f32>(), a[(at + reads.z) / 4u], steps.z < params.inner),
            select(vec4<f32>(), a[(at + reads.w) / 4u], steps.w < params.inner),
        ));
    }
    let at = start + select(0u, k, k < params.inner);
    let rows = min(row + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.rows - 1u)) * params.a_row_stride;
    return Tile(
        within_inner(a[(at + rows.x) / 4u], k),
        within_inner(a[(at + rows.y) / 4u], k),
        within_inner(a[(at + rows.z) / 4u], k),
        within_inner(a[(at + rows.w) / 4u], k),
    );
}

fn load_c(start: u32, row: u32, column: u32) -> Tile {
    let rows = min(row + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.rows - 1u)) * params.c_row_stride;
    let at = (start + column + rows) / 4u;
    return Tile(c[at.x], c[at.y], c[at.z], c[at.w]);
}

fn store_c(start: u32, row: u32, column: u32, sums: Tile) {
    let at = start + row * params.c_row_stride + column;
    if row < params.rows {
        c[at / 4u] = sums[0];
    }
    if row + 1u < params.rows {
        c[(at + params.c_row_stride) / 4u] = sums[1];
    }
    if row + 2u < params.rows {
        c[(at + 2u * params.c_row_stride) / 4u] = sums[2];
    }
    if row + 3u < params.rows {
        c[(at + 3u * params.c_row_stride) / 4u] = sums[3];
    }
}
