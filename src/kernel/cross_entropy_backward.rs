//! Gradient of the mean cross-entropy with respect to the logits: softmax less one-hot (Bishop 2006, eq. 4.109).

use super::cross_entropy::{IGNORED, logit_cases, softmax_statistics, whole_vec4_stride};
use super::cross_entropy_mean::COUNT;
use super::loop_limit;
use super::piece;
use crate::gpu::Piece;
use crate::tape::MutantKind::{Formula, Index, Tile};
use crate::tape::rounding::{OPERATIONS, UNIT, of_exp};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<CrossEntropyBackward>();

crate::kernel_parameters! {
    /// Operands: `logits [rows, row_stride]`, `targets [rows]`, `softmax_statistics [2, rows]` as [`super::cross_entropy`]
    /// writes them, `summary [2]` as [`super::cross_entropy_mean`] writes it, `upstream [1]` (the gradient of the mean),
    /// `logits_gradient [rows, row_stride]`, of which the first `vocabulary` columns are written.
    pub struct Parameters {
        rows: u32,
        vocabulary: u32,
        /// Elements from one row to the next, of the logits and of their gradient.
        row_stride: u32,
    }
}

pub struct CrossEntropyBackward;

const fn design(
    name: &'static str,
    pieces: &'static [&'static Piece],
    supports: fn(&Parameters) -> Result<(), String>,
    mutants: &'static [&'static [Mutant]],
) -> Design<Parameters> {
    Design {
        name,
        file: "cross_entropy_backward.wgsl",
        text: include_str!("../../shaders/cross_entropy_backward.wgsl"),
        pieces,
        preference: Preference::Any,
        subgroup_width: None,
        supports,
        constants: |_| Vec::new(),
        generated: |_| String::new(),
        workgroups: |parameters| [u64::from(parameters.rows).div_ceil(8), 1, 1],
        mutants,
    }
}

/// Four values an iteration.
fn bounded(parameters: &Parameters, lanes: u32) -> Result<(), String> {
    let iterations = u64::from(parameters.vocabulary.div_ceil(4 * lanes)) + 1;
    loop_limit::within(iterations)
}

const ONE_IS_LEFT: Mutant =
    Mutant::new(Formula, "the target's one is left out", "row.factor * (weight - expected)", "row.factor * weight");
const IGNORED_COUNTS: Mutant =
    Mutant::new(Formula, "an ignored row has a gradient", "targets[index] == IGNORED", "false");
const NOT_DIVIDED: Mutant = Mutant::new(Formula, "the weights are not divided by their sum", " * row.inverse_sum", "");
const NAN_DROPPED: Mutant = Mutant::new(Formula, "a NaN is dropped", "select(share, sum, is_nan(sum))", "share");
const LARGEST_FOR_SUM: Mutant =
    Mutant::new(Index, "the largest is taken for the sum", "[params.rows + index]", "[index]");
const SUM_NOT_MEAN: Mutant =
    Mutant::new(Formula, "the gradient is that of the sum", "upstream[0] / max(summary[1], 1.0)", "upstream[0]");
const NOTHING_BY_NOTHING: Mutant =
    Mutant::new(Index, "the count is taken for the mean", "max(summary[1], 1.0)", "max(summary[0], 1.0)");
const TARGET_OFF: Mutant = Mutant::new(
    Index,
    "the target is one column off",
    "== Columns(row.target_column)",
    "== Columns(row.target_column ^ 1u)",
);
const LAST_DROPPED: Mutant =
    Mutant::new(Tile, "the last value of a row is dropped", "if column >= row.end {", "if column + 1u >= row.end {");
const GAP_WRITTEN: Mutant = Mutant::new(
    Tile,
    "the gap behind a row is written",
    "if (column + 1u) * LANES > params.vocabulary {",
    "if false {",
);

impl KernelDefinition for CrossEntropyBackward {
    type Parameters = Parameters;
    const NAME: &'static str = "cross_entropy_backward";
    const WRITES: &'static [usize] = &[5];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            design(
                "vec4",
                &[&piece::LINEAR_INDEX, &piece::NAN, &piece::VEC4_VALUES],
                |parameters| {
                    whole_vec4_stride(parameters.row_stride)?;
                    bounded(parameters, 4)
                },
                &[&[
                    ONE_IS_LEFT,
                    IGNORED_COUNTS,
                    NOT_DIVIDED,
                    NAN_DROPPED,
                    LARGEST_FOR_SUM,
                    SUM_NOT_MEAN,
                    NOTHING_BY_NOTHING,
                    TARGET_OFF,
                    LAST_DROPPED,
                    GAP_WRITTEN,
                ]],
            ),
            design(
                "scalar",
                &[&piece::LINEAR_INDEX, &piece::NAN, &piece::SCALAR_VALUES],
                |parameters| bounded(parameters, 1),
                // A single element never reaches into the gap.
                &[&[
                    ONE_IS_LEFT,
                    IGNORED_COUNTS,
                    NOT_DIVIDED,
                    NAN_DROPPED,
                    LARGEST_FOR_SUM,
                    SUM_NOT_MEAN,
                    NOTHING_BY_NOTHING,
                    TARGET_OFF,
                    LAST_DROPPED,
                ]],
            ),
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (logits, targets, statistics) = (operands.real(0), operands.words(1), operands.real(2));
        let (summary, upstream, mut logits_gradient) = (operands.real(3), operands.real(4), operands.real_mut(5));
        let (stride, vocabulary) = (parameters.row_stride as usize, parameters.vocabulary as usize);
        let rows = parameters.rows as usize;
        let factor = upstream[0].wide() / summary[COUNT].wide();
        for row in 0..rows {
            let gradient = &mut logits_gradient[row * stride..][..vocabulary];
            if targets[row] == IGNORED {
                gradient.fill(S::narrow(S::Wide::of(0.0)));
                continue;
            }
            let target = targets[row].min(parameters.vocabulary - 1) as usize;
            let (maximum, sum) = (statistics[row].wide(), statistics[rows + row].wide());
            for (column, (gradient, logit)) in gradient.iter_mut().zip(&logits[row * stride..]).enumerate() {
                let expected = S::Wide::of(if column == target { 1.0 } else { 0.0 });
                *gradient = S::narrow(factor * ((logit.wide() - maximum).exp() / sum - expected));
            }
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let (logits, targets, statistics) = (operands.real(0), operands.words(1), operands.real(2));
        let (stride, vocabulary) = (parameters.row_stride as usize, parameters.vocabulary as usize);
        let factor = (operands.real(4)[0].wide() / operands.real(3)[COUNT].wide()).abs();
        let rows = parameters.rows as usize;
        for row in (0..rows).filter(|&row| targets[row] != IGNORED) {
            let target = targets[row].min(parameters.vocabulary - 1) as usize;
            let (maximum, sum) = (statistics[row].wide(), statistics[rows + row].wide());
            let bounds = &mut bounds[0][row * stride..][..vocabulary];
            for (column, (bound, logit)) in bounds.iter_mut().zip(&logits[row * stride..]).enumerate() {
                let shifted = logit.wide() - maximum;
                let weight = shifted.exp() / sum;
                let of_weight =
                    if weight > 0.0 { weight * (of_exp(shifted) + UNIT * shifted.abs() + OPERATIONS) } else { 0.0 };
                let one_hot = if column == target { 1.0 } else { 0.0 };
                *bound = factor * (of_weight + OPERATIONS * (weight - one_hot).abs());
            }
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let (rows, vocabulary) = (u64::from(parameters.rows), u64::from(parameters.vocabulary));
        Cost { flops: 4 * rows * vocabulary, bytes: 4 * (2 * rows * vocabulary + 3 * rows + 3) }
    }

    fn cases() -> Vec<Case> {
        let mut cases: Vec<Case> = logit_cases(10)
            .into_iter()
            .map(|case| {
                let parameters = Parameters {
                    rows: case.parameters.rows,
                    vocabulary: case.parameters.vocabulary,
                    row_stride: case.parameters.row_stride,
                };
                let counted = case.targets.iter().filter(|&&target| target != IGNORED).count() as f32;
                let upstream = 0.75;
                // WGSL grants exp(x) an error of 3 + 2|x| units in the last place, which is largest near 0.
                let tolerance = Tolerance::new(5e-7 * f64::from(upstream / counted), 1e-6);
                let has_nan = case.has_nan;
                let summary = [2.0, counted];
                let case = operands_of(case.name, parameters, case.logits, case.targets, summary, upstream, tolerance);
                Case { has_nan, ..case }
            })
            .collect();
        let parameters = Parameters { rows: 3, vocabulary: 5, row_stride: 8 };
        let logits = crate::tape::normal(10, 3, 24, 1.0);
        let (name, targets) = ("every target ignored".to_string(), vec![IGNORED; 3]);
        cases.push(operands_of(name, parameters, logits, targets, [0.0, 0.0], 1.0, Tolerance::EXACT));
        cases
    }
}

fn operands_of(
    name: String,
    parameters: Parameters,
    logits: Vec<f32>,
    targets: Vec<u32>,
    summary: [f32; 2],
    upstream: f32,
    tolerance: Tolerance,
) -> Case {
    let rows = logits.chunks_exact(parameters.row_stride as usize);
    let of_row =
        |row: &[f32]| softmax_statistics(row[..parameters.vocabulary as usize].iter().map(|&logit| f64::from(logit)));
    let (largest, sums): (Vec<f32>, Vec<f32>) =
        rows.map(of_row).map(|(largest, sum)| (largest as f32, sum as f32)).unzip();
    let gradient = Operand::Output(logits.len());
    let operands = vec![
        Operand::Input(logits),
        Operand::InputWords(targets),
        Operand::Input([largest, sums].concat()),
        Operand::Input(summary.to_vec()),
        Operand::Input(vec![upstream]),
        gradient,
    ];
    Case::new(name, parameters, operands, tolerance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::cross_entropy::{self, CrossEntropy};
    use crate::kernel::cross_entropy_mean::{self, CrossEntropyMean, MEAN};
    use crate::kernel::finite_difference::{assert_is_gradient, numbers, run};
    use crate::tape::{HostBuffer, normal};

    fn forward(logits: &[f64], targets: &[u32], vocabulary: u32) -> (Vec<f64>, Vec<f64>) {
        let rows = targets.len();
        let (zeros, words) = (|count| HostBuffer::Real(vec![0.0; count]), HostBuffer::Words(targets.to_vec()));
        let parameters = cross_entropy::Parameters { rows: rows as u32, vocabulary, row_stride: vocabulary };
        let operands = vec![HostBuffer::Real(logits.to_vec()), words.clone(), zeros(rows), zeros(2 * rows)];
        let losses = run::<CrossEntropy>(&parameters, operands);
        let parameters = cross_entropy_mean::Parameters { rows: rows as u32 };
        let summary = run::<CrossEntropyMean>(&parameters, vec![losses[2].clone(), words, zeros(2)]);
        (numbers(&losses[3]).to_vec(), numbers(&summary[2]).to_vec())
    }

    fn backward(logits: &[f64], targets: &[u32], vocabulary: u32, upstream: f64) -> Vec<f64> {
        backward_of_stored(logits, targets, vocabulary, upstream, |statistic| statistic)
    }

    /// As [`backward`], with the statistics as they are `stored` between the passes.
    fn backward_of_stored(
        logits: &[f64],
        targets: &[u32],
        vocabulary: u32,
        upstream: f64,
        stored: impl Fn(f64) -> f64,
    ) -> Vec<f64> {
        let (statistics, summary) = forward(logits, targets, vocabulary);
        let parameters = Parameters { rows: targets.len() as u32, vocabulary, row_stride: vocabulary };
        let operands = vec![
            HostBuffer::Real(logits.to_vec()),
            HostBuffer::Words(targets.to_vec()),
            HostBuffer::Real(statistics.into_iter().map(stored).collect()),
            HostBuffer::Real(summary),
            HostBuffer::Real(vec![upstream]),
            HostBuffer::Real(vec![9.0; logits.len()]),
        ];
        numbers(&run::<CrossEntropyBackward>(&parameters, operands)[5]).to_vec()
    }

    #[test]
    fn the_gradient_is_that_of_the_mean_over_the_targets_that_count() {
        let logits: Vec<f64> = normal(11, 0, 20, 1.0).into_iter().map(f64::from).collect();
        for targets in [[4, 0, 2, 1], [4, IGNORED, 2, IGNORED]] {
            let gradient = backward(&logits, &targets, 5, 0.5);
            assert_is_gradient("logits_gradient", &gradient, &logits, |logits| {
                0.5 * forward(logits, &targets, 5).1[MEAN]
            });
        }
    }

    #[test]
    fn what_is_stored_in_f32_between_the_passes_is_enough_for_logits_of_many_thousands() {
        for shift in [0.0, 2e4, -3e4, 3e7] {
            let logits: Vec<f64> =
                normal(12, 0, 20, 3.0).into_iter().map(|logit| f64::from((f64::from(logit) + shift) as f32)).collect();
            let targets = [4, 0, 2, 1];
            let exact = backward(&logits, &targets, 5, 1.0);
            let rounded = backward_of_stored(&logits, &targets, 5, 1.0, |statistic| f64::from(statistic as f32));
            for (rounded, exact) in rounded.iter().zip(exact) {
                assert!((rounded - exact).abs() < 2e-8, "{rounded} against {exact} at {shift}");
            }
        }
    }

    #[test]
    fn a_row_that_only_sees_its_target_has_no_loss_and_no_gradient() {
        let mut logits = vec![f64::NEG_INFINITY; 97];
        logits[70] = 10.0;
        assert_eq!(forward(&logits, &[70], 97).1, [0.0, 1.0]);
        assert_eq!(backward(&logits, &[70], 97, 1.0), vec![0.0; 97]);
    }
}
