// y[o, i] = sum (or mean, or maximum) over l of x[o, l, i]: x [outer, length, inner], y [outer, inner].
//
// A workgroup owns COLUMNS neighbouring results, SPLITS invocations share each (see common/split_reduction.wgsl). Sums
// run in three levels, 32 terms into one, 32 of these into the next, so that the rounding error grows with the third
// root of the length: blocked summation, Higham 1993, "The accuracy of floating point summation", section 3.

struct Params {
    outer: u32,
    length: u32,
    inner: u32,
    operation: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

const BLOCK: u32 = 32u;
const MAXIMUM: bool = false;
const MEAN: u32 = 2u;
const LOWEST: f32 = -3.4028234663852886e38;

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let result = linear_workgroup(workgroup, workgroups) * COLUMNS + local % COLUMNS;
    let in_range = result < params.outer * params.inner;
    let outer = result / params.inner;
    var at = outer * params.length * params.inner + (result - outer * params.inner);
    // Columns past the end have nothing to read, but meet the others at the barriers.
    let length = select(0u, params.length, in_range);
    let split = local / COLUMNS;
    at += split * params.inner;
    let step = SPLITS * params.inner;

    if MAXIMUM {
        var greatest = LOWEST;
        for (var position = split; position < length; position += SPLITS) {
            greatest = max(greatest, x[at]);
            at += step;
        }
        greatest = maximum_of_splits(greatest, local);
        if in_range && split == 0u {
            y[result] = greatest;
        }
    } else {
        var high = 0.0;
        var middle = 0.0;
        var low = 0.0;
        var terms = 0u;
        for (var position = split; position < length; position += SPLITS) {
            low += x[at];
            at += step;
            terms++;
            if terms % BLOCK == 0u {
                middle += low;
                low = 0.0;
                if terms % (BLOCK * BLOCK) == 0u {
                    high += middle;
                    middle = 0.0;
                }
            }
        }
        var total = sum_of_splits(high + (middle + low), local);
        if params.operation == MEAN {
            total /= f32(params.length);
        }
        if in_range && split == 0u {
            y[result] = total;
        }
    }
}
