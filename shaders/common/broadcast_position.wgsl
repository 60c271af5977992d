// Operands that are broadcast to row-major y and read by whole vec4. As seen from y, each must be one of these:
//
//   layout        element i of y reads        needs
//   FULL      0   offset + i                  offset in whole vec4
//   BLOCK     1   offset + i % kept           offset and kept in whole vec4: leading dimensions are broadcast
//   ELEMENT   2   offset + i / repeated       repeated in whole vec4: trailing dimensions are broadcast
//   SCALAR    3   offset                      nothing
//
// `kept` is the product of the sizes with a stride, `repeated` of those without.
const BLOCK: u32 = 1u;
const ELEMENT: u32 = 2u;
const SCALAR: u32 = 3u;

fn product(low: vec4<u32>, high: vec4<u32>) -> u32 {
    let pairs = low * high;
    return pairs.x * pairs.y * pairs.z * pairs.w;
}

// The element that the lane of element `first` of y reads, before the operand's offset.
fn broadcast_position(first: u32, kind: u32, strides_low: vec4<u32>, strides_high: vec4<u32>) -> u32 {
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

// What four neighbouring lanes read, of the vec4 that holds the first one's element, number `at` of its buffer.
fn broadcast_values(loaded: vec4<f32>, at: u32, kind: u32) -> vec4<f32> {
    if kind >= ELEMENT {
        return vec4<f32>(loaded[at % 4u]);
    }
    return loaded;
}
