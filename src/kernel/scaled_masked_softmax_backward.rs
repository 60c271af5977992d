//! The gradient of scale, causal mask and softmax in one.

use super::piece;
use super::scaled_masked_softmax::{describe, shapes, workgroups};
use super::split_reduction::{self, Sharing};
use crate::gpu::AdapterKind;
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

pub use super::scaled_masked_softmax::Parameters;

/// The row of [`super::KERNELS`]. Operands: `y` (the weights of the forward kernel), `dy`, `dx`, all
/// `[batches, query_length, key_length]` and contiguous; parameters as forward. Of keys that a query does not see,
/// neither y nor dy is read, and dx is 0.
pub static KERNEL: Kernel = Kernel::of::<ScaledMaskedSoftmaxBackward>();

/// Up to a workgroup of invocations for each result; runs everything, everywhere.
const SHARED: Design<Parameters> = Design {
    name: "shared",
    file: "scaled_masked_softmax_backward.wgsl",
    text: include_str!("../../shaders/scaled_masked_softmax_backward.wgsl"),
    pieces: &[&piece::LINEAR_WORKGROUP, &piece::SPLIT_REDUCTION, &piece::VISIBLE_KEYS],
    preference: Preference::Any,
    subgroup_width: None,
    supports: |parameters| split_reduction::walks(Sharing::Shared, parameters.key_length, 1, 2),
    constants: |parameters| split_reduction::constants(Sharing::Shared, parameters.key_length, 1),
    generated: |_| String::new(),
    workgroups: |parameters| workgroups(Sharing::Shared, parameters),
    mutants: &[
        Mutant {
            name: "the splits are not added up",
            original: "partial[local] += partial[local + half * COLUMNS];",
            replacement: "partial[local] += 0.0;",
        },
        Mutant {
            name: "the mask is aligned top-left",
            original: "let end = query + 1u + params.key_length;",
            replacement: "let end = query + 1u + params.query_length;",
        },
    ],
};

/// The same text with one invocation for each result.
const SERIAL: Design<Parameters> = Design {
    name: "serial",
    preference: Preference::Only(AdapterKind::Software),
    supports: |parameters| split_reduction::walks(Sharing::Serial, parameters.key_length, 1, 2),
    constants: |parameters| split_reduction::constants(Sharing::Serial, parameters.key_length, 1),
    workgroups: |parameters| workgroups(Sharing::Serial, parameters),
    mutants: &[
        Mutant {
            name: "a row past the end is written",
            original: "row < params.batches * params.query_length",
            replacement: "row <= params.batches * params.query_length",
        },
        Mutant {
            name: "the gradient is not scaled",
            original: "gradient = params.scale * y[first + key]",
            replacement: "gradient = y[first + key]",
        },
        Mutant {
            name: "gradients of masked keys are not cleared",
            original: "key < length; key += SPLITS",
            replacement: "key < seen; key += SPLITS",
        },
    ],
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
                workgroups: |parameters| [parameters.rows().div_ceil(8), 1, 1],
                mutants: &[
                    Mutant {
                        name: "a row past the end is written",
                        original: "if row >= params.batches * params.query_length {",
                        replacement: "if row > params.batches * params.query_length {",
                    },
                    Mutant {
                        name: "masked keys in the vec4 on the edge count in the sum",
                        original: "select(zero, y[first + quad] * dy[first + quad], visible)",
                        replacement: "y[first + quad] * dy[first + quad]",
                    },
                    Mutant {
                        name: "a lane is missing from the sum",
                        original: "(sums.x + sums.y) + (sums.z + sums.w)",
                        replacement: "(sums.x + sums.y) + sums.z",
                    },
                    Mutant {
                        name: "gradients of masked keys are not cleared",
                        original: "for (var quad = seen_quads; quad < quads; quad++) {",
                        replacement: "for (var quad = seen_quads + 1u; quad < quads; quad++) {",
                    },
                ],
            },
            SERIAL,
            SHARED,
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (y, dy, mut dx) = (operands.real(0), operands.real(1), operands.real_mut(2));
        let (key_length, scale) = (parameters.key_length as usize, S::Wide::of(parameters.scale));
        for row in 0..parameters.rows() as usize {
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

    fn cost(parameters: &Parameters) -> Cost {
        let count = parameters.count();
        Cost { flops: 5 * count, bytes: 12 * count }
    }

    fn cases() -> Vec<Case> {
        shapes().into_iter().map(case).collect()
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

#[cfg(test)]
mod tests {
    use super::super::scaled_masked_softmax::ScaledMaskedSoftmax;
    use super::*;
    use crate::kernel::finite_difference::{assert_gradient, run_twin};

    #[test]
    fn it_is_the_derivative_of_the_forward_twin() {
        for (batches, query_length, key_length, causal) in [(2, 3, 3, 1), (1, 4, 2, 1), (1, 2, 5, 1), (1, 2, 3, 0)] {
            let parameters = Parameters { batches, query_length, key_length, causal, scale: 0.4 };
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
