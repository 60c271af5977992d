// Values of the eight lanes of a subgroup in two halves: `low` of lanes 0 to 3, `high` of lanes 4 to 7.
struct Eight {
    low: vec4<f32>,
    high: vec4<f32>,
}

// The vec4 of lanes 0 to 3 as columns: `v * low_lanes(x)` are four dot products, `low_lanes(x) * w` is a weighted sum.
fn low_lanes(own: vec4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(
        subgroupBroadcast(own, 0u),
        subgroupBroadcast(own, 1u),
        subgroupBroadcast(own, 2u),
        subgroupBroadcast(own, 3u),
    );
}

// The vec4 of lanes 4 to 7 as columns.
fn high_lanes(own: vec4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(
        subgroupBroadcast(own, 4u),
        subgroupBroadcast(own, 5u),
        subgroupBroadcast(own, 6u),
        subgroupBroadcast(own, 7u),
    );
}

// A number of each lane, handed to all.
fn all_lanes(own: f32) -> Eight {
    return Eight(
        vec4<f32>(
            subgroupBroadcast(own, 0u),
            subgroupBroadcast(own, 1u),
            subgroupBroadcast(own, 2u),
            subgroupBroadcast(own, 3u),
        ),
        vec4<f32>(
            subgroupBroadcast(own, 4u),
            subgroupBroadcast(own, 5u),
            subgroupBroadcast(own, 6u),
            subgroupBroadcast(own, 7u),
        ),
    );
}
