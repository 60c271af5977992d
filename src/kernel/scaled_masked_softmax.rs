//! Scale, causal mask and softmax of attention scores in one: what stands between the two matrix products of naive
//! attention.

use super::causal_mask::visible_keys;
use super::loop_limit;
use super::piece;
use super::softmax::{
    INVISIBLE, NAN_IS_NOT_SEEN, NAN_TOTAL_IS_NOTHING, NANS_ARE_NOT_SEEN, Scores, UNSEEN_STAYS_ZERO, overflows,
    weight_bounds,
};
use super::split_reduction::{self, Sharing};
use crate::gpu::AdapterKind;
use crate::tape::MutantKind::{Accumulator, Formula, Index, Mask, Rescale, Tile};
use crate::tape::rounding::UNIT;
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<ScaledMaskedSoftmax>();

crate::kernel_parameters! {
    /// Operands: `x`, `y`, both `[rows, key_length]` and contiguous: rows of `[.., query_length, key_length]`, of which the
    /// first is that of query `first_row` and may lie in the middle of a matrix. `y = softmax(scale * x)` over the keys
    /// that a query sees; weights of other keys are 0. With `causal` = 1, query i sees key j iff
    /// `j <= i + key_length - query_length` (bottom-right alignment); with 0, it sees all. A scaled score at or below
    /// [`INVISIBLE`] is not seen either. A visible score that is NaN or +inf makes all weights of its row NaN, as the
    /// same softmax of written masks does.
    pub struct Parameters {
        rows: u32,
        /// The query of the first row, less than `query_length`.
        first_row: u32,
        query_length: u32,
        key_length: u32,
        causal: u32,
        scale: f32,
    }
}

impl Parameters {
    /// All rows of so many matrices.
    pub(super) fn whole(matrices: u32, query_length: u32, key_length: u32, causal: u32, scale: f64) -> Self {
        Self { rows: matrices * query_length, first_row: 0, query_length, key_length, causal, scale }
    }

    pub(super) fn count(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.key_length)
    }

    /// Keys that the query of row `row` sees.
    pub(super) fn seen(&self, row: usize) -> usize {
        match self.causal {
            0 => self.key_length as usize,
            _ => visible_keys(
                (self.first_row as usize + row) % self.query_length as usize,
                self.query_length,
                self.key_length,
            ),
        }
    }

    /// Whether rows are made of whole vec4, and can be walked twice.
    pub(super) fn in_fours(&self) -> Result<(), String> {
        loop_limit::within(2 * u64::from(self.key_length / 4))?;
        match self.key_length.is_multiple_of(4) {
            true => Ok(()),
            false => Err(format!("needs keys in fours, there are {}", self.key_length)),
        }
    }
}

/// A mutant of this kernel and its gradient.
pub(super) const BEGINS_AT_THE_FIRST_QUERY: Mutant = Mutant::new(
    Mask,
    "a group of rows begins at the first query",
    "visible_keys((params.first_row + row) % params.query_length)",
    "visible_keys(row % params.query_length)",
);

/// Mutants of `scaled_masked_softmax.wgsl`, however many invocations share a result.
const BOTH_MUTANTS: &[Mutant] = &[
    Mutant::new(
        Index,
        "the rows of the next matrix continue those of the one before",
        "visible_keys((params.first_row + row) % params.query_length)",
        "visible_keys(params.first_row + row)",
    ),
    BEGINS_AT_THE_FIRST_QUERY,
    Mutant::new(Tile, "a row past the end is written", "row < params.rows", "row <= params.rows"),
    Mutant::new(
        Mask,
        "a query does not see its own position",
        "let end = query + 1u + params.key_length;",
        "let end = query + params.key_length;",
    ),
    Mutant::new(
        Mask,
        "the mask is aligned top-left",
        "let end = query + 1u + params.key_length;",
        "let end = query + 1u + params.query_length;",
    ),
    Mutant::new(
        Mask,
        "weights of masked keys are not cleared",
        "key < length; key += SPLITS",
        "key < seen; key += SPLITS",
    ),
    Mutant::new(Accumulator, "each weight replaces those before", "total += select(0.0,", "total = select(0.0,"),
    Mutant::new(
        Formula,
        "the maximum is taken of unscaled scores",
        "greatest = max(greatest, params.scale * x[first + key]);",
        "greatest = max(greatest, -x[first + key]);",
    ),
    NAN_IS_NOT_SEEN,
    NAN_TOTAL_IS_NOTHING,
    UNSEEN_STAYS_ZERO,
    Mutant::new(Mask, "masked keys have the weight 0 beside a NaN", "var weight = unseen;", "var weight = 0.0;"),
];

/// Up to a workgroup of invocations for each result; runs everything, everywhere.
const SHARED: Design<Parameters> = Design {
    name: "shared",
    file: "scaled_masked_softmax.wgsl",
    text: include_str!("../../shaders/scaled_masked_softmax.wgsl"),
    pieces: &[
        &piece::LINEAR_WORKGROUP,
        &piece::SPLIT_REDUCTION,
        &piece::SPLIT_SUM,
        &piece::SPLIT_MAXIMUM,
        &piece::VISIBLE,
        &piece::NAN,
        &piece::VISIBLE_KEYS,
    ],
    preference: Preference::Any,
    subgroup_width: None,
    supports: |parameters| split_reduction::walks(Sharing::Shared, parameters.key_length, 1, 3),
    constants: |parameters| split_reduction::constants(Sharing::Shared, parameters.key_length, 1),
    generated: |_| String::new(),
    workgroups: |parameters| workgroups(Sharing::Shared, parameters),
    mutants: &[BOTH_MUTANTS, split_reduction::SUM_MUTANTS, split_reduction::MAXIMUM_MUTANTS],
};

/// The same text with one invocation for each result.
const SERIAL: Design<Parameters> = Design {
    name: "serial",
    pieces: &[&piece::LINEAR_WORKGROUP, &piece::SERIAL_REDUCTION, &piece::VISIBLE, &piece::NAN, &piece::VISIBLE_KEYS],
    preference: Preference::Only(AdapterKind::Software),
    supports: |parameters| split_reduction::walks(Sharing::Serial, parameters.key_length, 1, 3),
    constants: |parameters| split_reduction::constants(Sharing::Serial, parameters.key_length, 1),
    workgroups: |parameters| workgroups(Sharing::Serial, parameters),
    mutants: &[BOTH_MUTANTS],
    ..SHARED
};

pub(super) fn workgroups(sharing: Sharing, parameters: &Parameters) -> [u64; 3] {
    split_reduction::workgroups(sharing, parameters.rows.into(), parameters.key_length, 1)
}

pub struct ScaledMaskedSoftmax;

impl KernelDefinition for ScaledMaskedSoftmax {
    type Parameters = Parameters;
    const NAME: &'static str = "scaled_masked_softmax";
    const WRITES: &'static [usize] = &[1];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            Design {
                name: "rows",
                file: "scaled_masked_softmax_rows.wgsl",
                text: include_str!("../../shaders/scaled_masked_softmax_rows.wgsl"),
                pieces: &[&piece::LINEAR_INDEX, &piece::VISIBLE, &piece::NAN, &piece::VISIBLE_KEYS],
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
                        "each vec4 of weights replaces those before",
                        "sums = sums * exp(maxima - raised) + select",
                        "sums = select",
                    ),
                    Mutant::new(
                        Tile,
                        "a row past the end is written",
                        "if row >= params.rows {",
                        "if row > params.rows {",
                    ),
                    Mutant::new(
                        Mask,
                        "the edge of the mask is rounded up to whole vec4",
                        "keys < vec4<u32>(seen)",
                        "keys < vec4<u32>(seen + 3u)",
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
                    NANS_ARE_NOT_SEEN,
                    NAN_TOTAL_IS_NOTHING,
                    UNSEEN_STAYS_ZERO,
                    Mutant::new(Formula, "scores are not scaled", "params.scale * x[first + quad]", "x[first + quad]"),
                    Mutant::new(
                        Mask,
                        "weights of masked keys are not cleared",
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
        let (x, mut y) = (operands.real(0), operands.real_mut(1));
        let key_length = parameters.key_length as usize;
        let (scale, zero) = (S::Wide::of(parameters.scale), S::Wide::of(0.0));
        let mut weights = vec![zero; key_length];
        for row in 0..parameters.rows as usize {
            let all = row * key_length..(row + 1) * key_length;
            let seen = parameters.seen(row);
            let scores = x[all.clone()][..seen].iter().map(|x| scale * x.wide());
            let greatest = scores.clone().fold(S::Wide::NEG_INFINITY, S::Wide::max);
            for (weight, score) in weights.iter_mut().zip(scores) {
                *weight = if score <= S::Wide::of(INVISIBLE) { zero } else { (score - greatest).exp() };
            }
            let total: S::Wide = match overflows::<S>(greatest) {
                true => S::Wide::of(f64::NAN),
                false => weights[..seen].iter().copied().sum(),
            };
            let (visible, hidden) = y[all].split_at_mut(seen);
            for (y, weight) in visible.iter_mut().zip(&weights) {
                // Where nothing is visible, weight and total are both 0. A total that is NaN makes all NaN.
                *y = S::narrow(if total == zero { zero } else { *weight / total });
            }
            hidden.fill(S::narrow(if total == zero { zero } else { zero / total }));
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let x = operands.real(0);
        let key_length = parameters.key_length as usize;
        for row in 0..parameters.rows as usize {
            let scores: Vec<f64> =
                x[row * key_length..][..parameters.seen(row)].iter().map(|x| parameters.scale * x.wide()).collect();
            // Scale and product are rounded.
            let of_weights = weight_bounds(&scores, |score| 2.0 * UNIT * score.abs());
            bounds[0][row * key_length..][..of_weights.len()].copy_from_slice(&of_weights);
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let count = parameters.count();
        Cost { flops: 6 * count, bytes: 8 * count }
    }

    fn cases() -> Vec<Case> {
        let mut cases: Vec<Case> = shapes().into_iter().map(|parameters| case(parameters, Scores::Shifted)).collect();
        for scores in [Scores::Masked, Scores::NearMinus30000, Scores::NearMinus1e30, Scores::Wide] {
            for (query_length, key_length) in [(12, 12), (9, 5), (3, 66)] {
                let parameters = Parameters::whole(2, query_length, key_length, 1, 1.0);
                cases.push(case(parameters, scores));
            }
        }
        for (query_length, key_length, causal, scale) in
            [(20, 20, 1, 0.5), (18, 25, 1, -1.0), (25, 18, 1, 1.0), (18, 68, 0, 0.5)]
        {
            let parameters = Parameters::whole(2, query_length, key_length, causal, scale);
            cases.push(case(parameters, Scores::WithNan).with_nan());
        }
        // Twice the largest f32.
        let parameters = Parameters::whole(1, 3, 4, 1, 2.0);
        let mut overflowing = case(parameters, Scores::Shifted).with_nan();
        if let Operand::Input(x) = &mut overflowing.operands[0] {
            (x[4], x[5], x[11]) = (-f32::MAX, f32::MAX, -f32::MAX);
        }
        overflowing.name = "scores that overflow".into();
        cases.push(overflowing);
        cases
    }
}

/// Shapes, masks and scales that this kernel and its gradient are held to.
pub(super) fn shapes() -> Vec<Parameters> {
    let mut shapes = Vec::new();
    for (batches, query_length, key_length, scale) in [
        (1, 1, 1, 1.0),
        (3, 2, 8, -0.5),
        (2, 4, 4, 0.125),
        (1, 4, 2, 1.0),
        (2, 9, 4, 0.3),
        (2, 2, 5, 1.0),
        (3, 1, 77, 0.25),
        (1, 33, 64, 0.2),
        (2, 63, 63, 0.125),
        (2, 64, 64, 0.125),
        (1, 65, 65, 0.125),
        (1, 5, 132, 2.0),
    ] {
        for causal in [1, 0] {
            shapes.push(Parameters::whole(batches, query_length, key_length, causal, scale));
        }
    }
    // Groups that begin in the middle of a matrix: within it, to its end, across its edge and over whole ones.
    for (rows, first_row, query_length, key_length) in [
        (3, 2, 7, 7),
        (4, 3, 7, 8),
        (9, 5, 8, 8),
        (40, 63, 64, 64),
        (11, 1, 3, 12),
        (1, 4, 5, 3),
        (13, 6, 9, 5),
        (70, 9, 33, 68),
    ] {
        for causal in [1, 0] {
            shapes.push(Parameters { rows, first_row, query_length, key_length, causal, scale: 0.5 });
        }
    }
    shapes
}

/// Sizes, mask and scale for a case's name.
pub(super) fn describe(parameters: &Parameters) -> String {
    let Parameters { rows, first_row, query_length, key_length, causal, scale } = parameters;
    format!("rows={rows} from {first_row} Tq={query_length} Tk={key_length} causal={causal} scale={scale}")
}

fn case(parameters: Parameters, scores: Scores) -> Case {
    let x = scores.values(parameters.rows as usize, parameters.key_length as usize);
    let count = x.len();
    Case::new(
        format!("{} scores={scores:?} seed=9", describe(&parameters)),
        parameters,
        vec![Operand::Input(x), Operand::Output(count)],
        Tolerance::new(3e-6, 3e-6),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::finite_difference::run_twin;

    #[test]
    fn rows_see_only_their_keys_and_rows_that_see_none_are_zero() {
        let x: Vec<f64> = (0..8).map(|key| f64::from(key % 2) * 3.0_f64.ln() * 2.0).collect();
        let parameters = Parameters::whole(1, 4, 2, 1, 0.5);
        let y = run_twin::<ScaledMaskedSoftmax>(&parameters, &[x.clone(), vec![f64::NAN; 8]]).remove(1);
        for (found, expected) in y.iter().zip([0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.25, 0.75]) {
            assert!((found - expected).abs() < 1e-12, "{y:?}");
        }
        let parameters = Parameters { causal: 0, ..parameters };
        let y = run_twin::<ScaledMaskedSoftmax>(&parameters, &[x, vec![f64::NAN; 8]]).remove(1);
        assert!(y.chunks(2).all(|row| (row[0] - 0.25).abs() < 1e-12 && (row[1] - 0.75).abs() < 1e-12), "{y:?}");
    }

    #[test]
    fn a_nan_makes_the_rows_nan_that_see_it_and_no_others() {
        let (nan, infinity, largest) = (f64::NAN, f64::INFINITY, f64::from(f32::MAX));
        for (x, broken) in [
            ([nan, 0.0, 0.0, 0.0], [true, false]),
            ([0.0, nan, 0.0, 0.0], [false, false]),
            ([0.0, 0.0, nan, 0.0], [false, true]),
            ([0.0, 0.0, 0.0, nan], [false, true]),
            ([0.0, infinity, 0.0, infinity], [false, true]),
            ([infinity, 0.0, 0.0, 0.0], [true, false]),
            ([-infinity, 0.0, -infinity, 0.0], [false, false]),
            ([largest, 0.0, 0.0, 0.0], [false, false]),
        ] {
            let parameters = Parameters::whole(1, 2, 2, 1, 2.0);
            let y = run_twin::<ScaledMaskedSoftmax>(&parameters, &[x.to_vec(), vec![f64::NAN; 4]]).remove(1);
            for (row, broken) in y.chunks(2).zip(broken) {
                assert!(row.iter().all(|weight| weight.is_nan() == broken), "{x:?}: {y:?}");
            }
        }
    }

    #[test]
    fn rows_from_the_middle_of_a_matrix_see_what_their_queries_see() {
        let parameters = Parameters { rows: 3, first_row: 1, ..Parameters::whole(1, 3, 3, 1, 1.0) };
        let y = run_twin::<ScaledMaskedSoftmax>(&parameters, &[vec![0.0; 9], vec![f64::NAN; 9]]).remove(1);
        let third = 1.0 / 3.0;
        assert_eq!(y, [0.5, 0.5, 0.0, third, third, third, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn with_more_keys_than_queries_the_last_query_sees_all() {
        let parameters = Parameters::whole(1, 2, 5, 1, 1.0);
        let y = run_twin::<ScaledMaskedSoftmax>(&parameters, &[vec![0.0; 10], vec![f64::NAN; 10]]).remove(1);
        assert_eq!(y, [0.25, 0.25, 0.25, 0.25, 0.0, 0.2, 0.2, 0.2, 0.2, 0.2]);
    }
}
