var<workgroup> partial_sums: array<f32, WIDTH>;

// The sum over the splits of a column, given to each of them. Every invocation of the workgroup must call it, and only
// once: nobody waits until all have read the result.
fn sum_of_splits(value: f32, local: u32) -> f32 {
    partial_sums[local] = value;
    workgroupBarrier(); // the sums of all splits are there
    for (var half = SPLITS / 2u; half > 0u; half /= 2u) {
        if local < half * COLUMNS {
            partial_sums[local] += partial_sums[local + half * COLUMNS];
        }
        workgroupBarrier(); // this level of the tree is added up
    }
    return partial_sums[local % COLUMNS];
}
