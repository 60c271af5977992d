//! Partial sums of the squares of a tensor: a share of the norm over all gradients of a step.

use super::loop_limit;
use super::piece;
use crate::tape::MutantKind::{Accumulator, Index, Tile};
use crate::tape::rounding::bound_sums;
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<SumOfSquares>();

crate::kernel_parameters! {
    /// Operands: `x [count]`, `partials [..]`, in place: the tensors of a step share the buffer, and a launch writes
    /// `partials` sums from `partials_offset` on. Sum `i` is over the groups of four elements whose number is `i` modulo
    /// `partials`; where there are more sums than groups the rest are 0.
    pub struct Parameters {
        count: u32,
        partials_offset: u32,
        partials: u32,
    }
}

/// How many partial sums a tensor of so many elements should have: enough invocations to keep a device busy, at
/// least 256 elements for each, and at least one.
pub const fn partials_for(count: u64) -> u32 {
    let partials = count.div_ceil(256);
    if partials == 0 {
        1
    } else if partials > 4096 {
        4096
    } else {
        partials as u32
    }
}

pub struct SumOfSquares;

impl KernelDefinition for SumOfSquares {
    type Parameters = Parameters;
    const NAME: &'static str = "sum_of_squares";
    const WRITES: &'static [usize] = &[1];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[Design {
            name: "vec4",
            file: "sum_of_squares.wgsl",
            text: include_str!("../../shaders/sum_of_squares.wgsl"),
            pieces: &[&piece::LINEAR_INDEX],
            preference: Preference::Any,
            subgroup_width: None,
            supports: |parameters| {
                let shares = u64::from(parameters.count.div_ceil(4).div_ceil(parameters.partials.max(1)));
                loop_limit::within(shares + 2 * shares.div_ceil(64) + 2)
            },
            constants: |_| Vec::new(),
            generated: |_| String::new(),
            workgroups: |parameters| [u64::from(parameters.partials).div_ceil(8), 1, 1],
            mutants: &[&[
                Mutant::new(Tile, "the ragged end is dropped", "if ragged > 0u && whole", "if ragged > 4u && whole"),
                Mutant::new(
                    Tile,
                    "the ragged end is read past its end",
                    "vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(ragged)",
                    "vec4<u32>(0u, 0u, 0u, 0u) < vec4<u32>(ragged)",
                ),
                Mutant::new(Accumulator, "every block replaces the one before", "total += sum;", "total = sum;"),
                Mutant::new(
                    Index,
                    "another tensor's sums are overwritten",
                    "partials[params.partials_offset + own] =",
                    "partials[own] =",
                ),
                Mutant::new(
                    Tile,
                    "one sum more than its own is written",
                    "if own >= params.partials {",
                    "if own > params.partials {",
                ),
            ]],
        }];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (x, mut partials) = (operands.real(0), operands.real_mut(1));
        let mut sums = vec![S::Wide::of(0.0); parameters.partials as usize];
        for (group, elements) in x[..parameters.count as usize].chunks(4).enumerate() {
            let squares = elements.iter().map(|value| value.wide() * value.wide());
            sums[group % parameters.partials as usize] += squares.sum::<S::Wide>();
        }
        let written = &mut partials[parameters.partials_offset as usize..][..sums.len()];
        for (partial, sum) in written.iter_mut().zip(sums) {
            *partial = S::narrow(sum);
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        bound_sums::<Self>(parameters, operands, u64::from(parameters.count.div_ceil(parameters.partials)), bounds);
    }

    fn cost(parameters: &Parameters) -> Cost {
        let (count, partials) = (u64::from(parameters.count), u64::from(parameters.partials));
        Cost { flops: 2 * count, bytes: 4 * (count + partials) }
    }

    fn cases() -> Vec<Case> {
        // (elements, first sum, sums): ragged ends at the first, at a later and at the last sum; more sums than groups;
        // blocks of 64 groups less and more one.
        [(1, 0, 1), (3, 2, 1), (4, 0, 3), (5, 1, 9), (7, 0, 2), (63, 5, 8), (252, 0, 1), (256, 3, 1), (261, 0, 1)]
            .into_iter()
            .chain([(4099, 7, 17), (8192, 0, 32), (300_001, 11, 1172), (300_002, 0, 2)])
            .map(|(count, partials_offset, partials)| {
                // Sums of other tensors before and behind.
                let held = (0..partials_offset + partials + 5).map(|index| 1.0 + index as f32).collect();
                Case::new(
                    format!("count={count} offset={partials_offset} partials={partials} seed=12"),
                    Parameters { count: count as u32, partials_offset, partials },
                    vec![Operand::Input(normal(12, 0, count, 1e-3)), Operand::InOut(held)],
                    Tolerance::new(0.0, 1e-6),
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::finite_difference::{numbers, run};
    use crate::tape::HostBuffer;

    #[test]
    fn groups_of_four_are_dealt_to_the_sums_in_turn() {
        let x = (1..=9).map(f64::from).collect();
        let parameters = Parameters { count: 9, partials_offset: 1, partials: 2 };
        let results =
            run::<SumOfSquares>(&parameters, vec![HostBuffer::Real(x), HostBuffer::Real(vec![7.0, 7.0, 7.0, 7.0])]);
        let (first, second, third) = (1.0 + 4.0 + 9.0 + 16.0, 25.0 + 36.0 + 49.0 + 64.0, 81.0);
        assert_eq!(numbers(&results[1]), [7.0, first + third, second, 7.0]);
    }

    #[test]
    fn there_is_always_a_sum_and_never_too_many() {
        for (count, expected) in [(0, 1), (1, 1), (256, 1), (257, 2), (1 << 20, 4096), (u64::MAX, 4096)] {
            assert_eq!(partials_for(count), expected, "{count}");
        }
    }
}
