//! Softmax along one axis of `[outer, length, inner]`.

use super::loop_limit;
use super::piece;
use super::split_reduction::{self, Sharing};
use crate::gpu::AdapterKind;
use crate::tape::MutantKind::{Accumulator, Formula, Index, Mask, Rescale, Tile};
use crate::tape::rounding::{UNIT, of_exp, of_sum};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<Softmax>();

/// What masked scores are written as: -2^127.
pub const MASKED: f64 = -1.701_411_834_604_692_3e38;
/// Scores at or below this, -2^126, take no part in a softmax.
pub const INVISIBLE: f64 = MASKED / 2.0;

crate::kernel_parameters! {
    /// Operands: `x`, `y`, both `[outer, length, inner]` and contiguous. Scores at or below [`INVISIBLE`] get weight 0;
    /// where nothing is visible, all weights are 0. A score that is NaN or +inf makes all weights NaN.
    pub struct Parameters {
        outer: u32,
        length: u32,
        inner: u32,
    }
}

impl Parameters {
    fn results(&self) -> u64 {
        u64::from(self.outer) * u64::from(self.inner)
    }

    fn count(&self) -> u64 {
        self.results() * u64::from(self.length)
    }
}

/// A mutant for the designs that ask [`piece::VISIBLE`] of one score at a time.
pub(super) const NAN_IS_NOT_SEEN: Mutant = Mutant::new(
    Mask,
    "a score that is NaN is not seen",
    "bitcast<u32>(score) - INVISIBLE > INVISIBLE_RANGE",
    "score > bitcast<f32>(INVISIBLE)",
);
/// The same for those that ask it of four.
pub(super) const NANS_ARE_NOT_SEEN: Mutant = Mutant::new(
    Mask,
    "scores that are NaN are not seen",
    "bitcast<vec4<u32>>(scores) - vec4<u32>(INVISIBLE) > vec4<u32>(INVISIBLE_RANGE)",
    "scores > vec4<f32>(bitcast<f32>(INVISIBLE))",
);
/// A mutant of the softmaxes that write their weights.
pub(super) const NAN_TOTAL_IS_NOTHING: Mutant = Mutant::new(
    Formula,
    "a sum that is NaN counts as nothing",
    "select(1.0 / total, 0.0, total == 0.0)",
    "select(0.0, 1.0 / total, total > 0.0)",
);
/// Another, of the weights that it writes where a score is not seen.
pub(super) const UNSEEN_STAYS_ZERO: Mutant =
    Mutant::new(Formula, "what is not seen has the weight 0 beside a NaN", "select(0.0, total, is_nan(total))", "0.0");

/// Mutants of `softmax.wgsl`, however many invocations share a result.
const BOTH_MUTANTS: &[Mutant] = &[
    Mutant::new(
        Index,
        "the outer dimension is walked without its length",
        "outer * params.length * params.inner + (column",
        "outer * params.inner + (column",
    ),
    Mutant::new(Accumulator, "each weight replaces those before", "total += select(0.0,", "total = select(0.0,"),
    Mutant::new(
        Tile,
        "a column past the end is written",
        "select(0u, params.length, column < params.outer * params.inner)",
        "select(0u, params.length, column <= params.outer * params.inner)",
    ),
    Mutant::new(
        Formula,
        "the maximum is not subtracted",
        "total += select(0.0, exp(score - greatest)",
        "total += select(0.0, exp(score)",
    ),
    Mutant::new(
        Mask,
        "masked scores are seen",
        "const INVISIBLE: u32 = 0xfe800000u;",
        "const INVISIBLE: u32 = 0xff000001u;",
    ),
    Mutant::new(
        Mask,
        "scores near -1e30 are taken for masked ones",
        "0xfe800000u; // the bits of -2^126\nconst INVISIBLE_RANGE: u32 = 0x01000000u;",
        "0xf1000000u;\nconst INVISIBLE_RANGE: u32 = 0x0e800000u;",
    ),
    NAN_IS_NOT_SEEN,
    NAN_TOTAL_IS_NOTHING,
    UNSEEN_STAYS_ZERO,
];

/// Up to a workgroup of invocations for each result; runs everything, everywhere.
const SHARED: Design<Parameters> = Design {
    name: "shared",
    file: "softmax.wgsl",
    text: include_str!("../../shaders/softmax.wgsl"),
    pieces: &[
        &piece::LINEAR_WORKGROUP,
        &piece::SPLIT_REDUCTION,
        &piece::SPLIT_SUM,
        &piece::SPLIT_MAXIMUM,
        &piece::VISIBLE,
        &piece::NAN,
    ],
    preference: Preference::Any,
    subgroup_width: None,
    supports: |p| split_reduction::walks(Sharing::Shared, p.length, p.inner, 3),
    constants: |p| split_reduction::constants(Sharing::Shared, p.length, p.inner),
    generated: |_| String::new(),
    workgroups: |p| split_reduction::workgroups(Sharing::Shared, p.results(), p.length, p.inner),
    mutants: &[
        BOTH_MUTANTS,
        split_reduction::SUM_MUTANTS,
        split_reduction::MAXIMUM_MUTANTS,
        &[Mutant::new(
            Formula,
            "each split has a maximum of its own",
            "greatest = maximum_of_splits(greatest, local);",
            "greatest = max(greatest, select(MASKED, maximum_of_splits(greatest, local), split == 0u));",
        )],
    ],
};

/// The same text with one invocation for each result.
const SERIAL: Design<Parameters> = Design {
    name: "serial",
    pieces: &[&piece::LINEAR_WORKGROUP, &piece::SERIAL_REDUCTION, &piece::VISIBLE, &piece::NAN],
    preference: Preference::Only(AdapterKind::Software),
    supports: |p| split_reduction::walks(Sharing::Serial, p.length, p.inner, 3),
    constants: |p| split_reduction::constants(Sharing::Serial, p.length, p.inner),
    workgroups: |p| split_reduction::workgroups(Sharing::Serial, p.results(), p.length, p.inner),
    mutants: &[BOTH_MUTANTS],
    ..SHARED
};

/// Bounds on the errors of a row's weights, `exp(s - max s) / sum`, where `of_score` bounds the error of a score itself.
pub(super) fn weight_bounds(scores: &[f64], of_score: impl Fn(f64) -> f64) -> Vec<f64> {
    let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // A weight, and its error relative to it.
    let weights: Vec<(f64, f64)> = scores
        .iter()
        .map(|&score| {
            let shifted = score - greatest;
            let weight = if score <= INVISIBLE { 0.0 } else { shifted.exp() };
            let error = of_score(score) + UNIT * shifted.abs() + of_exp(shifted);
            if weight > 0.0 { (weight, error) } else { (0.0, 0.0) }
        })
        .collect();
    let total: f64 = weights.iter().map(|(weight, _)| weight).sum();
    if total == 0.0 {
        return vec![0.0; scores.len()];
    }
    let of_total = weights.iter().map(|(weight, error)| weight * error).sum::<f64>() / total;
    let common = of_total + of_sum(scores.len() as u64);
    weights.into_iter().map(|(weight, error)| weight / total * (error + common)).collect()
}

/// Whether a row's greatest score, computed exactly, is +inf as the designs store it: then inf - inf makes the row NaN.
pub(super) fn overflows<S: Real>(greatest: S::Wide) -> bool {
    S::narrow(greatest).wide() == -S::Wide::NEG_INFINITY
}

pub struct Softmax;

impl KernelDefinition for Softmax {
    type Parameters = Parameters;
    const NAME: &'static str = "softmax";
    const WRITES: &'static [usize] = &[1];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            Design {
                name: "columns",
                file: "softmax_columns.wgsl",
                text: include_str!("../../shaders/softmax_columns.wgsl"),
                pieces: &[&piece::LINEAR_INDEX, &piece::VISIBLE, &piece::NAN],
                preference: Preference::Only(AdapterKind::Software),
                subgroup_width: None,
                supports: |parameters| columns_in_fours(parameters.length, parameters.inner),
                constants: |_| Vec::new(),
                generated: |_| String::new(),
                workgroups: |parameters| columns_of_four(parameters.outer, parameters.inner),
                mutants: &[&[
                    Mutant::new(
                        Index,
                        "the outer dimension is walked without its length",
                        "outer * params.length * inner + (columns",
                        "outer * inner + (columns",
                    ),
                    Mutant::new(
                        Accumulator,
                        "each weight replaces those before",
                        "total = total * exp(greatest - raised) + select",
                        "total = select",
                    ),
                    Mutant::new(
                        Tile,
                        "columns past the end are written",
                        "if columns >= params.outer * inner {",
                        "if columns > params.outer * inner {",
                    ),
                    Mutant::new(
                        Rescale,
                        "the sum is not rescaled when the maximum grows",
                        "total = total * exp(greatest - raised)",
                        "total = total",
                    ),
                    Mutant::new(
                        Mask,
                        "masked scores are seen",
                        "const INVISIBLE: u32 = 0xfe800000u;",
                        "const INVISIBLE: u32 = 0xff000001u;",
                    ),
                    NANS_ARE_NOT_SEEN,
                    Mutant::new(
                        Formula,
                        "a sum that is NaN counts as nothing",
                        "select(1.0 / total, zero, total == zero)",
                        "select(zero, 1.0 / total, total > zero)",
                    ),
                    Mutant::new(
                        Formula,
                        "what is not seen has the weight 0 beside a NaN",
                        "select(zero, total, are_nan(total))",
                        "zero",
                    ),
                ]],
            },
            Design {
                name: "rows",
                file: "softmax_rows.wgsl",
                text: include_str!("../../shaders/softmax_rows.wgsl"),
                pieces: &[&piece::LINEAR_INDEX, &piece::VISIBLE, &piece::NAN],
                preference: Preference::Only(AdapterKind::Software),
                subgroup_width: None,
                supports: |parameters| rows_in_fours(parameters.length, parameters.inner),
                constants: |_| Vec::new(),
                generated: |_| String::new(),
                workgroups: |parameters| [u64::from(parameters.outer).div_ceil(8), 1, 1],
                mutants: &[&[
                    Mutant::new(
                        Index,
                        "rows lie four times as far apart",
                        "let first = row * quads;",
                        "let first = row * params.length;",
                    ),
                    Mutant::new(
                        Accumulator,
                        "each vec4 of weights replaces those before",
                        "sums = sums * exp(maxima - raised) + select",
                        "sums = select",
                    ),
                    Mutant::new(
                        Mask,
                        "masked scores are seen",
                        "const INVISIBLE: u32 = 0xfe800000u;",
                        "const INVISIBLE: u32 = 0xff000001u;",
                    ),
                    NANS_ARE_NOT_SEEN,
                    NAN_TOTAL_IS_NOTHING,
                    UNSEEN_STAYS_ZERO,
                    Mutant::new(
                        Tile,
                        "rows past the end are written",
                        "if row >= params.outer {",
                        "if row > params.outer {",
                    ),
                    Mutant::new(
                        Rescale,
                        "the sum is not rescaled when the maximum grows",
                        "sums = sums * exp(maxima - raised)",
                        "sums = sums",
                    ),
                    Mutant::new(
                        Rescale,
                        "the lanes are added without a common maximum",
                        "sums *= exp(maxima - greatest);",
                        "sums *= 1.0;",
                    ),
                ]],
            },
            SERIAL,
            SHARED,
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (x, mut y) = (operands.real(0), operands.real_mut(1));
        let (length, inner) = (parameters.length as usize, parameters.inner as usize);
        let (zero, invisible) = (S::Wide::of(0.0), S::Wide::of(INVISIBLE));
        let mut weights = vec![zero; length * inner];
        let (mut greatest, mut total) = (vec![zero; inner], vec![zero; inner]);
        for outer in 0..parameters.outer as usize {
            let all = outer * length * inner..(outer + 1) * length * inner;
            greatest.fill(S::Wide::NEG_INFINITY);
            for scores in x[all.clone()].chunks_exact(inner) {
                for (greatest, score) in greatest.iter_mut().zip(scores) {
                    *greatest = greatest.max(score.wide());
                }
            }
            total.fill(zero);
            for (scores, weights) in x[all.clone()].chunks_exact(inner).zip(weights.chunks_exact_mut(inner)) {
                for column in 0..inner {
                    let score = scores[column].wide();
                    weights[column] = if score <= invisible { zero } else { (score - greatest[column]).exp() };
                    total[column] += weights[column];
                }
            }
            for (y, weights) in y[all].chunks_exact_mut(inner).zip(weights.chunks_exact(inner)) {
                for column in 0..inner {
                    // Where nothing is visible, weight and total are both 0. A total that is NaN makes all NaN.
                    y[column] = S::narrow(if total[column] == zero { zero } else { weights[column] / total[column] });
                }
            }
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let x = operands.real(0);
        let (length, inner) = (parameters.length as usize, parameters.inner as usize);
        for result in 0..parameters.results() as usize {
            let first = result / inner * length * inner + result % inner;
            let scores: Vec<f64> = (0..length).map(|index| x[first + index * inner].wide()).collect();
            for (index, bound) in weight_bounds(&scores, |_| 0.0).into_iter().enumerate() {
                bounds[0][first + index * inner] = bound;
            }
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let count = parameters.count();
        Cost { flops: 5 * count, bytes: 8 * count }
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for (outer, length, inner) in shapes() {
            for scores in [Scores::Shifted, Scores::Masked] {
                cases.push(case(outer, length, inner, scores));
            }
        }
        for scores in [Scores::NearMinus30000, Scores::NearMinus1e30, Scores::Wide] {
            for (outer, length, inner) in [(9, 12, 1), (5, 33, 1), (2, 5, 8), (2, 70, 3)] {
                cases.push(case(outer, length, inner, scores));
            }
        }
        for (outer, length, inner) in [(18, 12, 1), (18, 33, 1), (19, 5, 8), (18, 70, 3), (2, 1, 1)] {
            cases.push(case(outer, length, inner, Scores::WithNan).with_nan());
        }
        cases
    }
}

/// Whether `[outer, length, 1]` is made of whole vec4, and can be walked twice.
pub(super) fn rows_in_fours(length: u32, inner: u32) -> Result<(), String> {
    loop_limit::within(2 * u64::from(length / 4))?;
    match inner == 1 && length.is_multiple_of(4) {
        true => Ok(()),
        false => Err(format!("needs rows in fours, there are {length} elements {inner} apart")),
    }
}

/// Whether the innermost axis is made of whole vec4, and the middle one can be walked twice.
pub(super) fn columns_in_fours(length: u32, inner: u32) -> Result<(), String> {
    loop_limit::within(2 * u64::from(length))?;
    match inner.is_multiple_of(4) {
        true => Ok(()),
        false => Err(format!("needs columns in fours, there are {inner}")),
    }
}

/// Workgroups of eight invocations, each with four columns.
pub(super) fn columns_of_four(outer: u32, inner: u32) -> [u64; 3] {
    [(u64::from(outer) * u64::from(inner / 4)).div_ceil(8), 1, 1]
}

/// Shapes `(outer, length, inner)` that softmax and its gradient are held to.
pub(super) fn shapes() -> Vec<(u32, u32, u32)> {
    vec![
        (1, 1, 1),
        (3, 4, 1),
        (130, 5, 1),
        (5, 63, 1),
        (17, 64, 1),
        (3, 65, 1),
        (2, 260, 1),
        (2, 1, 3),
        (2, 7, 5),
        (3, 9, 4),
        (1, 5, 67),
        (1, 66, 17),
        (2, 64, 64),
    ]
}

/// Kinds of scores.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scores {
    /// Normal, shifted by +100: without the maximum subtracted, f32 overflows.
    Shifted,
    /// A third masked; in the first rows, everything.
    Masked,
    /// Far below zero, yet valid.
    NearMinus30000,
    NearMinus1e30,
    /// Spread over +-1e4.
    Wide,
    /// A row each with a NaN of either sign first, last, between, beside masked scores, among them, everywhere, with +inf,
    /// with -inf, which is masked, and with none of them.
    WithNan,
}

/// How the first `length` of a row's scores are spoilt for [`Scores::WithNan`], by the number of the row.
fn spoil(row: usize, scores: &mut [f32]) {
    let sign = if row.is_multiple_of(2) { f32::NAN } else { -f32::NAN };
    let (middle, last) = (scores.len() / 2, scores.len() - 1);
    match row % 9 {
        0 => scores[0] = sign,
        1 => scores[last] = sign,
        2 => scores[middle] = sign,
        3 => {
            scores.iter_mut().step_by(2).for_each(|score| *score = MASKED as f32);
            scores[last] = sign;
        }
        4 => {
            scores.fill(f32::NEG_INFINITY);
            scores[middle] = sign;
        }
        5 => scores.fill(sign),
        6 => scores[middle] = f32::INFINITY,
        7 => scores[middle] = f32::NEG_INFINITY,
        _ => {}
    }
}

impl Scores {
    /// Values for `rows` rows of `length`; "row" is the outermost index.
    pub(super) fn values(self, rows: usize, length: usize) -> Vec<f32> {
        let masked = MASKED as f32;
        let random = normal(9, 0, rows * length, 2.0);
        let mut values: Vec<f32> = random
            .iter()
            .enumerate()
            .map(|(index, &value)| match self {
                Self::Shifted => value + 100.0,
                Self::Masked => {
                    if (index * 7 + index / 5) % 3 == 0 {
                        masked
                    } else {
                        value
                    }
                }
                Self::NearMinus30000 => value - 3e4,
                Self::NearMinus1e30 => -1e30 * (1.0 + f32::from(index % 3 == 0)),
                Self::Wide => value * 2500.0,
                Self::WithNan => value,
            })
            .collect();
        if matches!(self, Self::WithNan) {
            values.chunks_exact_mut(length).enumerate().for_each(|(row, scores)| spoil(row, scores));
        }
        if matches!(self, Self::Masked) {
            values[..length * rows.div_ceil(3)].fill(masked);
        }
        values
    }
}

fn case(outer: u32, length: u32, inner: u32, scores: Scores) -> Case {
    let parameters = Parameters { outer, length, inner };
    let count = parameters.count() as usize;
    let x = scores.values(outer as usize, (length * inner) as usize);
    Case::new(
        format!("outer={outer} length={length} inner={inner} scores={scores:?} seed=9"),
        parameters,
        vec![Operand::Input(x), Operand::Output(count)],
        Tolerance::new(3e-7, 3e-6),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::finite_difference::run_twin;

    fn softmax(outer: u32, length: u32, inner: u32, x: &[f64]) -> Vec<f64> {
        let parameters = Parameters { outer, length, inner };
        run_twin::<Softmax>(&parameters, &[x.to_vec(), vec![f64::NAN; x.len()]]).remove(1)
    }

    #[test]
    fn weights_are_those_worked_out_by_hand() {
        let ln = f64::ln;
        for (x, expected) in [
            (vec![0.0, 0.0, 0.0, 0.0], vec![0.25; 4]),
            (vec![ln(1.0), ln(2.0), ln(5.0)], vec![0.125, 0.25, 0.625]),
            (vec![100.0 + ln(1.0), 100.0 + ln(3.0)], vec![0.25, 0.75]),
            (vec![-3e4, -3e4 - 1000.0], vec![1.0, 0.0]),
            (vec![-1e30, -1e30], vec![0.5, 0.5]),
            (vec![MASKED, -1e30, MASKED], vec![0.0, 1.0, 0.0]),
            (vec![MASKED, INVISIBLE], vec![0.0, 0.0]),
            (vec![1e4, MASKED], vec![1.0, 0.0]),
            (vec![1.0, f64::NEG_INFINITY], vec![1.0, 0.0]),
            (vec![f64::NEG_INFINITY, f64::NEG_INFINITY], vec![0.0, 0.0]),
        ] {
            let found = softmax(1, x.len() as u32, 1, &x);
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-12, "{x:?}: {found} against {expected}");
            }
        }
    }

    #[test]
    fn a_score_that_is_nan_or_infinite_makes_every_weight_nan() {
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        for x in [
            vec![nan],
            vec![nan, 1.0, 2.0],
            vec![1.0, -nan],
            vec![MASKED, nan, MASKED],
            vec![-infinity, nan],
            vec![nan, nan],
            vec![1.0, infinity],
            vec![infinity, infinity, MASKED],
        ] {
            let found = softmax(1, x.len() as u32, 1, &x);
            assert!(found.iter().all(|weight| weight.is_nan()), "{x:?}: {found:?}");
        }
    }

    #[test]
    fn each_column_of_the_middle_axis_is_a_distribution() {
        let x: Vec<f64> = (0..24).map(|index| f64::from(index * 5 % 7)).collect();
        let y = softmax(2, 3, 4, &x);
        for (outer, column) in [(0, 0), (0, 3), (1, 1)] {
            let sum: f64 = (0..3).map(|position| y[(outer * 3 + position) * 4 + column]).sum();
            assert!((sum - 1.0).abs() < 1e-12);
        }
    }
}
