// y[o, i] = sum (or mean, or maximum) over l of x[o, l, i]: x [outer, length, inner], y [outer, inner].
//
// One invocation owns four neighbouring columns and walks down them, one vec4 a step. Assumes that inner is a multiple
// of 4. Sums run in three levels of 32 (see reduce.wgsl).

struct Params {
    outer: u32,
    length: u32,
    inner: u32,
    operation: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

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
    let result = linear_index(workgroup, workgroups, local, WIDTH);
    let inner = params.inner / 4u;
    if result >= params.outer * inner {
        return;
    }
    let outer = result / inner;
    let first = outer * params.length * inner + (result - outer * inner);
    if MAXIMUM {
        var greatest = vec4<f32>(-3.4028234663852886e38);
        for (var position = 0u; position < params.length; position++) {
            greatest = max(greatest, x[first + position * inner]);
        }
        y[result] = greatest;
    } else {
        var high = vec4<f32>(0.0);
        for (var large = 0u; large < params.length; large += BLOCK * BLOCK) {
            let large_end = min(params.length, large + BLOCK * BLOCK);
            var middle = vec4<f32>(0.0);
            for (var small = large; small < large_end; small += BLOCK) {
                let small_end = min(large_end, small + BLOCK);
                var low = vec4<f32>(0.0);
                for (var position = small; position < small_end; position++) {
                    low += x[first + position * inner];
                }
                middle += low;
            }
            high += middle;
        }
        if params.operation == MEAN {
            high /= f32(params.length);
        }
        y[result] = high;
    }
}
