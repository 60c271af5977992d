// y[r, j] = x[r, j] where the query of row r sees key j, `fill` where it does not: x and y are [rows, Tk], rows of
// [.., Tq, Tk] from number `first_row` of a matrix on, so that row r is that of query i = (first_row + r) mod Tq.
//
// Query i sees key j iff j <= i + Tk - Tq: the last query sees every key, however many keys there are (bottom-right
// alignment).
//
// One invocation owns four consecutive elements, which may belong to several rows. Lanes past the end keep what they
// held.

struct Params {
    rows: u32,
    first_row: u32,
    query_length: u32,
    key_length: u32,
    fill: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

const WIDTH: u32 = 64u;

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let count = params.rows * params.key_length;
    let index = linear_index(workgroup, workgroups, local, WIDTH);
    let first = index * 4u;
    if first >= count {
        return;
    }
    let row = divide(first, params.key_length);
    let place = params.first_row + row;
    var query = place - divide(place, params.query_length) * params.query_length;
    var key = first - row * params.key_length;
    var queries = vec4<u32>(0u);
    var keys = vec4<u32>(0u);
    for (var lane = 0u; lane < 4u; lane++) {
        queries[lane] = query;
        keys[lane] = key;
        key++;
        if key == params.key_length {
            key = 0u;
            query = select(query + 1u, 0u, query + 1u == params.query_length);
        }
    }
    let hidden = keys + params.query_length > queries + params.key_length;
    let result = select(x[index], vec4<f32>(params.fill), hidden);
    if first + 4u <= count {
        y[index] = result;
    } else {
        let lanes = vec4<u32>(first, first + 1u, first + 2u, first + 3u) < vec4<u32>(count);
        y[index] = select(y[index], result, lanes);
    }
}
