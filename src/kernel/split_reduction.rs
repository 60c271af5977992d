//! How a workgroup divides the reductions along the middle axis of `[outer, length, inner]`: the host's side of
//! `common/split_reduction.wgsl`.

use super::loop_limit;
use crate::gpu::Constant;
use crate::tape::Mutant;
use crate::tape::MutantKind::{Barrier, Formula};

/// Invocations of a workgroup where several share one result.
const WIDTH: u32 = 64;
/// Invocations of a workgroup where each has a result of its own; software adapters run 8 lanes at a time.
const SERIAL_WIDTH: u32 = 8;

/// Axes longer than this are always split among a whole workgroup.
const LONG: u32 = 1 << 16;

/// Mutants of `common/split_sum.wgsl`.
pub const SUM_MUTANTS: &[Mutant] = &[
    Mutant::new(
        Formula,
        "the splits are not added up",
        "partial_sums[local] += partial_sums[local + half * COLUMNS];",
        "partial_sums[local] += 0.0;",
    ),
    Mutant::new(
        Barrier,
        "the tree begins before all sums are there",
        "workgroupBarrier(); // the sums of all splits are there",
        "",
    ),
    Mutant::new(
        Barrier,
        "a level of sums begins before the last has ended",
        "workgroupBarrier(); // this level of the tree is added up",
        "",
    ),
];

/// Mutants of `common/split_maximum.wgsl`.
pub const MAXIMUM_MUTANTS: &[Mutant] = &[
    Mutant::new(
        Barrier,
        "the tree begins before all maxima are there",
        "workgroupBarrier(); // the maxima of all splits are there",
        "",
    ),
    Mutant::new(
        Barrier,
        "a level of maxima begins before the last has ended",
        "workgroupBarrier(); // this level of the tree is compared",
        "",
    ),
];

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
            // Sixteen neighbours along inner read one 64-byte line; more splits than positions would idle, and long
            // axes need all there are.
            let neighbours = if length > LONG { 1 } else { 1 << inner.max(1).ilog2().min(4) };
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

/// Whether an axis can be walked so many times by the invocations that share it.
///
/// # Errors
/// As [`loop_limit::within`].
pub fn walks(sharing: Sharing, length: u32, inner: u32, times: u64) -> Result<(), String> {
    let splits = match sharing {
        Sharing::Serial => 1,
        Sharing::Shared => WIDTH / columns(sharing, length, inner),
    };
    // Each tree over the splits takes a few iterations more.
    loop_limit::within(times * u64::from(length.div_ceil(splits) + WIDTH.ilog2()))
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

    #[test]
    fn axes_that_would_take_too_many_iterations_are_refused() {
        for (sharing, length, times, allowed) in [
            (Sharing::Serial, 65_529, 1, true),
            (Sharing::Serial, 65_530, 1, false),
            (Sharing::Serial, 20_000, 3, true),
            (Sharing::Serial, 22_000, 3, false),
            (Sharing::Shared, 4_000_000, 1, true),
            (Sharing::Shared, 4_200_000, 1, false),
        ] {
            assert_eq!(walks(sharing, length, 1, times).is_ok(), allowed, "{sharing:?} {length} {times}");
        }
    }
}
