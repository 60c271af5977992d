// The names of split_reduction.wgsl where each invocation has a result of its own and reads its whole column: nothing is
// shared, and nobody waits.
const WIDTH: u32 = 8u;
const COLUMNS: u32 = WIDTH;
const SPLITS: u32 = 1u;

fn sum_of_splits(value: f32, local: u32) -> f32 {
    return value;
}

fn maximum_of_splits(value: f32, local: u32) -> f32 {
    return value;
}
