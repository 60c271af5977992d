// y[i] = f(f(..f(x[i])..)) with f(x) = x * factor + addend, STEPS times a round.
//
// What an adapter computes at most: nothing is read or written between the first load and the last store. One invocation
// owns CHAINS neighbouring vec4; they do not depend on each other, so that one multiply-add need not wait for the one
// before it. Assumes a count that is a multiple of 4 * CHAINS.

struct Params {
    count: u32,
    rounds: u32,
    factor: f32,
    addend: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

const WIDTH: u32 = 64u;
const CHAINS: u32 = 4u;

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let first = linear_index(workgroup, workgroups, local, WIDTH) * CHAINS;
    if first >= params.count / 4u {
        return;
    }
    let factor = vec4<f32>(params.factor);
    let addend = vec4<f32>(params.addend);
    var a = x[first];
    var b = x[first + 1u];
    var c = x[first + 2u];
    var d = x[first + 3u];
    for (var round = 0u; round < params.rounds; round += 1u) {
        a = fma(a, factor, addend);
        b = fma(b, factor, addend);
        c = fma(c, factor, addend);
        d = fma(d, factor, addend);

        a = fma(a, factor, addend);
        b = fma(b, factor, addend);
        c = fma(c, factor, addend);
        d = fma(d, factor, addend);

        a = fma(a, factor, addend);
        b = fma(b, factor, addend);
        c = fma(c, factor, addend);
        d = fma(d, factor, addend);

        a = fma(a, factor, addend);
        b = fma(b, factor, addend);
        c = fma(c, factor, addend);
        d = fma(d, factor, addend);
    }
    y[first] = a;
    y[first + 1u] = b;
    y[first + 2u] = c;
    y[first + 3u] = d;
}
