// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2; the decay scaled by the rate):
//
//     g = coefficient * gradient
//     m = beta1 * m + (1 - beta1) * g,   v = beta2 * v + (1 - beta2) * g^2
//     p = p - rate * weight_decay * p - rate / correction1 * m / (sqrt(v) / sqrt(correction2) + epsilon)
//
// with correction = 1 - beta^t. Both steps are taken from the same p and subtracted at once, as 1 - rate * weight_decay
// would lose most of the decay's digits. A workgroup owns 8 x 4 vec4, lane l those numbered l, l + 8, l + 16 and l + 24.
// Where the flags say frozen nothing is written. Lanes past `count` keep what they held.
//
//     scalars  first micro-batch, rate, correction1, correction2 | gradient factor (not used here)
//     control  norm, coefficient, ...        flags  frozen, ...

struct Params {
    count: u32,
    beta1: f32,
    beta2: f32,
    one_minus_beta1: f32,
    one_minus_beta2: f32,
    epsilon: f32,
    weight_decay: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> parameter: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> gradient: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> first_moment: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> second_moment: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> scalars: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> control: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read> flags: array<u32>;

const WIDTH: u32 = 8u;
const REACH: u32 = 32u; // vec4 that one workgroup owns

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    if flags[0] != 0u {
        return;
    }
    let step = scalars[0];
    let rate = step.y;
    let step_size = rate / step.z;
    let root_scale = 1.0 / sqrt(step.w);
    let coefficient = control[0].y;
    let first = linear_index(workgroup, workgroups, 0u, 1u) * REACH + local;
    for (var held = 0u; held < REACH; held += WIDTH) {
        let index = first + held;
        let element = index * 4u;
        if element < params.count {
            let inside = vec4<u32>(element, element + 1u, element + 2u, element + 3u) < vec4<u32>(params.count);
            let p = parameter[index];
            let m = first_moment[index];
            let v = second_moment[index];
            let g = coefficient * gradient[index];
            let new_m = params.beta1 * m + params.one_minus_beta1 * g;
            let new_v = params.beta2 * v + params.one_minus_beta2 * (g * g);
            let update = step_size * new_m / (sqrt(new_v) * root_scale + params.epsilon);
            let new_p = p - ((rate * params.weight_decay) * p + update);
            parameter[index] = select(p, new_p, inside);
            first_moment[index] = select(m, new_m, inside);
            second_moment[index] = select(v, new_v, inside);
        }
    }
}
