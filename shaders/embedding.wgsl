// Rows of a table by number: y[n] = table[tokens[n]].
//
// A workgroup owns one token and 8 x 4 values of its row; lane l copies the values l, l + 8, l + 16 and l + 24, so that
// neighbouring lanes touch neighbouring values. A token past the table reads the table's last row, never out of it.
// Assumes that a row is a whole number of values.

struct Params {
    tokens: u32,
    width: u32,
    vocabulary: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> table: array<Value>;
@group(0) @binding(2) var<storage, read> tokens: array<u32>;
@group(0) @binding(3) var<storage, read_write> y: array<Value>;

const WIDTH: u32 = 8u;
const REACH: u32 = 32u; // values of a row that one workgroup owns

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let columns = params.width / LANES;
    let chunks = (columns + REACH - 1u) / REACH;
    let number = linear_index(workgroup, workgroups, 0u, 1u);
    let index = number / chunks;
    if index >= params.tokens {
        return;
    }
    let first = (number % chunks) * REACH;
    let end = min(first + REACH, columns);
    let token = min(tokens[index], params.vocabulary - 1u);
    for (var column = first + local; column < end; column += WIDTH) {
        y[index * columns + column] = table[token * columns + column];
    }
}
