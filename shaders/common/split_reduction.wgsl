// How one workgroup reduces along the middle axis of [outer, length, inner]: it takes COLUMNS neighbouring results (of
// the outer * inner there are), and SPLITS invocations share each.
//
//   local = split * COLUMNS + column        split s reads positions s, s + SPLITS, s + 2 SPLITS, ... of its column
//
// With inner = 1, COLUMNS is small and neighbours read along the axis; otherwise neighbours read along inner. The last
// step is a tree over the splits, always in the same order. With COLUMNS = WIDTH there is one invocation a column and
// no barrier.
const WIDTH: u32 = 64u;
const COLUMNS: u32 = 1u;
const SPLITS: u32 = WIDTH / COLUMNS;

var<workgroup> partial: array<f32, WIDTH>;

// The sum over the splits of a column, given to each of them. Every invocation of the workgroup must call it.
fn sum_of_splits(value: f32, local: u32) -> f32 {
    if SPLITS == 1u {
        return value;
    }
    partial[local] = value;
    workgroupBarrier();
    for (var half = SPLITS / 2u; half > 0u; half /= 2u) {
        if local < half * COLUMNS {
            partial[local] += partial[local + half * COLUMNS];
        }
        workgroupBarrier();
    }
    let total = partial[local % COLUMNS];
    // Nobody may begin the next reduction before everybody has read this one.
    workgroupBarrier();
    return total;
}

// The maximum over the splits of a column, given to each of them. Every invocation of the workgroup must call it.
fn maximum_of_splits(value: f32, local: u32) -> f32 {
    if SPLITS == 1u {
        return value;
    }
    partial[local] = value;
    workgroupBarrier();
    for (var half = SPLITS / 2u; half > 0u; half /= 2u) {
        if local < half * COLUMNS {
            partial[local] = max(partial[local], partial[local + half * COLUMNS]);
        }
        workgroupBarrier();
    }
    let greatest = partial[local % COLUMNS];
    workgroupBarrier();
    return greatest;
}
