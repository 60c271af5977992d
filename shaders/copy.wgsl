// y[y_offset + sum_d i_d * y_strides_d] = x[x_offset + sum_d i_d * x_strides_d], four elements at a time.
//
// One invocation owns one vec4. Assumes that the innermost dimension is contiguous in both views and its size a multiple
// of 4, and that offsets and all other strides are multiples of 4. Elements of y that no index reaches are not written.

struct Params {
    shape_low: vec4<u32>,
    shape_high: vec4<u32>,
    x_strides_low: vec4<u32>,
    x_strides_high: vec4<u32>,
    y_strides_low: vec4<u32>,
    y_strides_high: vec4<u32>,
    count: u32,
    x_offset: u32,
    y_offset: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

const WIDTH: u32 = 64u;

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let first = linear_index(workgroup, workgroups, local, WIDTH) * 4u;
    if first >= params.count {
        return;
    }
    let start = StridedWalk(first, params.x_offset, params.y_offset);
    let inner = strided_steps(start, params.shape_high, params.x_strides_high, params.y_strides_high);
    let walk = strided_steps(inner, params.shape_low, params.x_strides_low, params.y_strides_low);
    y[walk.second / 4u] = x[walk.first / 4u];
}
