//! The gradient of scale, causal mask and softmax in one.

use super::piece;
use super::scaled_masked_softmax::{BEGINS_AT_THE_FIRST_QUERY, describe, shapes, workgroups};
use super::split_reduction::{self, Sharing};
use crate::gpu::AdapterKind;
use crate::tape::MutantKind::{Accumulator, Formula, Index, Mask, Tile};
use crate::tape::rounding::{OPERATIONS, of_sum};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

pub use super::scaled_masked_softmax::Parameters;

/// The row of [`super::KERNELS`]. Operands: `y` (the weights of the forward kernel), `dy`, `dx`, all
/// `[rows, key_length]` and contiguous; parameters as forward. Of keys that a query does not see,
/// neither y nor dy is read, and dx is 0.
pub static KERNEL: Kernel = Kernel::of::<ScaledMaskedSoftmaxBackward>();

/// Mutants of `scaled_masked_softmax_backward.wgsl`, however many invocations share a result.
const BOTH_MUTANTS: &[Mutant] = &[
    Mutant::new(
        Index,
        "rows lie as far apart as there are queries",
        "let first = row * params.key_length;",
        "let first = row * params.query_length;",
    ),
    Mutant::new(Tile, "a row past the end is written", "row < params.rows", "row <= params.rows"),
    BEGINS_AT_THE_FIRST_QUERY,
    Mutant::new(
        Mask,
        "the mask is aligned top-left",
        "let end = query + 1u + params.key_length;",
        "let end = query + 1u + params.query_length;",
    ),
    Mutant::new(
        Mask,
        "gradients of masked keys are not cleared",
        "key < length; key += SPLITS",
        "key < seen; key += SPLITS",
    ),
    Mutant::new(Accumulator, "the sum keeps only the last key", "dot += y[first + key]", "dot = y[first + key]"),
    Mutant::new(
        Formula,
        "the gradient is not scaled",
        "gradient = params.scale * y[first + key]",
        "gradient = y[first + key]",
    ),
];

/// Up to a workgroup of invocations for each result; runs everything, everywhere.
const SHARED: Design<Parameters> = Design {
    name: "shared",
    file: "scaled_masked_softmax_backward.wgsl",
    text: include_str!("../../shaders/scaled_masked_softmax_backward.wgsl"),
    pieces: &[&piece::LINEAR_WORKGROUP, &piece::SPLIT_REDUCTION, &piece::SPLIT_SUM, &piece::VISIBLE_KEYS],
    preference: Preference::Any,
    subgroup_width: None,
    supports: |parameters| split_reduction::walks(Sharing::Shared, parameters.key_length, 1, 2),
    constants: |parameters| split_reduction::constants(Sharing::Shared, parameters.key_length, 1),
    generated: |_| String::new(),
    workgroups: |parameters| workgroups(Sharing::Shared, parameters),
    mutants: &[BOTH_MUTANTS, split_reduction::SUM_MUTANTS],
};

/// The same text with one invocation for each result.
const SERIAL: Design<Parameters> = Design {
    name: "serial",
    pieces: &[&piece::LINEAR_WORKGROUP, &piece::SERIAL_REDUCTION, &piece::VISIBLE_KEYS],
    preference: Preference::Only(AdapterKind::Software),
    supports: |parameters| split_reduction::walks(Sharing::Serial, parameters.key_length, 1, 2),
    constants: |parameters| split_reduction::constants(Sharing::Serial, parameters.key_length, 1),
    workgroups: |parameters| workgroups(Sharing::Serial, parameters),
    mutants: &[BOTH_MUTANTS],
    ..SHARED
};

pub struct ScaledMaskedSoftmaxBackward;

impl KernelDefinition for ScaledMaskedSoftmaxBackward {
    type Parameters = Parameters;
    const NAME: &'static str = "scaled_masked_softmax_backward";
    const WRITES: &'static [usize] = &[2];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            Design {
                name: "rows",
                file: "scaled_masked_softmax_backward_rows.wgsl",
                text: include_str!("../../shaders/scaled_masked_softmax_backward_rows.wgsl"),
                pieces: &[&piece::LINEAR_INDEX, &piece::VISIBLE_KEYS],
                preference: Preference::Only(AdapterKind::Software),
                subgroup_width: None,
                supports: Parameters::in_fours,
                constants: |_| Vec::new(),
                generated: |_| String::new(),
                workgroups: |parameters| [u64::from(parameters.rows).div_ceil(8), 1, 1],
                mutants: &[&[
                    Mutant::new(
                        Index,
                        "rows lie four times as far apart",
                        "let first = row * quads;",
                        "let first = row * params.key_length;",
                    ),
                    BEGINS_AT_THE_FIRST_QUERY,
                    Mutant::new(
                        Accumulator,
                        "each vec4 of products replaces those before",
                        "sums += select(zero,",
                        "sums = select(zero,",
                    ),
                    Mutant::new(
                        Tile,
                        "a row past the end is written",
                        "if row >= params.rows {",
                        "if row > params.rows {",
                    ),
                    Mutant::new(
                        Mask,
                        "masked keys in the vec4 on the edge count in the sum",
                        "select(zero, y[first + quad] * dy[first + quad], visible)",
                        "y[first + quad] * dy[first + quad]",
                    ),
                    Mutant::new(
                        Formula,
                        "a lane is missing from the sum",
                        "(sums.x + sums.y) + (sums.z + sums.w)",
                        "(sums.x + sums.y) + sums.z",
                    ),
                    Mutant::new(
                        Mask,
                        "gradients of masked keys are not cleared",
                        "for (var quad = seen_quads; quad < quads; quad++) {",
                        "for (var quad = seen_quads + 1u; quad < quads; quad++) {",
                    ),
                ]],
            },
            SERIAL,
            SHARED,
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (y, dy, mut dx) = (operands.real(0), operands.real(1), operands.real_mut(2));
        let (key_length, scale) = (parameters.key_length as usize, S::Wide::of(parameters.scale));
        for row in 0..parameters.rows as usize {
            let all = row * key_length..(row + 1) * key_length;
            let seen = parameters.seen(row);
            let pairs = y[all.clone()].iter().zip(&dy[all.clone()]).take(seen);
            let pairs = pairs.map(|(y, dy)| (y.wide(), dy.wide()));
            let dot: S::Wide = pairs.clone().map(|(y, dy)| y * dy).sum();
            let (visible, hidden) = dx[all].split_at_mut(seen);
            for (dx, (y, dy)) in visible.iter_mut().zip(pairs) {
                *dx = S::narrow(scale * y * (dy - dot));
            }
            hidden.fill(S::narrow(S::Wide::of(0.0)));
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let (y, dy) = (operands.real(0), operands.real(1));
        let key_length = parameters.key_length as usize;
        let of_sum = of_sum(parameters.key_length.into());
        for row in 0..parameters.rows as usize {
            let seen = row * key_length..row * key_length + parameters.seen(row);
            let pairs = y[seen.clone()].iter().zip(&dy[seen.clone()]).map(|(y, dy)| (y.wide().abs(), dy.wide().abs()));
            let dot: f64 = pairs.clone().map(|(y, dy)| y * dy).sum();
            for (bound, (y, dy)) in bounds[0][seen].iter_mut().zip(pairs) {
                *bound = parameters.scale.abs() * y * (OPERATIONS * dy + of_sum * dot);
            }
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let count = parameters.count();
        Cost { flops: 5 * count, bytes: 12 * count }
    }

    fn cases() -> Vec<Case> {
        let mut cases: Vec<Case> = shapes().into_iter().map(case).collect();
        for (query_length, key_length, causal) in [(12, 12, 1), (9, 33, 1), (7, 4, 1), (5, 68, 0)] {
            let parameters = Parameters::whole(2, query_length, key_length, causal, 0.5);
            cases.push(case_with_nan(case(parameters), key_length));
        }
        cases
    }
}

fn case(parameters: Parameters) -> Case {
    let (count, key_length) = (parameters.count() as usize, parameters.key_length as usize);
    let hidden = |index: usize| index % key_length >= parameters.seen(index / key_length);
    // Weights of about the size that a softmax gives. What a query does not see may hold anything.
    let scale = 1.0 / key_length as f32;
    let y = normal(11, 0, count, 1.0).into_iter().map(|value| value.abs() * scale).collect();
    let dy = normal(11, 1, count, 1.0).into_iter().enumerate();
    let dy = dy.map(|(index, value)| if hidden(index) { f32::NAN } else { value }).collect();
    Case::new(
        format!("{} seed=11", describe(&parameters)),
        parameters,
        vec![Operand::Input(y), Operand::Input(dy), Operand::Output(count)],
        Tolerance::new(1e-6, 2e-6),
    )
}

/// The case with every third query's weights NaN, also those of hidden keys, as the softmax makes them: the gradients of
/// scores that are masked stay 0.
fn case_with_nan(mut case: Case, key_length: u32) -> Case {
    if let Operand::Input(y) = &mut case.operands[0] {
        y.chunks_exact_mut(key_length as usize).step_by(3).for_each(|weights| weights.fill(f32::NAN));
    }
    case.name += " with NaN";
    case.with_nan()
}

#[cfg(test)]
mod tests {
    use super::super::scaled_masked_softmax::ScaledMaskedSoftmax;
    use super::*;
    use crate::kernel::finite_difference::{assert_gradient, run_twin};

    #[test]
    fn it_is_the_derivative_of_the_forward_twin() {
        for (batches, query_length, key_length, causal) in [(2, 3, 3, 1), (1, 4, 2, 1), (1, 2, 5, 1), (1, 2, 3, 0)] {
            let parameters = Parameters::whole(batches, query_length, key_length, causal, 0.4);
            let count = parameters.count();
            let x: Vec<f64> = (0..count).map(|index| (index * 11 % 7) as f64 * 0.5 - 1.0).collect();
            let dy: Vec<f64> = (0..count).map(|index| (index * 5 % 9) as f64 * 0.25 - 1.0).collect();
            let unwritten = vec![f64::NAN; x.len()];
            let forward =
                |x: &[f64]| run_twin::<ScaledMaskedSoftmax>(&parameters, &[x.to_vec(), unwritten.clone()]).remove(1);
            let operands = [forward(&x), dy.clone(), unwritten.clone()];
            let gradient = run_twin::<ScaledMaskedSoftmaxBackward>(&parameters, &operands).remove(2);
            assert_gradient(forward, &x, &dy, &gradient);
        }
    }
}
