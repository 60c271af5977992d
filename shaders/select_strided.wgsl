// y[i] = a[...] where condition[...] is not 0, else b[...]; any strides.
//
// One invocation owns one element of y, which is contiguous from `y_offset` on. Its row-major number is taken apart into
// eight coordinates, and these give the elements of condition, a and b; a stride of 0 broadcasts. Nothing is multiplied, so that NaN and
// infinity of the side that is not taken stay behind.

struct Params {
    shape_low: vec4<u32>,
    shape_high: vec4<u32>,
    condition_strides_low: vec4<u32>,
    condition_strides_high: vec4<u32>,
    a_strides_low: vec4<u32>,
    a_strides_high: vec4<u32>,
    b_strides_low: vec4<u32>,
    b_strides_high: vec4<u32>,
    count: u32,
    condition_offset: u32,
    a_offset: u32,
    b_offset: u32,
    y_offset: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> condition: array<f32>;
@group(0) @binding(2) var<storage, read> a: array<f32>;
@group(0) @binding(3) var<storage, read> b: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

const WIDTH: u32 = 64u;

// Where an element lies in condition, a and b, and what is left of its number.
struct Walk {
    places: vec3<u32>,
    rest: u32,
}

fn step(walk: Walk, size: u32, strides: vec3<u32>) -> Walk {
    if size == 1u {
        return walk;
    }
    let rest = divide(walk.rest, size);
    return Walk(walk.places + (walk.rest - rest * size) * strides, rest);
}

// Four dimensions, innermost (w) first.
fn steps(walk: Walk, sizes: vec4<u32>, first: vec4<u32>, second: vec4<u32>, third: vec4<u32>) -> Walk {
    let after_w = step(walk, sizes.w, vec3<u32>(first.w, second.w, third.w));
    let after_z = step(after_w, sizes.z, vec3<u32>(first.z, second.z, third.z));
    let after_y = step(after_z, sizes.y, vec3<u32>(first.y, second.y, third.y));
    return step(after_y, sizes.x, vec3<u32>(first.x, second.x, third.x));
}

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = linear_index(workgroup, workgroups, local, WIDTH);
    if index >= params.count {
        return;
    }
    let start = Walk(vec3<u32>(params.condition_offset, params.a_offset, params.b_offset), index);
    let inner = steps(
        start, params.shape_high, params.condition_strides_high, params.a_strides_high, params.b_strides_high,
    );
    let walk = steps(
        inner, params.shape_low, params.condition_strides_low, params.a_strides_low, params.b_strides_low,
    );
    let held = holds(vec4<f32>(condition[walk.places.x]));
    y[params.y_offset + index] = select(b[walk.places.z], a[walk.places.y], held.x);
}
