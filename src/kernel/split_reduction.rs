//! How a workgroup divides the reductions along the middle axis of `[outer, length, inner]`: the host's side of
//! `common/split_reduction.wgsl`.

use crate::gpu::Constant;

/// Invocations of a workgroup where several share one result.
const WIDTH: u32 = 64;
/// Invocations of a workgroup where each has a result of its own; software adapters run 8 lanes at a time.
const SERIAL_WIDTH: u32 = 8;

/// Who computes one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One invocation: no barriers, which cost a software adapter more than they save.
    Serial,
    /// Up to a workgroup of invocations.
    Shared,
}

/// Results of one workgroup.
fn columns(sharing: Sharing, length: u32, inner: u32) -> u32 {
    match sharing {
        Sharing::Serial => SERIAL_WIDTH,
        Sharing::Shared => {
            // Sixteen neighbours along inner read one 64-byte line; more splits than positions would idle.
            let neighbours = 1 << inner.max(1).ilog2().min(4);
            let splits = (WIDTH / neighbours).min(length.clamp(1, WIDTH).next_power_of_two());
            WIDTH / splits
        }
    }
}

/// The constants of the WGSL piece.
pub fn constants(sharing: Sharing, length: u32, inner: u32) -> Vec<Constant> {
    let width = if sharing == Sharing::Serial { SERIAL_WIDTH } else { WIDTH };
    vec![Constant::u32("WIDTH", width), Constant::u32("COLUMNS", columns(sharing, length, inner))]
}

/// The workgroups of a launch.
pub fn workgroups(sharing: Sharing, results: u64, length: u32, inner: u32) -> [u64; 3] {
    [results.div_ceil(u64::from(columns(sharing, length, inner))), 1, 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workgroup_is_divided_by_how_long_the_axis_is_and_what_lies_beside_it() {
        for (length, inner, expected) in [
            (1000, 1, 1),
            (64, 1, 1),
            (33, 1, 1),
            (32, 1, 2),
            (5, 1, 8),
            (1, 1, 64),
            (768, 128, 16),
            (768, 5, 4),
            (3, 128, 16),
        ] {
            let found = columns(Sharing::Shared, length, inner);
            assert_eq!(found, expected, "length={length} inner={inner}");
        }
        assert_eq!(workgroups(Sharing::Serial, 9, 7, 3), [2, 1, 1]);
        assert_eq!(workgroups(Sharing::Shared, 3, 100, 1), [3, 1, 1]);
    }
}
