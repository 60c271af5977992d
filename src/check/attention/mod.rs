//! A learner's attention against attention as textbooks write it, and what is wrong with it where it differs.
//!
//! | part | what it does |
//! |---|---|
//! | [`closed_form`](causal_attention) | the reference: straight loops that share nothing with the graph |
//! | `case` | shapes, sizes and seeds that no known mistake slips through |
//! | `comparison` | outputs and gradients of q, k and v by element, stored in f64 and in f32 |
//! | `weights`, `measures` | attention weights found from outside, and what sums, entropy and logarithms tell of them |
//! | `causality`, `through_model` | outputs before a changed position, of the function and of a model with it |
//! | `dependence` | what moves the output when it alone is replaced: x, q, k, v, another row of the batch |
//! | `not_a_number` | the first line that makes what is not finite, forwards or in its gradient |
//! | `shift` | scores shifted by +100 |
//! | `diagnosis` | sentences made of those numbers |
//! | `line_trace` | the first line that departs from the reference |

mod case;
mod causality;
mod closed_form;
mod comparison;
mod dependence;
mod diagnosis;
mod function;
mod line_trace;
mod measures;
mod not_a_number;
mod report;
mod shift;
#[cfg(test)]
mod tests;
mod through_model;
mod values;
mod weights;

pub use case::{Case, CaseInputs, Shape};
pub use causality::{Causality, Leak};
pub use closed_form::{ClosedForm, causal_attention};
pub use comparison::{Disagreement, NARROW_TOLERANCE, PlantedError, Row, Stored, TENSORS, WIDE_TOLERANCE};
pub use dependence::{Dependence, RowsMix};
pub use diagnosis::{Finding, Kind, Refusal, number, span_words};
pub use line_trace::{Departure, LineTrace, TracedLine, Why};
pub use measures::{Along, DeadRows, Extreme, Fit, FutureWeight, Measures, Product, Span};
pub use report::{Fusion, Measured, Report};
pub use shift::{SHIFT, Shifted};
pub use weights::Source;

use case::{MEASURED, PERTURBED, SHAPES};
use causality::causality;
use comparison::{Comparison, Reference};
use dependence::{dependence, rows_mix};
use diagnosis::{Bad, Evidence, diagnose};
use function::{Runner, TracedFunction, trace};
use line_trace::{first_overflow, line_trace};
use measures::dead_rows;
use not_a_number::{FirstNotFinite, NotFinite, first_not_finite, first_steep};
use shift::{shift, shifted_inputs};
use through_model::through_model;
use values::TensorValues;

use std::sync::Arc;

use crate::check::leak::LeakError;
use crate::gpu::Pipelines;
use crate::graph::{EvaluationError, GraphError};
use crate::script::{Script, ScriptError, Tracer};
use crate::tape::RunOn;

/// A check that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The script runs on no shape that was tried.
    #[error(transparent)]
    Script(#[from] ScriptError),
    #[error("attention cannot be differentiated: {0}")]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    #[error(transparent)]
    Model(#[from] LeakError),
}

/// What is to be checked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub script: &'a Script,
    /// A function in the closed form's place.
    pub against: Option<&'a Script>,
    /// Inputs are drawn by this seed and the next.
    pub seed: u64,
    pub trace: bool,
    /// A gradient that is made wrong on purpose.
    pub planted: Option<PlantedError>,
}

/// Checks a script. `on` is what the f32 column runs on; f64 runs on the CPU.
///
/// # Errors
/// A script that runs on no shape, an op without a gradient, a device that fails.
pub async fn check(request: &Request<'_>, tracer: &Arc<dyn Tracer>, on: &RunOn) -> Result<Report, CheckError> {
    let seed = request.seed;
    let mut pipelines = Pipelines::default();
    let (functions, mut refusals) = traced(&**tracer, request.script, seed)?;
    let mut comparison = Comparison::default();
    match request.against {
        None => {
            for function in &functions {
                let cases = cases(&function.shape, seed);
                let run = (on, &mut pipelines);
                comparison.add(function, Reference::ClosedForm, &cases, request.planted, run).await?;
            }
        }
        Some(other) => {
            let (others, other_refusals) = traced(&**tracer, other, seed)?;
            // What both refuse is no difference.
            refusals.retain(|refusal| others.iter().any(|other| other.shape == refusal.shape));
            let runs = |shape: &Shape| functions.iter().any(|function| function.shape == *shape);
            refusals.extend(other_refusals.into_iter().filter(|refusal| runs(&refusal.shape)));
            for function in &functions {
                let Some(other) = others.iter().find(|other| other.shape == function.shape) else { continue };
                let cases = cases(&function.shape, seed);
                let run = (on, &mut pipelines);
                comparison.add(function, Reference::Function(other), &cases, request.planted, run).await?;
            }
        }
    }
    let first = &functions[0];
    let mut report = Report {
        file: request.script.file.clone(),
        against: request.against.map(|other| other.file.clone()),
        passed: false,
        inputs: comparison.inputs,
        rows: comparison.rows,
        refusals,
        findings: Vec::new(),
        measured: None,
        causality: Vec::new(),
        through_model: None,
        dependence: None,
        rows_mix: None,
        shifted: None,
        parameters: first.recording.parameters.iter().map(|parameter| parameter.name.clone()).collect(),
        fusion: comparison.rewrites.into_iter().map(fusion).collect(),
        trace: None,
        printed: first.recording.printed.clone(),
    };
    if request.against.is_none() {
        report.through_model = through_model(request.script, tracer, seed).await?;
        measure(&mut report, &functions, seed, on, &mut pipelines).await?;
    } else if request.trace {
        report.trace = Some(trace_lines(&report, &functions, seed, &mut pipelines).await?);
    }
    report.passed = report.inputs > 0
        && report.rows.iter().all(|row| row.agrees)
        && report.refusals.is_empty()
        && !report.through_model.is_some_and(|found| found.sees_the_future())
        && !report.findings.iter().any(|finding| finding.mistake);
    if !request.trace {
        report.trace = None;
    }
    Ok(report)
}

fn fusion(report: crate::graph::RewriteReport) -> Fusion {
    match report.outcome {
        Ok(words) => Fusion { fused: true, words: words.into() },
        Err(words) => Fusion { fused: false, words },
    }
}

/// The function on every shape that it runs on, and the shapes that it refuses.
fn traced(tracer: &dyn Tracer, script: &Script, seed: u64) -> Result<(Vec<TracedFunction>, Vec<Refusal>), ScriptError> {
    let (mut functions, mut refusals) = (Vec::new(), Vec::new());
    for (index, &(shape, _)) in SHAPES.iter().enumerate() {
        match trace(tracer, script, shape, seed) {
            Ok(function) => functions.push(function),
            Err(error) => refusals.push(Refusal { shape, error }),
        }
        // One shape has T = d_head and the other has not. What is no line's fault is no shape's either.
        let no_line = refusals.last().is_some_and(|refusal| refusal.error.line == 0);
        if functions.is_empty() && (index == 1 || no_line) {
            break;
        }
    }
    match functions.is_empty() {
        true => Err(refusals.swap_remove(0).error),
        false => Ok((functions, refusals)),
    }
}

/// A shape's sets of inputs: each standard deviation with a seed of its own.
fn cases(shape: &Shape, seed: u64) -> Vec<Case> {
    let spreads = SHAPES.iter().find(|(known, _)| known == shape).map_or(&[][..], |&(_, spreads)| spreads);
    let with_seed =
        |(index, &spread): (usize, &f64)| Case { shape: *shape, spread, seed: seed.wrapping_add(index as u64) };
    spreads.iter().enumerate().map(with_seed).collect()
}

/// The function of a shape, or of the first that it runs on.
fn function_of<'a>(functions: &'a [TracedFunction], shape: &Shape) -> &'a TracedFunction {
    functions.iter().find(|function| function.shape == *shape).unwrap_or(&functions[0])
}

/// A function's output alone: as it is written in f64, and as training runs it in f32.
async fn output_runners(
    function: &TracedFunction,
    on: &RunOn,
    pipelines: &mut Pipelines,
) -> Result<(Runner, Runner), CheckError> {
    let output = [function.replayed.output];
    let wide = function.runner(&output, &RunOn::CpuWide, pipelines).await?;
    let mut rewritten = function.clone();
    rewritten.rewrite();
    Ok((wide, rewritten.runner(&output, on, pipelines).await?))
}

/// Measures a function and says what is wrong with it.
async fn measure(
    report: &mut Report,
    functions: &[TracedFunction],
    seed: u64,
    on: &RunOn,
    pipelines: &mut Pipelines,
) -> Result<(), CheckError> {
    let unit = |function: &TracedFunction| Case { shape: function.shape, spread: 1.0, seed };
    let perturbed = function_of(functions, &PERTURBED);
    let case = unit(perturbed);
    let (wide, narrow) = output_runners(perturbed, on, pipelines).await?;
    let every = || 1..case.shape.length;
    report.causality = vec![
        causality(&wide, case, Stored::F64, every()).await?,
        causality(&narrow, case, Stored::F32, every()).await?,
    ];
    // What looks ahead in long windows alone shows at a few positions of the longest.
    if let Some(long) = functions.iter().max_by_key(|function| function.shape.length)
        && long.shape != perturbed.shape
    {
        let output = long.runner(&[long.replayed.output], &RunOn::CpuWide, pipelines).await?;
        let length = long.shape.length;
        let few = [1, 2, length / 2, length - 1].into_iter();
        report.causality.push(causality(&output, unit(long), Stored::F64, few).await?);
    }
    let dependence = dependence(perturbed, &wide, case).await?;
    let mut mixes = None;
    if let Some(function) = functions.iter().find(|function| function.shape.batch > 1) {
        let output = function.runner(&[function.replayed.output], &RunOn::CpuWide, pipelines).await?;
        mixes = rows_mix(&output, unit(function)).await?;
    }
    report.shifted = shift(&wide, &narrow, case).await?;

    let function = function_of(functions, &MEASURED);
    let case = unit(function);
    let inputs = CaseInputs::draw(&case);
    let values = TensorValues::of(function, &inputs, &RunOn::CpuWide, pipelines).await?;
    let output = function.runner(&[function.replayed.output], &RunOn::CpuWide, pipelines).await?;
    let weights = weights::weights(function, &inputs, &values, &output).await?;
    let mut theirs = weights.as_ref().and_then(|weights| Measures::of(&case.shape, &inputs, &weights.values));
    if let Some(theirs) = &mut theirs {
        theirs.dead_rows = dead_rows_of(function, &inputs, &values, pipelines).await?;
    }
    let reference = Measures::of_reference(&case.shape, &inputs, &causal_attention(&case.shape, &inputs));

    let not_finite = not_finite(report, functions, pipelines).await?;
    let overflow = overflow(report, functions, on, pipelines).await?;
    let mut trace = trace_lines(report, functions, seed, pipelines).await?;
    if trace.departure.is_none() {
        trace.departure = overflow.clone().filter(|_| report.in_f32_only().is_none());
    }
    let evidence = Evidence {
        accepted: functions.iter().map(|function| function.shape).collect(),
        refusals: &report.refusals,
        rows: &report.rows,
        agrees: report.agrees(Stored::F64),
        not_finite: not_finite.as_ref(),
        overflow: overflow.as_ref(),
        measures: theirs.as_ref().zip(reference.as_ref()),
        observed_differs_by: weights.as_ref().and_then(|weights| weights.observed_differs_by),
        causality: &report.causality,
        leaks_through_model: report.through_model.is_some_and(|found| found.sees_the_future()),
        dependence: dependence.as_ref(),
        rows_mix: mixes.as_ref(),
        shifted: report.shifted.as_ref(),
        shape: Some(case.shape),
        learns: !report.parameters.is_empty(),
        trace: Some(&trace),
    };
    report.findings = diagnose(&evidence);
    report.measured = Some(Measured { case, source: weights.map(|weights| weights.source), theirs, reference });
    (report.dependence, report.rows_mix, report.trace) = (dependence, mixes, Some(trace));
    Ok(())
}

/// Where what is not finite in the output or a gradient comes from, in f64.
async fn not_finite(
    report: &Report,
    functions: &[TracedFunction],
    pipelines: &mut Pipelines,
) -> Result<Option<Bad>, CheckError> {
    let Some(row) = report.rows.iter().find(|row| row.stored == Stored::F64 && !row.worst.theirs.is_finite()) else {
        return Ok(None);
    };
    let function = function_of(functions, &row.worst.case.shape);
    let inputs = CaseInputs::draw(&row.worst.case);
    let values = TensorValues::of(function, &inputs, &RunOn::CpuWide, pipelines).await?;
    let forwards = |what| first_not_finite(function, &values, what);
    let line: Option<FirstNotFinite> = match row.tensor {
        "output" => forwards(NotFinite::Nan).or_else(|| forwards(NotFinite::Infinite)),
        _ => None,
    };
    let steep = match line.is_none() {
        true => first_steep(function, &inputs, pipelines).await?,
        false => None,
    };
    Ok(Some(Bad { tensor: row.tensor, line, steep }))
}

/// The first line that is not finite in f32 where f64 is: on the inputs of the table, or else on shifted scores.
async fn overflow(
    report: &Report,
    functions: &[TracedFunction],
    on: &RunOn,
    pipelines: &mut Pipelines,
) -> Result<Option<Departure>, CheckError> {
    let of_shift = || {
        let shifted = report.shifted.as_ref().filter(|shifted| shifted.overflows())?;
        Some((shifted.case, shifted_inputs(&shifted.case).1))
    };
    let of_row = |row: &Row| (row.worst.case, CaseInputs::draw(&row.worst.case));
    let Some((case, inputs)) = report.in_f32_only().map(of_row).or_else(of_shift) else { return Ok(None) };
    let function = function_of(functions, &case.shape);
    Ok(first_overflow(function, &TensorValues::of(function, &inputs, on, pipelines).await?))
}

/// How much gradient passes from the weights to the scores, where both are tensors of the function.
async fn dead_rows_of(
    function: &TracedFunction,
    inputs: &CaseInputs,
    values: &TensorValues,
    pipelines: &mut Pipelines,
) -> Result<Option<DeadRows>, CheckError> {
    let weights = weights::observed(function, values, "weights").or_else(|| weights::operand(function, values));
    let scores = weights::observed(function, values, "scores");
    let (Some(weights), Some(scores)) =
        (weights.and_then(|id| function.tensor(id)), scores.and_then(|id| function.tensor(id)))
    else {
        return Ok(None);
    };
    let mut function = function.clone();
    let gradients = function.differentiate(&[weights, scores])?;
    let found = function.runner(&gradients, &RunOn::CpuWide, pipelines).await?.run(inputs).await?;
    let [weights, scores] = found.as_slice() else { return Ok(None) };
    Ok(dead_rows(&function.shape, weights.values(), scores.values()))
}

/// The function line by line, on inputs where it differs from the reference if there are any.
async fn trace_lines(
    report: &Report,
    functions: &[TracedFunction],
    seed: u64,
    pipelines: &mut Pipelines,
) -> Result<LineTrace, CheckError> {
    let differing = report.rows.iter().find(|row| row.stored == Stored::F64 && !row.agrees);
    // Sizes that tell axes apart.
    let plain = Case { shape: SHAPES[1].0, spread: 1.0, seed };
    let case = differing.map_or(plain, |row| row.worst.case);
    let function = function_of(functions, &case.shape);
    let case = Case { shape: function.shape, ..case };
    let inputs = CaseInputs::draw(&case);
    let values = TensorValues::of(function, &inputs, &RunOn::CpuWide, pipelines).await?;
    // Beside another function nothing departs from the closed form that need not.
    let agrees = report.against.is_some() || report.agrees(Stored::F64);
    Ok(line_trace(function, case, &inputs, &values, agrees))
}
