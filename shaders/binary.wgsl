// y[i] = apply(a[...], b[...]), where `apply` is generated from a row of the element-wise table and both operands are
// broadcast to the shape of y.
//
// One invocation owns one vec4 of y, so each operand must be one of these, as seen from row-major y:
//
//   layout        element i of y reads        needs
//   FULL      0   offset + i                  offset in whole vec4
//   BLOCK     1   offset + i % kept           offset and kept in whole vec4: leading dimensions are broadcast
//   ELEMENT   2   offset + i / repeated       repeated in whole vec4: trailing dimensions are broadcast
//   SCALAR    3   offset                      nothing
//
// `kept` is the product of the sizes with a stride, `repeated` of those without. Lanes past `count` keep what they held.

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
@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;

const WIDTH: u32 = 64u;
const A_LAYOUT: u32 = 0u;
const B_LAYOUT: u32 = 0u;
const BLOCK: u32 = 1u;
const ELEMENT: u32 = 2u;
const SCALAR: u32 = 3u;

fn product(low: vec4<u32>, high: vec4<u32>) -> u32 {
    let pairs = low * high;
    return pairs.x * pairs.y * pairs.z * pairs.w;
}

// The element that the first lane reads, before the operand's offset.
fn position(first: u32, kind: u32, strides_low: vec4<u32>, strides_high: vec4<u32>) -> u32 {
    let zero = vec4<u32>(0u);
    let one = vec4<u32>(1u);
    if kind == SCALAR {
        return 0u;
    }
    if kind == BLOCK {
        let kept_low = select(params.shape_low, one, strides_low == zero);
        let kept = product(kept_low, select(params.shape_high, one, strides_high == zero));
        return first - divide(first, kept) * kept;
    }
    if kind == ELEMENT {
        let repeated_low = select(one, params.shape_low, strides_low == zero);
        return divide(first, product(repeated_low, select(one, params.shape_high, strides_high == zero)));
    }
    return first;
}

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = linear_index(workgroup, workgroups, local, WIDTH);
    let first = index * 4u;
    if first >= params.count {
        return;
    }
    let a_at = params.a_offset + position(first, A_LAYOUT, params.a_strides_low, params.a_strides_high);
    let b_at = params.b_offset + position(first, B_LAYOUT, params.b_strides_low, params.b_strides_high);
    var a_values = a[a_at / 4u];
    var b_values = b[b_at / 4u];
    if A_LAYOUT >= ELEMENT {
        a_values = vec4<f32>(a_values[a_at % 4u]);
    }
    if B_LAYOUT >= ELEMENT {
        b_values = vec4<f32>(b_values[b_at % 4u]);
    }
    let result = apply(a_values, b_values);
    let target_index = params.y_offset / 4u + index;
    if first + 4u <= params.count {
        y[target_index] = result;
    } else {
        let lanes = vec4<u32>(first, first + 1u, first + 2u, first + 3u) < vec4<u32>(params.count);
        y[target_index] = select(y[target_index], result, lanes);
    }
}
