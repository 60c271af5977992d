// y[i] = apply(a[...], b[...]), where `apply` is generated from a row of the element-wise table; any strides.
//
// One invocation owns one element of y, which is contiguous from `y_offset` on. Its row-major number is taken apart into
// eight coordinates, and these give the elements of a and b; a stride of 0 broadcasts.

struct Params {
    shape_low: vec4<u32>,
    shape_high: vec4<u32>,
    a_strides_low: vec4<u32>,
    a_strides_high: vec4<u32>,
    b_strides_low: vec4<u32>,
    b_strides_high: vec4<u32>,
    count: u32,
    operation: u32,
    a_offset: u32,
    b_offset: u32,
    y_offset: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

const WIDTH: u32 = 64u;

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
    let start = StridedWalk(index, params.a_offset, params.b_offset);
    let inner = strided_steps(start, params.shape_high, params.a_strides_high, params.b_strides_high);
    let walk = strided_steps(inner, params.shape_low, params.a_strides_low, params.b_strides_low);
    let result = apply(vec4<f32>(a[walk.first]), vec4<f32>(b[walk.second]));
    y[params.y_offset + index] = result.x;
}
