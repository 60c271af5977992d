// The number of this invocation in a one-dimensional dispatch whose workgroups may have been folded from x into y.
fn linear_index(workgroup: vec3<u32>, workgroups: vec3<u32>, local: u32, width: u32) -> u32 {
    return (workgroup.x + workgroup.y * workgroups.x) * width + local;
}
