//! Cross-entropy of each row of logits with its target, by the shifted log-sum-exp (Blanchard, Higham and Higham 2021,
//! eq. 1.4).

use super::loop_limit;
use super::piece;
use crate::gpu::Piece;
use crate::tape::MutantKind::{Accumulator, Formula, Index, Tile};
use crate::tape::rounding::{UNIT, of_exp, of_log, of_sum};
use crate::tape::{
    Case, Cost, Design, Kernel, KernelDefinition, Mutant, Operand, Operands, Preference, Real, Tolerance, Wide, normal,
    words,
};

/// The row of [`super::KERNELS`].
pub static KERNEL: Kernel = Kernel::of::<CrossEntropy>();

/// The target of a row that does not count.
pub const IGNORED: u32 = u32::MAX;

crate::kernel_parameters! {
    /// Operands: `logits [rows, row_stride]`, of which the first `vocabulary` columns are read, `targets [rows]`,
    /// `row_loss [rows]` (nats; 0 where the target is [`IGNORED`]), `softmax_statistics [2, rows]`: the largest logit `m` of
    /// each row, then its `l = sum(exp(logits - m))`, which the backward pass needs apart. Logits may be -inf; a row with
    /// NaN or +inf, or of -inf alone, has NaN for its loss and both statistics. Any other target past the vocabulary reads
    /// the last column; who fills the buffer has to refuse it before.
    pub struct Parameters {
        rows: u32,
        vocabulary: u32,
        /// Elements from one row to the next.
        row_stride: u32,
    }
}

pub struct CrossEntropy;

const MUTANTS: &[Mutant] = &[
    Mutant::new(
        Formula,
        "the row is not shifted by its maximum",
        "let maximum = largest_of(largest);",
        "let maximum = 0.0;",
    ),
    Mutant::new(Formula, "an ignored row has a loss", "select(loss, 0.0, named == IGNORED)", "loss"),
    Mutant::new(Formula, "a NaN is dropped", "magnitude > INFINITY_BITS || ", ""),
    Mutant::new(Formula, "+inf is a logit as any other", " || bitcast<u32>(maximum) == INFINITY_BITS", ""),
    Mutant::new(Formula, "a row without a visible logit has statistics", " || total == 0.0", ""),
    Mutant::new(
        Index,
        "the sums lie over the largest",
        "softmax_statistics[params.rows + row]",
        "softmax_statistics[row]",
    ),
    Mutant::new(Accumulator, "every block replaces the one before", "total += sum_of(sum);", "total = sum_of(sum);"),
    Mutant::new(
        Tile,
        "the last column is not seen",
        "< Columns(params.vocabulary);",
        "< Columns(params.vocabulary - 1u);",
    ),
    Mutant::new(
        Tile,
        "the fourth value of an iteration is not seen by the sum",
        "
                + weight_of(value_at(start, column + 3u, end), maximum)",
        "",
    ),
    Mutant::new(Index, "the target is one column off", "== Columns(column_named);", "== Columns(column_named ^ 1u);"),
    Mutant::new(
        Index,
        "rows lie one vocabulary apart",
        "row * (params.row_stride / LANES)",
        "row * (params.vocabulary / LANES)",
    ),
];

const fn design(
    name: &'static str,
    pieces: &'static [&'static Piece],
    supports: fn(&Parameters) -> Result<(), String>,
) -> Design<Parameters> {
    Design {
        name,
        file: "cross_entropy.wgsl",
        text: include_str!("../../shaders/cross_entropy.wgsl"),
        pieces,
        preference: Preference::Any,
        subgroup_width: None,
        supports,
        constants: |_| Vec::new(),
        generated: |_| String::new(),
        workgroups: |parameters| [u64::from(parameters.rows).div_ceil(8), 1, 1],
        mutants: &[MUTANTS],
    }
}

/// Two passes of four values an iteration, the second in blocks of 32 iterations.
fn bounded(parameters: &Parameters, lanes: u32) -> Result<(), String> {
    let pass = u64::from(parameters.vocabulary.div_ceil(4 * lanes));
    loop_limit::within(2 * (pass + 1) + 2 * (pass / 32 + 1))
}

/// Rows of logits that start at whole vec4.
pub(super) fn whole_vec4_stride(row_stride: u32) -> Result<(), String> {
    match row_stride.is_multiple_of(4) {
        true => Ok(()),
        false => Err(format!("needs rows a multiple of 4 elements apart, these are {row_stride}")),
    }
}

impl KernelDefinition for CrossEntropy {
    type Parameters = Parameters;
    const NAME: &'static str = "cross_entropy";
    const WRITES: &'static [usize] = &[2, 3];

    fn designs() -> &'static [Design<Parameters>] {
        static DESIGNS: &[Design<Parameters>] = &[
            design("vec4", &[&piece::LINEAR_INDEX, &piece::VEC4_VALUES], |parameters| {
                whole_vec4_stride(parameters.row_stride)?;
                bounded(parameters, 4)
            }),
            design("scalar", &[&piece::LINEAR_INDEX, &piece::SCALAR_VALUES], |parameters| bounded(parameters, 1)),
        ];
        DESIGNS
    }

    fn twin<S: Real>(parameters: &Parameters, operands: &Operands<'_, S>) {
        let (logits, targets) = (operands.real(0), operands.words(1));
        let (mut row_loss, mut statistics) = (operands.real_mut(2), operands.real_mut(3));
        let (stride, vocabulary) = (parameters.row_stride as usize, parameters.vocabulary as usize);
        let rows = parameters.rows as usize;
        for row in 0..rows {
            let logits = &logits[row * stride..][..vocabulary];
            let (maximum, sum) = softmax_statistics(logits.iter().map(|logit| logit.wide()));
            let target_logit = logits[targets[row].min(parameters.vocabulary - 1) as usize].wide();
            let loss = sum.ln() + (maximum - target_logit);
            row_loss[row] = S::narrow(if targets[row] == IGNORED { S::Wide::of(0.0) } else { loss });
            statistics[row] = S::narrow(maximum);
            statistics[rows + row] = S::narrow(sum);
        }
    }

    fn error_bounds(parameters: &Parameters, operands: &Operands<'_, f32>, bounds: &mut [Vec<f64>]) {
        let (logits, targets) = (operands.real(0), operands.words(1));
        let (stride, vocabulary) = (parameters.row_stride as usize, parameters.vocabulary as usize);
        for row in 0..parameters.rows as usize {
            let logits = || logits[row * stride..][..vocabulary].iter().map(|logit| logit.wide());
            let maximum = logits().fold(f64::NEG_INFINITY, f64::max);
            let (mut sum, mut error) = (0.0, 0.0);
            for shifted in logits().map(|logit| logit - maximum) {
                let weight = shifted.exp();
                if weight > 0.0 {
                    sum += weight;
                    error += weight * (of_exp(shifted) + UNIT * shifted.abs());
                }
            }
            let log_sum = sum.ln();
            let of_sum = error / sum + of_sum(parameters.vocabulary.into());
            let error = of_sum + of_log(log_sum);
            let target_logit = logits().nth(targets[row].min(parameters.vocabulary - 1) as usize).unwrap_or(maximum);
            let of_loss = error + 2.0 * UNIT * (log_sum + 2.0 * (maximum - target_logit));
            bounds[0][row] = if targets[row] == IGNORED { 0.0 } else { of_loss };
            // The largest is one of the logits. The sum is stored.
            bounds[1][parameters.rows as usize + row] = sum * (of_sum + UNIT);
        }
    }

    fn cost(parameters: &Parameters) -> Cost {
        let (rows, vocabulary) = (u64::from(parameters.rows), u64::from(parameters.vocabulary));
        Cost { flops: 4 * rows * vocabulary, bytes: 4 * (rows * vocabulary + 4 * rows) }
    }

    fn cases() -> Vec<Case> {
        logit_cases(8)
            .into_iter()
            .map(|case| {
                let rows = case.parameters.rows as usize;
                let operands = vec![
                    Operand::Input(case.logits),
                    Operand::InputWords(case.targets),
                    Operand::Output(rows),
                    Operand::Output(2 * rows),
                ];
                let has_nan = case.has_nan;
                Case { has_nan, ..Case::new(case.name, case.parameters, operands, Tolerance::new(2e-6, 1e-6)) }
            })
            .collect()
    }
}

/// A row's largest logit `m`, and `sum(exp(logits - m))`; both NaN where the sum is.
pub(super) fn softmax_statistics<W: Wide>(logits: impl Iterator<Item = W> + Clone) -> (W, W) {
    let maximum = logits.clone().fold(W::NEG_INFINITY, W::max);
    let sum = logits.map(|logit| (logit - maximum).exp()).sum::<W>();
    if sum.is_nan() { (sum, sum) } else { (maximum, sum) }
}

/// Logits and targets that both the forward and the backward kernel are held to.
pub(super) struct LogitCase {
    pub(super) name: String,
    pub(super) parameters: Parameters,
    pub(super) logits: Vec<f32>,
    pub(super) targets: Vec<u32>,
    pub(super) has_nan: bool,
}

/// Seeded cases: ragged and whole rows, gaps between rows (NaN, so that a read of one shows), every third target
/// ignored in some, logits of -inf, logits shifted far from 0, rows that have no softmax.
pub(super) fn logit_cases(seed: u64) -> Vec<LogitCase> {
    let shapes = [
        (1, 1, 1),
        (1, 1, 4),
        (3, 2, 2),
        (9, 7, 8),
        (11, 65, 65),
        (8, 65, 68),
        (17, 97, 100),
        (6, 257, 257),
        (5, 513, 516),
        (3, 1100, 1100),
        (768, 65, 65),
        (2, 50_257, 50_257),
        (2, 50_257, 50_260),
        (1, 100_003, 100_004),
    ];
    let mut cases = Vec::new();
    for (rows, vocabulary, row_stride) in shapes {
        let mut logits = normal(seed, 0, rows * row_stride, 2.0);
        for (row, logits) in logits.chunks_exact_mut(row_stride).enumerate() {
            // Rows of large, of shifted and of equal logits.
            let (scale, shift) = [(1.0, 0.0), (30.0, 0.0), (1.0, 300.0), (1.0, -3e4), (0.0, 1.0)][row % 5];
            logits.iter_mut().for_each(|value| *value = *value * scale + shift);
            logits[vocabulary..].fill(f32::NAN);
        }
        let mut targets = words(seed, 1, rows, vocabulary as u32);
        let ignoring = rows > 5;
        if ignoring {
            targets.iter_mut().skip(1).step_by(3).for_each(|target| *target = IGNORED);
        }
        let parameters = Parameters { rows: rows as u32, vocabulary: vocabulary as u32, row_stride: row_stride as u32 };
        let marks = if ignoring { " ignoring" } else { "" };
        let name = format!("rows={rows} V={vocabulary} stride={row_stride}{marks} seed={seed}");
        cases.push(LogitCase { name, parameters, logits, targets, has_nan: false });
    }
    for (row_stride, name) in [(97, "rows=2 V=97 one visible logit"), (100, "rows=2 V=97 stride=100 one visible logit")]
    {
        let mut logits = vec![f32::NEG_INFINITY; 2 * row_stride];
        (logits[70], logits[row_stride]) = (10.0, -3e4);
        let parameters = Parameters { rows: 2, vocabulary: 97, row_stride: row_stride as u32 };
        cases.push(LogitCase { name: name.into(), parameters, logits, targets: vec![70, 0], has_nan: false });
    }
    let parameters = Parameters { rows: 2, vocabulary: 5, row_stride: 5 };
    let (logits, targets) = (normal(seed, 2, 10, 1.0), vec![5, u32::MAX - 1]);
    let name = "targets past the vocabulary".into();
    cases.push(LogitCase { name, parameters, logits, targets, has_nan: false });
    cases.extend([10, 12].map(|row_stride| rows_without_a_softmax(seed, row_stride)));
    cases
}

/// Rows of ten logits among which NaN of either sign or +inf stands, in the target or not, or of -inf alone; in one the
/// target is ignored, and one, of logits about 20,000, is as it should be.
fn rows_without_a_softmax(seed: u64, row_stride: usize) -> LogitCase {
    let (rows, vocabulary) = (9, 10);
    let mut logits = normal(seed, 3, rows * row_stride, 2.0);
    logits.chunks_exact_mut(row_stride).for_each(|row| row[vocabulary..].fill(0.0));
    let mut targets = vec![4; rows];
    let mut row = |row: usize, change: &dyn Fn(&mut [f32])| change(&mut logits[row * row_stride..][..vocabulary]);
    row(0, &|logits| logits[0] = f32::NAN);
    row(1, &|logits| logits[9] = -f32::NAN);
    row(2, &|logits| logits[4] = f32::NAN);
    row(3, &|logits| logits[6] = f32::INFINITY);
    row(4, &|logits| logits.fill(f32::NEG_INFINITY));
    row(5, &|logits| logits[7] = f32::NAN);
    targets[5] = IGNORED;
    row(6, &|logits| {
        logits.fill(f32::NEG_INFINITY);
        (logits[3], logits[4]) = (f32::NAN, 1.0);
    });
    row(7, &|logits| logits.iter_mut().for_each(|logit| *logit += 2e4));
    row(8, &|logits| logits[4] = f32::INFINITY);
    let parameters = Parameters { rows: rows as u32, vocabulary: vocabulary as u32, row_stride: row_stride as u32 };
    let name = format!("rows={rows} V={vocabulary} stride={row_stride} without a softmax seed={seed}");
    LogitCase { name, parameters, logits, targets, has_nan: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::finite_difference::{numbers, run};
    use crate::tape::HostBuffer;

    #[test]
    fn the_twin_equals_values_worked_out_by_hand() {
        let hidden = f64::NEG_INFINITY;
        let (two, four) = (2f64.ln(), 4f64.ln());
        // Equal logits; odds of 1 to 3; one visible logit; an ignored target.
        for (logits, target, loss, statistics) in [
            ([0.0, 0.0], 1, two, [0.0, 2.0]),
            ([0.0, 3f64.ln()], 0, four, [3f64.ln(), 4.0 / 3.0]),
            ([hidden, 10.0], 1, 0.0, [10.0, 1.0]),
            ([1e4, 1e4], 0, two, [1e4, 2.0]),
            ([0.0, 0.0], IGNORED, 0.0, [0.0, 2.0]),
        ] {
            let results = run::<CrossEntropy>(
                &Parameters { rows: 1, vocabulary: 2, row_stride: 2 },
                vec![
                    HostBuffer::Real(logits.to_vec()),
                    HostBuffer::Words(vec![target]),
                    HostBuffer::Real(vec![9.0]),
                    HostBuffer::Real(vec![9.0; 2]),
                ],
            );
            assert!((numbers(&results[2])[0] - loss).abs() < 1e-12, "{logits:?} {target}");
            for (found, expected) in numbers(&results[3]).iter().zip(statistics) {
                assert!((found - expected).abs() < 1e-12, "{logits:?} {target}");
            }
        }
    }
}
