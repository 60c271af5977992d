// Where an element lies in two strided views of one shape of eight dimensions, given its row-major number. Dimensions
// of size 1 cost a comparison only.
struct StridedWalk {
    rest: u32,
    first: u32,
    second: u32,
}

fn strided_step(walk: StridedWalk, size: u32, first_stride: u32, second_stride: u32) -> StridedWalk {
    if size == 1u {
        return walk;
    }
    let rest = divide(walk.rest, size);
    let coordinate = walk.rest - rest * size;
    return StridedWalk(rest, walk.first + coordinate * first_stride, walk.second + coordinate * second_stride);
}

// Four dimensions, innermost (w) first.
fn strided_steps(walk: StridedWalk, sizes: vec4<u32>, first: vec4<u32>, second: vec4<u32>) -> StridedWalk {
    let after_w = strided_step(walk, sizes.w, first.w, second.w);
    let after_z = strided_step(after_w, sizes.z, first.z, second.z);
    let after_y = strided_step(after_z, sizes.y, first.y, second.y);
    return strided_step(after_y, sizes.x, first.x, second.x);
}
