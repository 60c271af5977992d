// Norm over all gradients of a step from partial sums of squares, the factor that clips it, and the guard of the update:
//
//     norm        = sqrt(sum partials)
//     coefficient = clip > 0 ? min(1, clip / (norm + 1e-6)) : 1          (Pascanu, Mikolov and Bengio 2013, section 3.2)
//
// Where loss or norm are not finite, flags[FROZEN] becomes 1 and stays so, and no later update is let through. What is
// finite is told by the exponent's bits: compilers may assume that no number is NaN. Layout:
//
//     control  norm (0 where not finite), coefficient (0 where frozen), 0, 0
//     flags    frozen, updates let through, what froze it (bit 0 the loss, bit 1 the norm), not used
//
// One workgroup; 256 sums, then 16, then one, each in a fixed order.

struct Params {
    partials: u32,
    clip: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partials: array<f32>;
@group(0) @binding(2) var<storage, read> loss: array<f32>;
@group(0) @binding(3) var<storage, read_write> control: array<f32>;
@group(0) @binding(4) var<storage, read_write> flags: array<u32>;

const WIDTH: u32 = 256u;
const GROUP: u32 = 16u;
const EXPONENT_BITS: u32 = 0x7f800000u;
const FROZEN: u32 = 0u;
const UPDATES: u32 = 1u;
const CAUSE: u32 = 2u;

var<workgroup> sums: array<f32, WIDTH>;

fn is_finite(value: f32) -> bool {
    return (bitcast<u32>(value) & EXPONENT_BITS) != EXPONENT_BITS;
}

@compute @workgroup_size(WIDTH)
fn main(@builtin(local_invocation_index) local: u32) {
    var sum = 0.0;
    for (var index = local; index < params.partials; index += WIDTH) {
        sum += partials[index];
    }
    sums[local] = sum;
    workgroupBarrier(); // all sums are there
    if local < GROUP {
        for (var other = local + GROUP; other < WIDTH; other += GROUP) {
            sum += sums[other];
        }
        sums[local] = sum;
    }
    workgroupBarrier(); // the sums of the groups are there
    if local == 0u {
        for (var other = 1u; other < GROUP; other += 1u) {
            sum += sums[other];
        }
        let sum_is_finite = is_finite(sum);
        let norm = sqrt(select(0.0, sum, sum_is_finite));
        let cause = select(1u, 0u, is_finite(loss[0])) | select(2u, 0u, sum_is_finite);
        if flags[FROZEN] == 0u && cause != 0u {
            flags[FROZEN] = 1u;
            flags[CAUSE] = cause;
        }
        let frozen = flags[FROZEN] != 0u;
        if !frozen {
            flags[UPDATES] += 1u;
        }
        let coefficient = select(1.0, min(1.0, params.clip / (norm + 1e-6)), params.clip > 0.0);
        control[0] = norm;
        control[1] = select(coefficient, 0.0, frozen);
        control[2] = 0.0;
        control[3] = 0.0;
    }
}
