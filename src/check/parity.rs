//! Parity: one design of one kernel on one case, compared element by element with the twin.
//!
//! Every buffer is fresh. Outputs are filled with a NaN of known bits beforehand: an element that the twin leaves alone
//! must keep exactly those bits, one that it writes must lie within the tolerance; where a case is about NaN, the twin's
//! NaN must be some NaN that the design wrote. Past the logical end every binding
//! holds guard elements: NaN behind inputs, so that an over-read shows, and the same known bits behind outputs, so that
//! an over-write does.

use std::sync::Arc;

use super::UNTOUCHED;
use crate::gpu::{Gpu, Pipelines, ShaderSource};
use crate::tape::{
    BufferWindow, Case, Category, CpuExecutor, DesignInfo, ElementKind, ExecutionError, GpuExecutor, Kernel, Launch,
    Operand, Segment, Tape, TapeBuffer, TapeError, Tolerance,
};

/// Elements behind the logical end of every operand.
const GUARD: usize = 16;

/// The element that used the most of its tolerance.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    pub operand: usize,
    pub index: usize,
    pub found: f64,
    pub expected: f64,
    /// Share of the tolerance used: at most 1 passes.
    pub share: f64,
}

/// The result of one comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Every element is within its tolerance; `None` where all were equal.
    Passed { compared: usize, worst: Option<Worst> },
    /// An element is outside of its tolerance.
    Missed { worst: Worst, misses: usize, compared: usize },
    /// The case cannot judge anything: its reference is not finite, or lacks the NaN that the case is about, or it
    /// writes nothing.
    BadReference { reason: String },
}

impl Outcome {
    pub fn passed(&self) -> bool {
        matches!(self, Self::Passed { .. })
    }

    pub fn worst(&self) -> Option<&Worst> {
        match self {
            Self::Passed { worst, .. } => worst.as_ref(),
            Self::Missed { worst, .. } => Some(worst),
            Self::BadReference { .. } => None,
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Passed { compared, worst: None } => write!(formatter, "{compared} elements equal"),
            Self::Passed { compared, worst: Some(worst) } => {
                write!(formatter, "{compared} elements, worst {worst}")
            }
            Self::Missed { worst, misses, compared } => {
                write!(formatter, "{misses} of {compared} elements outside the tolerance, worst {worst}")
            }
            Self::BadReference { reason } => write!(formatter, "nothing to compare: {reason}"),
        }
    }
}

impl std::fmt::Display for Worst {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "operand {} index {}: {:e} against {:e} (error {:.2e}, {:.3} of the tolerance)",
            self.operand,
            self.index,
            self.found,
            self.expected,
            (self.found - self.expected).abs(),
            self.share
        )
    }
}

pub(super) fn tape_of(kernel: &'static Kernel, design: Option<DesignInfo>, case: &Case) -> Tape {
    let buffers: Vec<TapeBuffer> = case
        .operands
        .iter()
        .enumerate()
        .map(|(index, operand)| {
            let (elements, kind) = match operand {
                Operand::Input(values) | Operand::InOut(values) => (values.len(), ElementKind::Real),
                Operand::InputWords(words) | Operand::InOutWords(words) => (words.len(), ElementKind::Words),
                Operand::Output(count) => (*count, ElementKind::Real),
                Operand::OutputWords(count) => (*count, ElementKind::Words),
            };
            TapeBuffer {
                name: format!("operand {index}"),
                elements: (elements + GUARD) as u64,
                kind,
                category: Category::Workspace,
                persistent: true,
            }
        })
        .collect();
    let operands = buffers
        .iter()
        .enumerate()
        .map(|(buffer, description)| BufferWindow { buffer, offset: 0, bytes: description.bytes() })
        .collect();
    let launch = Launch {
        repeats: false,
        kernel,
        design,
        parameters: case.parameters.clone(),
        operands,
        label: format!("{}[{}]", kernel.name, case.name),
    };
    Tape::new(buffers, vec![Segment { name: "case".into(), launches: vec![launch] }])
}

/// The bits of an operand before the launch, guard included.
pub(super) fn contents(operand: &Operand) -> Vec<u32> {
    let nan = f32::NAN.to_bits();
    let (mut bits, guard): (Vec<u32>, u32) = match operand {
        Operand::Input(values) => (bytemuck::cast_slice(values).to_vec(), nan),
        Operand::InputWords(words) => (words.clone(), u32::MAX),
        Operand::Output(count) | Operand::OutputWords(count) => (vec![UNTOUCHED; *count], UNTOUCHED),
        Operand::InOut(values) => (bytemuck::cast_slice(values).to_vec(), UNTOUCHED),
        Operand::InOutWords(words) => (words.clone(), UNTOUCHED),
    };
    bits.extend(std::iter::repeat_n(guard, GUARD));
    bits
}

pub(super) fn holds_words(operand: &Operand) -> bool {
    matches!(operand, Operand::InputWords(_) | Operand::OutputWords(_) | Operand::InOutWords(_))
}

/// The twin with the case's contents, not run yet.
fn twin(kernel: &'static Kernel, case: &Case) -> Result<CpuExecutor<f32>, TapeError> {
    let executor = CpuExecutor::<f32>::new(tape_of(kernel, None, case))?;
    for (buffer, operand) in case.operands.iter().enumerate() {
        let bits = contents(operand);
        match holds_words(operand) {
            true => executor.write_words(buffer, &bits)?,
            false => executor.write(buffer, bytemuck::cast_slice(&bits))?,
        }
    }
    Ok(executor)
}

/// Every operand's bits after the twin has run.
pub struct Reference(Vec<Vec<u32>>);

impl Reference {
    fn of(twin: &CpuExecutor<f32>, case: &Case) -> Result<Self, TapeError> {
        twin.run(0);
        let bits = |buffer: usize| match holds_words(&case.operands[buffer]) {
            true => twin.read_words(buffer),
            false => Ok(bytemuck::cast_slice(&twin.read(buffer)?).to_vec()),
        };
        Ok(Self((0..case.operands.len()).map(bits).collect::<Result<_, _>>()?))
    }
}

/// Runs the twin.
///
/// # Errors
/// A launch that the CPU executor refuses.
pub fn reference(kernel: &'static Kernel, case: &Case) -> Result<Reference, ExecutionError> {
    Ok(Reference::of(&twin(kernel, case)?, case)?)
}

/// Runs the design and returns every operand's bits afterwards.
pub(super) async fn device_results(
    gpu: &Arc<Gpu>,
    pipelines: &mut Pipelines,
    kernel: &'static Kernel,
    design: DesignInfo,
    replaced: Option<&ShaderSource>,
    case: &Case,
) -> Result<Vec<Vec<u32>>, ExecutionError> {
    let tape = tape_of(kernel, Some(design), case);
    let executor = GpuExecutor::with_source(gpu.clone(), tape, pipelines, replaced).await?;
    for (buffer, operand) in case.operands.iter().enumerate() {
        let bits = contents(operand);
        match holds_words(operand) {
            true => executor.write_words(buffer, &bits)?,
            false => executor.write(buffer, bytemuck::cast_slice(&bits))?,
        }
    }
    executor.run(0)?;
    let mut results = Vec::new();
    for buffer in 0..case.operands.len() {
        results.push(executor.read_words(buffer).await?);
    }
    Ok(results)
}

/// Compares what a launch left behind with what the twin left behind; `tolerance` is that of an element of an operand.
fn compare(
    case: &Case,
    writes: &[usize],
    found: &[Vec<u32>],
    expected: &[Vec<u32>],
    tolerance: impl Fn(usize, usize) -> Tolerance,
) -> Outcome {
    let (mut compared, mut misses, mut written, mut nans) = (0, 0, 0, 0);
    let mut worst: Option<Worst> = None;
    for (operand, described) in case.operands.iter().enumerate() {
        let before = contents(described);
        for (index, (&found_bits, &expected_bits)) in found[operand].iter().zip(&expected[operand]).enumerate() {
            compared += 1;
            let in_place = matches!(described, Operand::InOut(_) | Operand::InOutWords(_));
            let logical = index + GUARD < before.len();
            // Untouched elements, inputs and guards must keep their bits.
            let kept = expected_bits == before[index] && !(in_place && logical && writes.contains(&operand));
            let (found_value, expected_value, share) = if kept || holds_words(described) {
                let share = if found_bits == expected_bits { 0.0 } else { f64::INFINITY };
                let value =
                    |bits: u32| if holds_words(described) { f64::from(bits) } else { f64::from(f32::from_bits(bits)) };
                (value(found_bits), value(expected_bits), share)
            } else {
                let (found, expected) =
                    (f64::from(f32::from_bits(found_bits)), f64::from(f32::from_bits(expected_bits)));
                let nan = expected.is_nan() && case.has_nan;
                nans += usize::from(nan);
                if !expected.is_finite() && !nan {
                    let reason = format!("the reference of operand {operand} is {expected} at index {index}");
                    return Outcome::BadReference { reason };
                }
                let share = match nan {
                    true if found.is_nan() && found_bits != UNTOUCHED => 0.0,
                    true => f64::INFINITY,
                    false => tolerance(operand, index).share(found, expected),
                };
                (found, expected, share)
            };
            written += usize::from(!kept);
            misses += usize::from(share.is_nan() || share > 1.0);
            if share > worst.as_ref().map_or(0.0, |worst| worst.share) {
                worst = Some(Worst { operand, index, found: found_value, expected: expected_value, share });
            }
        }
    }
    match worst {
        _ if written == 0 => Outcome::BadReference { reason: "the twin writes nothing".into() },
        _ if case.has_nan && nans == 0 => Outcome::BadReference { reason: "the twin writes no NaN".into() },
        Some(worst) if misses > 0 => Outcome::Missed { worst, misses, compared },
        worst => Outcome::Passed { compared, worst },
    }
}

/// Runs one design on one case and compares it with the twin.
///
/// # Errors
/// A launch that cannot run at all: a broken shader, a device that refuses.
pub async fn run_case(
    gpu: &Arc<Gpu>,
    pipelines: &mut Pipelines,
    kernel: &'static Kernel,
    design: DesignInfo,
    case: &Case,
) -> Result<Outcome, ExecutionError> {
    let expected = reference(kernel, case)?;
    let found = device_results(gpu, pipelines, kernel, design, None, case).await?;
    Ok(compare(case, kernel.writes, &found, &expected.0, |_, _| case.tolerance))
}

/// As [`run_case`], held to the kernel's own error bounds in the place of the case's tolerance.
///
/// # Errors
/// As [`run_case`].
pub async fn run_case_within_bounds(
    gpu: &Arc<Gpu>,
    pipelines: &mut Pipelines,
    kernel: &'static Kernel,
    design: DesignInfo,
    case: &Case,
) -> Result<Outcome, ExecutionError> {
    let twin = twin(kernel, case)?;
    let bounds = twin.error_bounds(&twin.tape().segments[0].launches[0]);
    let expected = Reference::of(&twin, case)?;
    let found = device_results(gpu, pipelines, kernel, design, None, case).await?;
    let bound = |operand: usize, index: usize| {
        let written = kernel.writes.iter().position(|&written| written == operand);
        written.map_or(Tolerance::EXACT, |written| Tolerance::new(bounds[written][index], 0.0))
    };
    Ok(compare(case, kernel.writes, &found, &expected.0, bound))
}

/// As [`run_case`], with the design's shader text replaced (by a mutant that the case should notice) and the twin's
/// results given.
///
/// # Errors
/// As [`run_case`].
pub async fn run_case_with_source(
    gpu: &Arc<Gpu>,
    pipelines: &mut Pipelines,
    kernel: &'static Kernel,
    design: DesignInfo,
    source: &ShaderSource,
    case: &Case,
    expected: &Reference,
) -> Result<Outcome, ExecutionError> {
    let found = device_results(gpu, pipelines, kernel, design, Some(source), case).await?;
    Ok(compare(case, kernel.writes, &found, &expected.0, |_, _| case.tolerance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::unary;

    #[test]
    fn a_nan_passes_where_the_case_has_one_and_the_design_wrote_it() {
        let (nan, other, untouched) = (f32::NAN, -f32::NAN, f32::from_bits(UNTOUCHED));
        let parameters = || unary::Parameters { count: 2, operation: 0, constant: 0.0 };
        for (has_nan, expected, found, passes) in [
            (false, [1.0, 2.0], [1.0, 2.0], true),
            (false, [1.0, 2.0], [1.0, nan], false),
            (false, [1.0, nan], [1.0, nan], false),
            (true, [1.0, nan], [1.0, nan], true),
            (true, [nan, nan], [other, nan], true),
            (true, [1.0, nan], [1.0, 2.0], false),
            (true, [1.0, nan], [1.0, f32::INFINITY], false),
            (true, [1.0, nan], [1.0, untouched], false),
            (true, [1.0, nan], [nan, nan], false),
            (true, [1.0, nan], [1.5, nan], false),
            (true, [1.0, 2.0], [1.0, 2.0], false),
            (true, [f32::INFINITY, nan], [f32::INFINITY, nan], false),
        ] {
            let operands = vec![Operand::Output(2)];
            let case = Case { has_nan, ..Case::new("", parameters(), operands, Tolerance::new(0.1, 0.0)) };
            let bits = |values: [f32; 2]| {
                let guard = std::iter::repeat_n(UNTOUCHED, GUARD);
                vec![values.map(f32::to_bits).into_iter().chain(guard).collect::<Vec<u32>>()]
            };
            let outcome = compare(&case, &[0], &bits(found), &bits(expected), |_, _| case.tolerance);
            assert_eq!(outcome.passed(), passes, "{has_nan} {expected:?} {found:?}: {outcome}");
        }
    }
}
