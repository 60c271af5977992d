// A and C of a matrix multiplication, element by element, for any strides and sizes.
//
// Rows and columns past the edge are read at the edge and not stored.

@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(4) var<storage, read_write> c: array<f32>;

fn load_a_row(start: u32, row: u32, k: u32) -> vec4<f32> {
    let at = start + min(row, params.rows - 1u) * params.a_row_stride;
    let steps = k + vec4<u32>(0u, 1u, 2u, 3u);
    let reads = at + select(vec4<u32>(), steps, steps < vec4<u32>(params.inner)) * params.a_column_stride;
    return within_inner(vec4<f32>(a[reads.x], a[reads.y], a[reads.z], a[reads.w]), k);
}

// Rows `row` to `row + 3` at four inner steps from k on, zero past the last of them.
fn load_a(start: u32, row: u32, k: u32) -> Tile {
    return Tile(
        load_a_row(start, row, k),
        load_a_row(start, row + 1u, k),
        load_a_row(start, row + 2u, k),
        load_a_row(start, row + 3u, k),
    );
}

fn load_c_row(start: u32, row: u32, column: u32) -> vec4<f32> {
    let at = start + min(row, params.rows - 1u) * params.c_row_stride;
    let reads = at + min(column + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.columns - 1u));
    return vec4<f32>(c[reads.x], c[reads.y], c[reads.z], c[reads.w]);
}

fn load_c(start: u32, row: u32, column: u32) -> Tile {
    return Tile(
        load_c_row(start, row, column),
        load_c_row(start, row + 1u, column),
        load_c_row(start, row + 2u, column),
        load_c_row(start, row + 3u, column),
    );
}

fn store_c_row(start: u32, row: u32, column: u32, sums: vec4<f32>) {
    if row >= params.rows {
        return;
    }
    let at = start + row * params.c_row_stride + column;
    let columns = params.columns - column;
    c[at] = sums.x;
    if columns > 1u {
        c[at + 1u] = sums.y;
    }
    if columns > 2u {
        c[at + 2u] = sums.z;
    }
    if columns > 3u {
        c[at + 3u] = sums.w;
    }
}

fn store_c(start: u32, row: u32, column: u32, sums: Tile) {
    store_c_row(start, row, column, sums[0]);
    store_c_row(start, row + 1u, column, sums[1]);
    store_c_row(start, row + 2u, column, sums[2]);
    store_c_row(start, row + 3u, column, sums[3]);
}
