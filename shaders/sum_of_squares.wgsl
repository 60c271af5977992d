// Partial sums of the squares of a tensor, for the norm over all gradients of a step:
//
//     partials[partials_offset + i] = sum of x[j]^2 over the vec4 j with j mod partials = i,   i < partials
//
// One invocation owns one partial sum. It adds blocks of BLOCK vec4 and then their sums, so that the error does not grow
// with the tensor. Only its own partial sums are written: the tensors of a step share the buffer. Lanes past `count`
// are left out.

struct Params {
    count: u32,
    partials_offset: u32,
    partials: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> partials: array<f32>;

const WIDTH: u32 = 8u;
const BLOCK: u32 = 64u; // vec4

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let own = linear_index(workgroup, workgroups, local, WIDTH);
    if own >= params.partials {
        return;
    }
    let whole = params.count / 4u;
    // How many vec4 fall to this invocation, the ragged last one left out.
    let owned = select(0u, (whole - own + params.partials - 1u) / params.partials, own < whole);
    var total = vec4<f32>(0.0);
    var done = 0u;
    while done < owned {
        let end = done + min(BLOCK, owned - done);
        var sum = vec4<f32>(0.0);
        for (; done < end; done += 1u) {
            let value = x[own + done * params.partials];
            sum += value * value;
        }
        total += sum;
    }
    let ragged = params.count % 4u;
    if ragged > 0u && whole % params.partials == own {
        let value = select(vec4<f32>(0.0), x[whole], vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(ragged));
        total += value * value;
    }
    partials[params.partials_offset + own] = (total.x + total.y) + (total.z + total.w);
}
