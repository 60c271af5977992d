// What the designs of matrix multiplication share: C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n], plus bias[n] or,
// where it accumulates, plus what C[b, m, n] held.
//
// Batch b is number b / batch_inner of the outer and b % batch_inner of the inner batch dimension. Offsets and strides
// are in elements; elements of a row of C are adjacent.

struct Params {
    batches: u32,
    batch_inner: u32,
    rows: u32,
    columns: u32,
    inner: u32,
    a_offset: u32,
    a_outer_stride: u32,
    a_inner_stride: u32,
    a_row_stride: u32,
    a_column_stride: u32,
    b_offset: u32,
    b_outer_stride: u32,
    b_inner_stride: u32,
    b_row_stride: u32,
    b_column_stride: u32,
    c_offset: u32,
    c_outer_stride: u32,
    c_inner_stride: u32,
    c_row_stride: u32,
    has_bias: u32,
    accumulates: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(3) var<storage, read> bias: array<f32>;

// Where the matrices of one batch begin.
struct Matrices {
    a: u32,
    b: u32,
    c: u32,
}

fn matrices(batch: u32) -> Matrices {
    let outer = batch / params.batch_inner;
    let inner_index = batch % params.batch_inner;
    return Matrices(
        params.a_offset + outer * params.a_outer_stride + inner_index * params.a_inner_stride,
        params.b_offset + outer * params.b_outer_stride + inner_index * params.b_inner_stride,
        params.c_offset + outer * params.c_outer_stride + inner_index * params.c_inner_stride,
    );
}

// A 4 x 4 part of a matrix. Of A: a column for each row m, along k. Of B: a column for each inner step k, along n. So
// `b * a` is a part of C with a column for each row m, along n.
alias Tile = mat4x4<f32>;

// The four values of a vec4 that begins at inner step k, with zeros past the end.
fn within_inner(values: vec4<f32>, k: u32) -> vec4<f32> {
    return select(vec4<f32>(), values, k + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(params.inner));
}
