//! The error budget: how far one design's result lies from the exact one, beside the plain formula's error in f32.
//!
//! *Exact* is the twin in f64 on the case's f32 inputs, *plain* the twin stored and computed in f32 with sums in their
//! natural order ([`Plain`]), *found* what the device left behind. An error is the largest distance from the exact
//! result over an operand's written elements, as a share of the largest exact magnitude among them. A design keeps its
//! budget if, for every case and operand,
//!
//! `error <= 2 * plain error + floor`
//!
//! which is the criterion of the FlashAttention tests, asked of every kernel. The floor is what WGSL's accuracy rules
//! let one result lose whatever its formula ([`floor`]). It is 0 for cases whose tolerance is exact, such as copies,
//! and whole words must be equal.

use std::sync::Arc;

use super::parity::{contents, device_results, holds_words, tape_of};
use crate::gpu::{Gpu, Pipelines, ShaderSource};
use crate::kernel::softmax::MASKED;
use crate::tape::{
    Case, CpuExecutor, DesignInfo, ExecutionError, Kernel, Operand, Plain, TapeError, Tolerance, TwinStorage, Wide,
};

/// How much larger than the plain formula's a design's error may be.
pub const FACTOR: f64 = 2.0;

/// What a design may lose beside its share of the plain formula's error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// In units of 2^-24 of the operand's largest magnitude: what one operation loses at most that is rounded to the
    /// nearest f32. A unit in the last place (ULP) is at most two of them.
    pub roundings: f64,
    pub reason: &'static str,
}

impl Floor {
    /// As a share of the operand's largest magnitude.
    pub const fn relative(&self) -> f64 {
        self.roundings / 16_777_216.0
    }
}

const MOVES: Floor = Floor { roundings: 0.0, reason: "numbers are only moved: all cases are exact" };
const ARITHMETIC: Floor = Floor {
    roundings: 4.0,
    reason: "sums and products: WGSL may round each up or down, 1 ULP; the last two of a chain are granted, the others \
             have their counterparts in the plain formula",
};
const ROOTS: Floor = Floor {
    roundings: 16.0,
    reason: "quotients and square roots: 2.5 ULP and, as 1 / inverseSqrt, 4.5 ULP; one of each and a product, which \
             the plain formula rounds to the nearest",
};
const EXPONENTIALS: Floor = Floor {
    roundings: 16.0,
    reason: "weights exp(s - m) / l: 3 + 2 (m - s) ULP, which times the weight itself is nowhere above 3 ULP of the \
             largest, 2.5 ULP for the quotient, and products; for log-sum-exp 2^-21 or 3 ULP of the logarithm",
};
const FUNCTIONS: Floor = Floor {
    roundings: 168.0,
    reason: "tanh may miss by 1e-5; exp(30) and powers as exp2(y log2(x)) may lose 60 to 80 ULP, about the same",
};

/// Floors of the kernels that ask more or less of a device than sums and products, from the table of accuracies in the
/// WGSL specification (section 15.7.4).
const FLOORS: &[(&str, Floor)] = &[
    ("adamw", ROOTS),
    ("attention_backward_key_value", EXPONENTIALS),
    ("attention_backward_query", EXPONENTIALS),
    ("attention_delta", ROOTS),
    ("attention_forward", EXPONENTIALS),
    ("binary", FUNCTIONS),
    ("causal_mask", MOVES),
    ("copy", MOVES),
    ("cross_entropy", EXPONENTIALS),
    ("cross_entropy_backward", EXPONENTIALS),
    ("cross_entropy_mean", ROOTS),
    ("embedding", MOVES),
    ("fill", MOVES),
    ("gradient_norm", ROOTS),
    ("layer_norm", ROOTS),
    ("scaled_masked_softmax", EXPONENTIALS),
    ("select", MOVES),
    ("softmax", EXPONENTIALS),
    ("unary", FUNCTIONS),
];

/// The floor of a kernel's cases.
pub fn floor(kernel: &str) -> Floor {
    FLOORS.iter().find(|(name, _)| *name == kernel).map_or(ARITHMETIC, |(_, floor)| *floor)
}

/// Above this error the plain formula has no digit worth comparing: the exact result cancels to nearly nothing. Such
/// cases are judged like all others, but kept out of the largest errors that are reported.
const CANCELLED: f64 = 0.01;

/// What a case shows of one written operand.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub operand: usize,
    /// The element with the largest error.
    pub index: usize,
    pub found: f64,
    pub exact: f64,
    /// The design's largest error, relative to the operand's largest exact magnitude.
    pub error: f64,
    /// That of the plain formula.
    pub plain: f64,
    /// What the error may be.
    pub allowed: f64,
}

impl Measurement {
    /// The share of the budget used: at most 1 keeps it.
    pub fn share(&self) -> f64 {
        if self.error == 0.0 { 0.0 } else { self.error / self.allowed }
    }

    pub fn kept(&self) -> bool {
        self.error <= self.allowed
    }

    /// Whether the exact result cancels to less than the rounding of what it is computed from.
    pub fn cancelled(&self) -> bool {
        self.plain > CANCELLED
    }
}

/// A case that cannot be measured, or not at all be run.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    #[error("{by} of operand {operand} is {value} at index {index}: there is nothing to measure against")]
    NotFinite { by: &'static str, operand: usize, index: usize, value: f64 },
    #[error("the twin writes nothing")]
    WritesNothing,
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    #[error(transparent)]
    Tape(#[from] TapeError),
}

/// Every operand's numbers before or after a launch, guards left out; words as whole numbers.
type Operands = Vec<Vec<f64>>;

fn values_of(operand: &Operand, bits: &[u32]) -> Vec<f64> {
    let words = holds_words(operand);
    bits.iter().map(|&bits| if words { f64::from(bits) } else { f64::from(f32::from_bits(bits)) }).collect()
}

/// What the twin makes of a case when its numbers are stored as `S`.
///
/// # Errors
/// A host without the memory for it.
pub fn twin<S: TwinStorage>(kernel: &'static Kernel, case: &Case) -> Result<Operands, TapeError> {
    let executor = CpuExecutor::<S>::new(tape_of(kernel, None, case))?;
    for (buffer, operand) in case.operands.iter().enumerate() {
        let bits = contents(operand);
        if holds_words(operand) {
            executor.write_words(buffer, &bits)?;
        } else {
            let stored = values_of(operand, &bits).into_iter().map(|value| S::narrow(S::Wide::of(value)));
            executor.write(buffer, &stored.collect::<Vec<S>>())?;
        }
    }
    executor.run(0);
    let mut results = Vec::new();
    for (buffer, operand) in case.operands.iter().enumerate() {
        let mut values: Vec<f64> = if holds_words(operand) {
            executor.read_words(buffer)?.into_iter().map(f64::from).collect()
        } else {
            executor.read(buffer)?.into_iter().map(|value| value.wide().into()).collect()
        };
        values.truncate(operand.len());
        results.push(values);
    }
    Ok(results)
}

/// Measures each written operand of one design on one case. Where a fault is planted, `replaced` stands in for its
/// shader text.
///
/// # Errors
/// A launch that cannot run, or a case without finite results to measure against.
pub async fn measure(
    gpu: &Arc<Gpu>,
    pipelines: &mut Pipelines,
    kernel: &'static Kernel,
    design: DesignInfo,
    replaced: Option<&ShaderSource>,
    case: &Case,
) -> Result<Vec<Measurement>, MeasureError> {
    let exact = twin::<f64>(kernel, case)?;
    let plain = twin::<Plain>(kernel, case)?;
    let bits = device_results(gpu, pipelines, kernel, design, replaced, case).await?;
    let found: Operands = case.operands.iter().zip(&bits).map(|(operand, bits)| values_of(operand, bits)).collect();
    judge(kernel, case, &exact, &plain, &found)
}

/// Compares what a design left behind in each written operand with the exact and the plain result.
///
/// # Errors
/// A case without finite results to measure against.
pub fn judge(
    kernel: &Kernel,
    case: &Case,
    exact: &Operands,
    plain: &Operands,
    found: &Operands,
) -> Result<Vec<Measurement>, MeasureError> {
    let floor = if case.tolerance == Tolerance::EXACT { 0.0 } else { floor(kernel.name).relative() };
    let mut measurements = Vec::new();
    for &operand in kernel.writes {
        let described = &case.operands[operand];
        let before = values_of(described, &contents(described));
        let in_place = matches!(described, Operand::InOut(_) | Operand::InOutWords(_));
        let untouched = |index: usize| !in_place && exact[operand][index].to_bits() == before[index].to_bits();
        let written: Vec<usize> = (0..exact[operand].len()).filter(|&index| !untouched(index)).collect();
        for (by, values) in [("the exact result", exact), ("the plain result", plain)] {
            if let Some(&index) = written.iter().find(|&&index| !values[operand][index].is_finite()) {
                return Err(MeasureError::NotFinite { by, operand, index, value: values[operand][index] });
            }
        }
        // Words, and the mark of a masked score, are no measured quantities: they are right or wrong.
        let marks = |index: &usize| holds_words(described) || exact[operand][*index] == MASKED;
        let (marks, measured): (Vec<usize>, Vec<usize>) = written.into_iter().partition(marks);
        let scale = measured.iter().fold(0.0, |scale: f64, &index| scale.max(exact[operand][index].abs()));
        let error_at = |values: &Operands, index: usize| {
            let error = (values[operand][index] - exact[operand][index]).abs();
            if error == 0.0 { 0.0 } else { error / scale }
        };
        let largest =
            |values: &Operands| measured.iter().map(|&index| (index, error_at(values, index))).fold(None, worse);
        let plain_error = largest(plain).map_or(0.0, |(_, error)| error);
        let wrong = marks.iter().find(|&&index| found[operand][index] != exact[operand][index]);
        let marked = wrong.or(marks.first()).map(|&index| (index, if wrong.is_some() { f64::INFINITY } else { 0.0 }));
        let Some((index, error)) = [largest(found), marked].into_iter().flatten().fold(None, worse) else { continue };
        measurements.push(Measurement {
            operand,
            index,
            found: found[operand][index],
            exact: exact[operand][index],
            error,
            plain: plain_error,
            allowed: FACTOR * plain_error + floor,
        });
    }
    if measurements.is_empty() { Err(MeasureError::WritesNothing) } else { Ok(measurements) }
}

/// The larger of two errors with its index; NaN counts as infinitely large.
fn worse(worst: Option<(usize, f64)>, (index, error): (usize, f64)) -> Option<(usize, f64)> {
    let error = if error.is_nan() { f64::INFINITY } else { error };
    match worst {
        Some((_, largest)) if error <= largest => worst,
        _ => Some((index, error)),
    }
}

/// The case and operand of a design that used the most of its budget.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    pub case: String,
    pub measurement: Measurement,
}

/// All that was measured of one design.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    pub kernel: &'static str,
    pub design: &'static str,
    pub cases: usize,
    /// Cases with a result that cancels to nearly nothing, left out of `error` and `plain`.
    pub cancelled: usize,
    /// The largest error of all cases.
    pub error: f64,
    /// The plain formula's largest error of all cases.
    pub plain: f64,
    /// Where the largest share of a budget was used.
    pub worst: Option<Worst>,
    /// Cases that could not be measured, and why.
    pub faults: Vec<String>,
}

impl Budget {
    pub fn new(kernel: &'static str, design: &'static str) -> Self {
        Self { kernel, design, cases: 0, cancelled: 0, error: 0.0, plain: 0.0, worst: None, faults: Vec::new() }
    }

    /// Takes in one case.
    pub fn add(&mut self, case: &Case, measured: Result<Vec<Measurement>, MeasureError>) {
        self.cases += 1;
        match measured {
            Ok(measurements) => {
                self.cancelled += usize::from(measurements.iter().any(Measurement::cancelled));
                for measurement in measurements {
                    if !measurement.cancelled() {
                        self.error = self.error.max(measurement.error);
                        self.plain = self.plain.max(measurement.plain);
                    }
                    if self.worst.is_none() || measurement.share() > self.share() {
                        self.worst = Some(Worst { case: case.name.clone(), measurement });
                    }
                }
            }
            Err(error) => self.faults.push(format!("[{}]: {error}", case.name)),
        }
    }

    /// The largest share of a budget that a case used: at most 1 keeps it.
    pub fn share(&self) -> f64 {
        self.worst.as_ref().map_or(0.0, |worst| worst.measurement.share())
    }

    /// The largest error in units of the plain formula's largest; `None` where the plain formula is exact.
    pub fn ratio(&self) -> Option<f64> {
        (self.plain > 0.0).then(|| self.error / self.plain)
    }

    /// Whether every case was measured and kept its budget.
    pub fn kept(&self) -> bool {
        self.faults.is_empty() && self.share() <= 1.0
    }
}

impl std::fmt::Display for Budget {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = if self.kept() { "ok" } else { "BROKEN" };
        let (kernel, design, cases, error, plain) = (self.kernel, self.design, self.cases, self.error, self.plain);
        write!(formatter, "{word:<6} {kernel}/{design}: error {error:.2e}, plain formula {plain:.2e}, {cases} cases")?;
        if let Some(worst) = self.worst.as_ref().filter(|worst| worst.measurement.error > 0.0) {
            write!(formatter, "; {:.2} of the budget used by [{}]", self.share(), worst.case)?;
        }
        self.faults.iter().try_for_each(|fault| write!(formatter, "\n       {fault}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::KERNELS;

    /// Judges the twin's results in f32, the best that any design could do, after a change.
    fn judged(kernel: &'static Kernel, case: &Case, change: impl Fn(&mut Operands)) -> Vec<Measurement> {
        let exact = twin::<f64>(kernel, case).unwrap();
        let plain = twin::<Plain>(kernel, case).unwrap();
        let mut found = twin::<f32>(kernel, case).unwrap();
        change(&mut found);
        judge(kernel, case, &exact, &plain, &found).unwrap()
    }

    fn breaks(kernel: &'static Kernel, case: &Case, change: impl Fn(&mut Operands)) -> bool {
        judged(kernel, case, change).iter().any(|measurement| !measurement.kept())
    }

    /// Changes the largest number that is written.
    fn largest<'a>(kernel: &'a Kernel, case: &'a Case, change: fn(f64) -> f64) -> impl Fn(&mut Operands) + 'a {
        move |found| {
            let size = |value: f64| if value.is_nan() || value == MASKED { 0.0 } else { value.abs() };
            let numbers = kernel.writes.iter().filter(|&&operand| !holds_words(&case.operands[operand]));
            let places = numbers.flat_map(|&operand| (0..found[operand].len()).map(move |index| (operand, index)));
            let largest = places.max_by(|a, b| size(found[a.0][a.1]).total_cmp(&size(found[b.0][b.1])));
            let (operand, index) = largest.unwrap();
            found[operand][index] = change(found[operand][index]);
        }
    }

    #[test]
    fn correctly_rounded_results_keep_every_budget() {
        for kernel in KERNELS {
            for case in (kernel.cases)() {
                for measurement in judged(kernel, &case, |_| ()) {
                    assert!(measurement.kept(), "{}[{}]: {measurement:?}", kernel.name, case.name);
                }
            }
        }
    }

    #[test]
    fn an_error_of_a_ten_thousandth_breaks_the_budget_of_every_kernel() {
        for kernel in KERNELS {
            let cases = (kernel.cases)();
            let broken = |case: &&Case| breaks(kernel, case, largest(kernel, case, |value| value * 1.0001));
            let noticed = cases.iter().filter(broken).count();
            // A result of zeros, or one that cancels, cannot show a relative error.
            assert!(3 * noticed >= 2 * cases.len(), "{}: {noticed} of {} cases", kernel.name, cases.len());
        }
    }

    #[test]
    fn what_is_no_number_breaks_every_budget() {
        for kernel in KERNELS {
            let case = (kernel.cases)().remove(0);
            for change in [|_| f64::NAN, |_| f64::INFINITY] {
                assert!(breaks(kernel, &case, largest(kernel, &case, change)), "{}[{}]", kernel.name, case.name);
            }
        }
    }

    #[test]
    fn copies_words_and_the_marks_of_masked_scores_must_be_equal() {
        use crate::kernel::{attention_forward, copy, gradient_norm};
        let first = |kernel: &Kernel| (kernel.cases)().remove(0);
        let copied = first(&copy::KERNEL);
        assert!(breaks(&copy::KERNEL, &copied, largest(&copy::KERNEL, &copied, |value| value * (1.0 + 1e-7))));
        assert!(breaks(&gradient_norm::KERNEL, &first(&gradient_norm::KERNEL), |found| found[3][0] += 1.0));
        let unseen = |case: &Case| twin::<f64>(&attention_forward::KERNEL, case).unwrap()[4].contains(&MASKED);
        let case = (attention_forward::KERNEL.cases)().into_iter().find(unseen).unwrap();
        assert!(breaks(&attention_forward::KERNEL, &case, |found| {
            let mark = found[4].iter_mut().find(|value| **value == MASKED).unwrap();
            *mark = f64::from(f32::MIN);
        }));
    }

    #[test]
    fn floors_are_for_kernels_that_there_are() {
        for (name, _) in FLOORS {
            assert!(KERNELS.iter().any(|kernel| kernel.name == *name), "{name}");
        }
    }
}
