// The number of this workgroup in a one-dimensional dispatch that may have been folded from x into y.
fn linear_workgroup(workgroup: vec3<u32>, workgroups: vec3<u32>) -> u32 {
    return workgroup.x + workgroup.y * workgroups.x;
}
