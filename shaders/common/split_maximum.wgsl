var<workgroup> partial_maxima: array<f32, WIDTH>;

// The maximum over the splits of a column, given to each of them. Every invocation of the workgroup must call it, and
// only once: nobody waits until all have read the result.
fn maximum_of_splits(value: f32, local: u32) -> f32 {
    partial_maxima[local] = value;
    workgroupBarrier(); // the maxima of all splits are there
    for (var half = SPLITS / 2u; half > 0u; half /= 2u) {
        if local < half * COLUMNS {
            partial_maxima[local] = max(partial_maxima[local], partial_maxima[local + half * COLUMNS]);
        }
        workgroupBarrier(); // this level of the tree is compared
    }
    return partial_maxima[local % COLUMNS];
}
