//! Two attentions on the same inputs, tensor by tensor.

use serde::Serialize;

use super::CheckError;
use super::case::{Case, CaseInputs, Shape};
use super::closed_form::causal_attention;
use super::function::{Runner, TracedFunction};
use crate::gpu::Pipelines;
use crate::graph::RewriteReport;
use crate::tape::RunOn;

/// What is compared: the output, and the gradients of the loss. That of x only between two functions: the closed form
/// has no x.
pub const TENSORS: [&str; 5] = ["output", "dq", "dk", "dv", "dx"];

/// Allowed in f64: of the tensor's largest value. Sums of 64 products in another order differ by some 1e-15; a mistake
/// is larger by ten powers of ten.
pub const WIDE_TOLERANCE: f64 = 1e-9;

/// Allowed in f32 where scores are small: parity's tolerance by element.
pub const NARROW_TOLERANCE: f64 = 1e-5;

/// Beyond scores of this size the f32 tolerance grows with them. WGSL grants `exp(x)` an error of (3 + 2 |x|) units of
/// 2^-23, and x is a score less the largest of its row, so twice as large as a score may be: for scores of 8 a weight may
/// be off by 35 units, 4e-6 of itself, and a gradient, which is made of two weights, by 8e-6. Software that rounds better
/// stays far below: the built-in attention uses less than a quarter (a test holds it to that).
const SCORE_OF_NARROW_TOLERANCE: f64 = 8.0;

/// Gradients of queries and keys pass through `dw - sum(w dw)`, whose terms have the size of |do| |v|, and are multiplied
/// by keys and queries. Where a softmax is nearly one-hot these cancel, and what is left in f32 is their rounding: so many
/// parts of the size of the terms are always allowed, four roundings of 2^-24.
const CANCELLATION: f64 = 1.0 / (1 << 22) as f64;

/// The rounding that is left of gradients that cancel.
fn cancellation(shape: &Shape, inputs: &CaseInputs) -> f64 {
    let largest = |tensor: &[f64]| tensor.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let dot = largest(&inputs.output_gradient) * largest(&inputs.value) * (shape.head_width as f64).sqrt();
    CANCELLATION * shape.scale() * largest(&inputs.query).max(largest(&inputs.key)) * dot
}

/// How numbers were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stored {
    /// On the CPU, by the kernels' twins.
    F64,
    /// On what the check was asked to run on.
    F32,
}

/// A gradient that is planted wrong, to see that the check notices.
#[derive(Clone, Copy, Debug)]
pub struct PlantedError {
    /// One of [`TENSORS`].
    pub tensor: &'static str,
    pub factor: f64,
}

/// The largest disagreement of one tensor over all cases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Disagreement {
    pub case: Case,
    /// In `[B, T, d]`.
    pub index: [usize; 3],
    pub theirs: f64,
    pub reference: f64,
    /// Difference over the largest value of the reference's tensor.
    pub relative: f64,
    /// The most that `relative` may be.
    pub allowed: f64,
}

impl Disagreement {
    /// Of the tolerance; infinite where something is not a number.
    pub fn share(&self) -> f64 {
        let share = self.relative / self.allowed;
        if share.is_nan() { f64::INFINITY } else { share }
    }
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub tensor: &'static str,
    pub stored: Stored,
    pub agrees: bool,
    pub worst: Disagreement,
}

/// What stands in the table's column of what is right.
pub enum Reference<'a> {
    ClosedForm,
    /// Another function, which was traced for the same shape.
    Function(&'a TracedFunction),
}

/// The table in the making.
#[derive(Debug, Default)]
pub struct Comparison {
    pub rows: Vec<Row>,
    /// Sets of inputs compared.
    pub inputs: usize,
    /// What became of the attention where it was rewritten for f32, for the first shape.
    pub rewrites: Vec<RewriteReport>,
}

/// A function of one shape, set up in both forms.
struct Both {
    wide: Runner,
    narrow: Runner,
    rewrites: Vec<RewriteReport>,
}

impl Both {
    async fn new(function: &TracedFunction, on: &RunOn, pipelines: &mut Pipelines) -> Result<Self, CheckError> {
        let wide = differentiated(function, false, &RunOn::CpuWide, pipelines).await?.0;
        let (narrow, rewrites) = differentiated(function, true, on, pipelines).await?;
        Ok(Self { wide, narrow, rewrites })
    }
}

/// A runner of all [`TENSORS`]. Rewritten, it is what training runs.
async fn differentiated(
    function: &TracedFunction,
    rewritten: bool,
    on: &RunOn,
    pipelines: &mut Pipelines,
) -> Result<(Runner, Vec<RewriteReport>), CheckError> {
    let mut function = function.clone();
    let reports = if rewritten { function.rewrite() } else { Vec::new() };
    let [x, query, key, value] = function.arguments();
    let mut outputs = vec![function.replayed.output];
    outputs.extend(function.differentiate(&[query, key, value, x])?);
    Ok((function.runner(&outputs, on, pipelines).await?, reports))
}

impl Comparison {
    /// Compares a function on one shape.
    ///
    /// # Errors
    /// An op without a gradient, a device that fails.
    pub async fn add(
        &mut self,
        function: &TracedFunction,
        reference: Reference<'_>,
        cases: &[Case],
        planted: Option<PlantedError>,
        (on, pipelines): (&RunOn, &mut Pipelines),
    ) -> Result<(), CheckError> {
        let both = Both::new(function, on, pipelines).await?;
        if self.inputs == 0 {
            self.rewrites.clone_from(&both.rewrites);
        }
        let other = match reference {
            Reference::ClosedForm => None,
            Reference::Function(other) => Some(differentiated(other, false, &RunOn::CpuWide, pipelines).await?.0),
        };
        for case in cases {
            let inputs = CaseInputs::draw(case);
            let form = causal_attention(&case.shape, &inputs);
            let expected: Vec<Vec<f64>> = match &other {
                None => vec![form.output, form.query_gradient, form.key_gradient, form.value_gradient],
                Some(other) => other.run(&inputs).await?.iter().map(|tensor| tensor.values().to_vec()).collect(),
            };
            let largest_score = form.scores.iter().fold(0.0, |largest: f64, score| largest.max(score.abs()));
            let narrow = NARROW_TOLERANCE * (largest_score / SCORE_OF_NARROW_TOLERANCE).max(1.0);
            let rounding = cancellation(&case.shape, &inputs);
            for (stored, runner, allowed, rounding) in
                [(Stored::F64, &both.wide, WIDE_TOLERANCE, 0.0), (Stored::F32, &both.narrow, narrow, rounding)]
            {
                let found = runner.run(&inputs).await?;
                for ((tensor, found), expected) in TENSORS.into_iter().zip(&found).zip(&expected) {
                    let factor =
                        planted.filter(|planted| planted.tensor == tensor).map_or(1.0, |planted| planted.factor);
                    let found: Vec<f64> = found.values().iter().map(|value| value * factor).collect();
                    self.enter(
                        tensor,
                        stored,
                        worst(case, &found, expected, (allowed, if tensor == "output" { 0.0 } else { rounding })),
                    );
                }
            }
            self.inputs += 1;
        }
        Ok(())
    }

    /// Keeps the larger share of its tolerance.
    fn enter(&mut self, tensor: &'static str, stored: Stored, worst: Disagreement) {
        let agrees = worst.share() <= 1.0;
        let row = self.rows.iter_mut().find(|row| row.tensor == tensor && row.stored == stored);
        match row {
            Some(row) if row.worst.share() >= worst.share() => {}
            Some(row) => (row.agrees, row.worst) = (agrees, worst),
            None => self.rows.push(Row { tensor, stored, agrees, worst }),
        }
    }
}

/// The largest disagreement of two tensors; what is no number in one of them disagrees most. Allowed are a part of the
/// largest value and, if that is more, an absolute number.
fn worst(case: &Case, found: &[f64], expected: &[f64], (part, absolute): (f64, f64)) -> Disagreement {
    let largest =
        expected.iter().filter(|value| value.is_finite()).fold(0.0, |largest: f64, value| largest.max(value.abs()));
    // Gradients of queries and keys are all 0 where a query sees a single key.
    let unit = if largest > 0.0 { largest } else { 1.0 };
    let allowed = part.max(absolute / unit);
    let relative = |(&found, &expected): (&f64, &f64)| -> f64 {
        let same = found == expected || (found.is_nan() && expected.is_nan());
        let difference = if same { 0.0 } else { (found - expected).abs() / unit };
        if difference.is_nan() { f64::INFINITY } else { difference }
    };
    let differences: Vec<f64> = found.iter().zip(expected).map(relative).collect();
    // The first of equals.
    let at =
        differences.iter().enumerate().fold(0, |best, (at, value)| if *value > differences[best] { at } else { best });
    let Shape { length, .. } = case.shape;
    let width = case.shape.width();
    let value = |tensor: &[f64]| tensor.get(at).copied().unwrap_or(f64::NAN);
    Disagreement {
        case: *case,
        index: [at / (length * width), at / width % length, at % width],
        theirs: value(found),
        reference: value(expected),
        relative: differences.get(at).copied().unwrap_or(f64::INFINITY),
        allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_element_is_found_and_what_is_no_number_is_worst_of_all() {
        let shape = Shape { batch: 1, length: 2, heads: 1, head_width: 2, layer: 0 };
        let case = Case { shape, spread: 1.0, seed: 0 };
        for (found, expected, index, relative) in [
            ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], [0, 0, 0], 0.0),
            ([1.0, 2.0, 2.0, 4.0], [1.0, 2.0, 3.0, 4.0], [0, 1, 0], 0.25),
            ([1.0, f64::NAN, 9.0, 4.0], [1.0, 2.0, 3.0, 4.0], [0, 0, 1], f64::INFINITY),
            ([0.0, f64::INFINITY, 0.0, 0.0], [0.0; 4], [0, 0, 1], f64::INFINITY),
            ([0.0, 0.0, 0.0, 0.5], [0.0; 4], [0, 1, 1], 0.5),
            ([f64::NAN; 4], [f64::NAN; 4], [0, 0, 0], 0.0),
        ] {
            let worst = worst(&case, &found, &expected, (1e-9, 0.0));
            assert_eq!((worst.index, worst.relative), (index, relative), "{found:?}");
        }
    }
}
