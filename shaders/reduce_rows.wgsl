// y[o] = sum (or mean, or maximum) over l of x[o, l]: x [outer, length], y [outer].
//
// One invocation owns one row and walks along it, one vec4 a step. Assumes that length is a multiple of 4 and inner is
// 1. Sums run in three levels of 32 (see reduce.wgsl).

struct Params {
    outer: u32,
    length: u32,
    inner: u32,
    operation: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

const WIDTH: u32 = 8u;
const BLOCK: u32 = 32u;
const MAXIMUM: bool = false;
const MEAN: u32 = 2u;

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = linear_index(workgroup, workgroups, local, WIDTH);
    if row >= params.outer {
        return;
    }
    let quads = params.length / 4u;
    let first = row * quads;
    if MAXIMUM {
        var greatest = vec4<f32>(-3.4028234663852886e38);
        for (var quad = 0u; quad < quads; quad++) {
            greatest = max(greatest, x[first + quad]);
        }
        y[row] = max(max(greatest.x, greatest.y), max(greatest.z, greatest.w));
    } else {
        var high = vec4<f32>(0.0);
        for (var large = 0u; large < quads; large += BLOCK * BLOCK) {
            let large_end = min(quads, large + BLOCK * BLOCK);
            var middle = vec4<f32>(0.0);
            for (var small = large; small < large_end; small += BLOCK) {
                let small_end = min(large_end, small + BLOCK);
                var low = vec4<f32>(0.0);
                for (var quad = small; quad < small_end; quad++) {
                    low += x[first + quad];
                }
                middle += low;
            }
            high += middle;
        }
        var total = (high.x + high.y) + (high.z + high.w);
        if params.operation == MEAN {
            total /= f32(params.length);
        }
        y[row] = total;
    }
}
