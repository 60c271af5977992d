//! Mean loss over the targets that count, and how many do.

use super::cross_entropy::IGNORED;
use super::loop_limit;
use crate::tape::MutantKind::{Accumulator, Barrier, Formula, Index, Tile};
use crate::tape::rounding::bound_sums;
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
    words,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<CrossEntropyMean>();

/// Where the mean lies in the summary.
pub const MEAN: usize = 0;
/// Where the number of targets that count lies in the summary.
pub const COUNT: usize = 1;

crate::kernel_parameters! {
    /// Operands: `row_loss [rows]`, `targets [rows]`, `summary [2]` (the [`MEAN`] in nats, 0 where nothing counts, and
    /// the [`COUNT`]).
    pub struct Parameters {
        rows: u32,
    }
}

pub struct CrossEntropyMean;

impl KernelDefinition for CrossEntropyMean {
    type Parameters = Parameters;
    const NAME: &'static str = "cross_entropy_mean";
    const WRITES: &'static [usize] = &[2];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[Design {
            name: "one_workgroup",
            file: "cross_entropy_mean.wgsl",
            text: include_str!("../../shaders/cross_entropy_mean.wgsl"),
            pieces: &[],
            preference: Preference::Any,
            subgroup_width: None,
            supports: |parameters| loop_limit::within(u64::from(parameters.rows.div_ceil(256)) + 35),
            constants: |_| Vec::new(),
            generated: |_| String::new(),
            workgroups: |_| [1, 1, 1],
            mutants: &[&[
                Mutant::new(
                    Index,
                    "losses are read from the first rows over and over",
                    "row_loss[row], counted)",
                    "row_loss[local], counted)",
                ),
                Mutant::new(
                    Accumulator,
                    "each round of rows replaces those before",
                    "sum += select(0.0, row_loss[row], counted);",
                    "sum = select(0.0, row_loss[row], counted);",
                ),
                Mutant::new(
                    Barrier,
                    "the last invocation does not wait for the groups",
                    "workgroupBarrier(); // the sums of the groups are there",
                    "",
                ),
                Mutant::new(Formula, "ignored rows count", "count += select(0u, 1u, counted);", "count += 1u;"),
                Mutant::new(
                    Tile,
                    "one sum in sixteen is dropped",
                    "var other = local + GROUP; other < WIDTH;",
                    "var other = local + GROUP; other < WIDTH - GROUP;",
                ),
                Mutant::new(
                    Tile,
                    "the last sum is dropped",
                    "other = 1u; other < GROUP;",
                    "other = 1u; other < GROUP - 1u;",
                ),
                Mutant::new(Formula, "nothing is divided by nothing", "f32(max(count, 1u))", "f32(count)"),
                Mutant::new(
                    Barrier,
                    "the groups do not wait for all sums",
                    "workgroupBarrier(); // all sums are there",
                    "",
                ),
            ]],
        }];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (row_loss, targets, mut summary) = (operands.real(0), operands.words(1), operands.real_mut(2));
        let (mut sum, mut count) = (S::Wide::of(0.0), 0u32);
        for (loss, &target) in row_loss.iter().zip(targets.iter()).take(parameters.rows as usize) {
            if target != IGNORED {
                sum += loss.wide();
                count += 1;
            }
        }
        let rows = S::Wide::of(f64::from(count));
        summary[MEAN] = S::narrow(if count == 0 { S::Wide::of(0.0) } else { sum / rows });
        summary[COUNT] = S::narrow(rows);
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        bound_sums::<Self>(parameters, operands, u64::from(parameters.rows), bounds);
        bounds[0][COUNT] = 0.0;
    }

    fn cost(parameters: &Parameters) -> Cost {
        let rows = u64::from(parameters.rows);
        Cost { flops: rows, bytes: 8 * rows + 8 }
    }

    fn cases() -> Vec<Case> {
        let shapes = [(1, 0), (1, 1), (5, 3), (15, 1), (17, 2), (255, 0), (256, 7), (257, 3), (768, 0), (30_011, 5)];
        shapes
            .into_iter()
            .map(|(rows, ignored_every)| {
                let mut targets = words(9, 1, rows, 65);
                if ignored_every > 0 {
                    targets.iter_mut().step_by(ignored_every).for_each(|target| *target = IGNORED);
                }
                let losses = normal(9, 0, rows, 1.0).into_iter().map(|loss| loss + 4.0).collect();
                Case::new(
                    format!("rows={rows} ignored every {ignored_every} seed=9"),
                    Parameters { rows: rows as u32 },
                    vec![Operand::Input(losses), Operand::InputWords(targets), Operand::Output(2)],
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
    fn the_mean_is_over_the_targets_that_count() {
        for (losses, targets, expected) in [
            ([1.0, 3.0, 8.0], [0, 5, 2], [4.0, 3.0]),
            ([1.0, 3.0, 8.0], [0, IGNORED, 2], [4.5, 2.0]),
            ([1.0, 3.0, 8.0], [IGNORED; 3], [0.0, 0.0]),
        ] {
            let operands = vec![
                HostBuffer::Real(losses.to_vec()),
                HostBuffer::Words(targets.to_vec()),
                HostBuffer::Real(vec![9.0; 2]),
            ];
            let results = run::<CrossEntropyMean>(&Parameters { rows: 3 }, operands);
            assert_eq!(numbers(&results[2]), expected, "{targets:?}");
        }
    }
}
