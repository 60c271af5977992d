// Gradient of an embedding table: table_gradient[v] = sum of output_gradient[n] over all n with tokens[n] = v.
//
// A scatter turned into a search, so that no two invocations write the same place and the order of summation is fixed.
// A workgroup owns ROWS rows of the table and 8 x 4 values of their columns; its lanes walk through all tokens together,
// four at a time, and stop at fours that name a row of theirs:
//
//     tokens     . . 7 . | . . . . | 5 . . 7 | ...      rows 4..7 owned
//                  ^                   ^                 each stop adds one to four rows of the output gradient
//
// Lane l holds the columns l, l + 8, l + 16 and l + 24 of each owned row. The sums of BLOCK tokens are added to the total
// together, so that the error does not grow with every use of a frequent token. A row that nobody names is 0. A token
// past the table counts as its last row, as in the forward kernel. Assumes that a row is a whole number of values.

struct Params {
    tokens: u32,
    width: u32,
    vocabulary: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> output_gradient: array<Value>;
@group(0) @binding(2) var<storage, read> tokens: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> table_gradient: array<Value>;

const WIDTH: u32 = 8u;
const REACH: u32 = 32u; // values of a row that one workgroup owns
const HELD: u32 = REACH / WIDTH; // of which each lane owns so many
const ROWS: u32 = 1u; // rows of the table that one workgroup owns
const BLOCK: u32 = 1024u; // tokens, whole fours of them

alias Sums = array<Value, ROWS * HELD>;

// Adds this lane's values of a row of the output gradient to those of an owned row of the table.
fn add_row(sums: ptr<function, Sums>, slot: u32, index: u32, first: u32, columns: u32) {
    for (var held = 0u; held < HELD; held += 1u) {
        let column = first + held * WIDTH;
        if column < columns {
            (*sums)[(slot % ROWS) * HELD + held] += output_gradient[index * columns + column];
        }
    }
}

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let columns = params.width / LANES;
    let chunks = (columns + REACH - 1u) / REACH;
    let number = linear_index(workgroup, workgroups, 0u, 1u);
    let first_row = (number / chunks) * ROWS;
    if first_row >= params.vocabulary {
        return;
    }
    let first = (number % chunks) * REACH + local;

    var totals = Sums();
    var index = 0u;
    while index < params.tokens {
        let end = min(index + BLOCK, params.tokens);
        var sums = Sums();
        while index < end {
            // Walk on to the next four that name a row of this workgroup, or to the block's end.
            var slots = vec4<u32>(ROWS);
            var owned = vec4<bool>(false);
            while index < end {
                let numbers = vec4<u32>(index, index + 1u, index + 2u, index + 3u);
                slots = min(tokens[index / 4u], vec4<u32>(params.vocabulary - 1u)) - first_row;
                owned = (numbers < vec4<u32>(end)) & (slots < vec4<u32>(ROWS));
                if any(owned) {
                    break;
                }
                index += 4u;
            }
            if owned.x {
                add_row(&sums, slots.x, index, first, columns);
            }
            if owned.y {
                add_row(&sums, slots.y, index + 1u, first, columns);
            }
            if owned.z {
                add_row(&sums, slots.z, index + 2u, first, columns);
            }
            if owned.w {
                add_row(&sums, slots.w, index + 3u, first, columns);
            }
            index += 4u;
        }
        index = end;
        for (var each = 0u; each < ROWS * HELD; each += 1u) {
            totals[each] += sums[each];
        }
    }
    for (var slot = 0u; slot < ROWS; slot += 1u) {
        for (var held = 0u; held < HELD; held += 1u) {
            let column = first + held * WIDTH;
            if column < columns && first_row + slot < params.vocabulary {
                table_gradient[(first_row + slot) * columns + column] = totals[slot * HELD + held];
            }
        }
    }
}
