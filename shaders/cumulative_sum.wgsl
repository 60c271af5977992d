// y[o, l, i] = sum over k <= l of x[o, k, i], or over k >= l where the sum runs backwards: x and y are
// [outer, length, inner].
//
// One invocation owns a line along l, or four neighbouring ones, and walks along it: an element depends on those that the
// sum has met and on no other, not even in its last bit. As in reduce.wgsl, positions are added in blocks of 32 and these
// in blocks of 1024, so that rounding grows with the number of blocks and not of positions.

struct Params {
    outer: u32,
    length: u32,
    inner: u32,
    reverse: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<Value>;
@group(0) @binding(2) var<storage, read_write> y: array<Value>;

const WIDTH: u32 = 64u;
const BLOCK: u32 = 32u;

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let line = linear_index(workgroup, workgroups, local, WIDTH);
    let inner = params.inner / LANES;
    if line >= params.outer * inner {
        return;
    }
    let outer = line / inner;
    let first = outer * params.length * inner + (line - outer * inner);
    var high = Value(0.0);
    var middle = Value(0.0);
    var low = Value(0.0);
    for (var met = 0u; met < params.length; met++) {
        let position = select(met, params.length - 1u - met, params.reverse != 0u);
        let at = first + position * inner;
        low += x[at];
        y[at] = high + (middle + low);
        if met % BLOCK == BLOCK - 1u {
            middle += low;
            low = Value(0.0);
        }
        if met % (BLOCK * BLOCK) == BLOCK * BLOCK - 1u {
            high += middle;
            middle = Value(0.0);
        }
    }
}
