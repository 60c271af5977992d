// Tiles of 32 x 32 scores in workgroup memory, for a workgroup of 64 invocations.
//
// Invocation (y, x) of 8 x 8 owns the tile's rows 4y .. 4y + 3. Of their scores it owns the columns x, x + 8, x + 16 and
// x + 24; of their sums, which are rows of a head dimension, the vec4 number x of every slice.
//
//   staged (left)   [32 rows][SLICE vec4]  x  staged (right) [32 columns][SLICE vec4]   ->  scores, 4 x 4 an invocation
//   tile_weights    [32 rows][32 columns]  x  staged (right) [32 columns][SLICE vec4]   ->  sums, 4 vec4 an invocation
//
// Rows are staged by slices of at most 8 vec4, so that any head dimension fits: 2 x 4,608 + 4,224 bytes. One unused vec4
// or number behind each staged row keeps invocations of a column off the same memory bank.
const CHUNKS: u32 = 16u; // vec4 in a row of the head dimension's class
const SLICE: u32 = 8u; // vec4 staged at once: min(CHUNKS, 8)
const SLICES: u32 = CHUNKS / SLICE;
const TILE: u32 = 32u;
const INVOCATIONS: u32 = 64u;
const PITCH: u32 = SLICE + 1u;
const LEFT: u32 = 0u;
const RIGHT: u32 = TILE * PITCH;
const WEIGHTS_PITCH: u32 = TILE + 1u;

// Rows of one head: its first element, the stride of its rows, the first row of the tile, the last row there is. Rows of
// the tile past the last repeat it.
struct TileRows {
    first: u32,
    stride: u32,
    begin: u32,
    last: u32,
}

var<workgroup> staged: array<vec4<f32>, 2u * TILE * PITCH>;
var<workgroup> tile_weights: array<f32, TILE * WEIGHTS_PITCH>;

// scores[r][c] += left row (4y + r) . right row (x + 8c), over the staged slice.
fn add_products(scores: ptr<function, array<vec4<f32>, 4>>, y: u32, x: u32) {
    for (var chunk = 0u; chunk < SLICE; chunk++) {
        let column = RIGHT + x * PITCH + chunk;
        let columns = mat4x4<f32>(
            staged[column],
            staged[column + 8u * PITCH],
            staged[column + 16u * PITCH],
            staged[column + 24u * PITCH],
        );
        for (var r = 0u; r < 4u; r++) {
            (*scores)[r] += staged[LEFT + (4u * y + r) * PITCH + chunk] * columns;
        }
    }
}

// Puts this invocation's scores or weights where the whole workgroup can read them.
fn share_weights(weights: array<vec4<f32>, 4>, y: u32, x: u32) {
    for (var r = 0u; r < 4u; r++) {
        let at = (4u * y + r) * WEIGHTS_PITCH + x;
        tile_weights[at] = weights[r].x;
        tile_weights[at + 8u] = weights[r].y;
        tile_weights[at + 16u] = weights[r].z;
        tile_weights[at + 24u] = weights[r].w;
    }
}

// sums[4 slice + r] += sum over columns of tile_weights[4y + r][column] * right row `column`, vec4 number x of the slice.
fn add_weighted(sums: ptr<function, array<vec4<f32>, 4u * SLICES>>, slice: u32, y: u32, x: u32) {
    if x < SLICE {
        for (var column = 0u; column < TILE; column++) {
            let staged_chunk = staged[RIGHT + column * PITCH + x];
            for (var r = 0u; r < 4u; r++) {
                (*sums)[4u * slice + r] += tile_weights[(4u * y + r) * WEIGHTS_PITCH + column] * staged_chunk;
            }
        }
    }
}
