//! What is wrong, named from what was measured. Nothing here looks at the text of a script.

mod dependence;
mod finite;
mod mask;
mod scale;
mod sums;
mod weights;
mod words;

use serde::Serialize;

use self::dependence::depends;
use self::finite::{in_f32, not_finite};
use self::weights::of_weights;
use super::case::Shape;
use super::causality::{Causality, Leak};
use super::comparison::{Row, Stored};
use super::dependence::{Dependence, RowsMix};
use super::line_trace::{Departure, LineTrace, Why};
use super::measures::Measures;
use super::not_a_number::FirstNotFinite;
use super::shift::{SHIFT, Shifted};
use crate::script::ScriptError;

pub use self::words::{number, span_words};

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    RefusesShapes,
    NotANumber,
    /// In f32, of finite inputs.
    Overflows,
    DependsOnOther,
    MissingTranspose,
    WeightsTransposed,
    QueryAndKeySwapped,
    WrongAxis,
    NoSoftmax,
    PlainAverage,
    MaskAfterSoftmax,
    LooksAhead,
    NoMask,
    NotItself,
    ScoresTooLarge,
    ScoresTooSmall,
    ScoresNegated,
    NoRowMaximum,
    LosesDigits,
    Leaks,
    RowsMix,
    /// The first line that is not the closed form's.
    Departs,
    /// Differences that need be no mistake.
    Differs,
}

/// One sentence with its number, its place and what to look at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    pub kind: Kind,
    /// Whether it is a mistake; what merely differs is none.
    pub mistake: bool,
    pub sentence: String,
}

/// What was found so far, the cause before its consequences.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, kind: Kind, mistake: bool, sentence: String) {
        self.0.push(Finding { kind, mistake, sentence });
    }
}

/// A shape that the script, or one of its ops, refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refusal {
    pub shape: Shape,
    pub error: ScriptError,
}

/// What is not finite in f64, and the line that makes it so.
#[derive(Clone, Debug)]
pub struct Bad {
    /// One of the table's.
    pub tensor: &'static str,
    pub line: Option<FirstNotFinite>,
    /// The line and op whose gradient it is.
    pub steep: Option<(u32, String)>,
}

/// All that was measured of a function.
#[derive(Clone, Debug, Default)]
pub struct Evidence<'a> {
    pub accepted: Vec<Shape>,
    pub refusals: &'a [Refusal],
    pub rows: &'a [Row],
    /// Whether output and gradients are the closed form's, in f64.
    pub agrees: bool,
    pub not_finite: Option<&'a Bad>,
    /// The first line that is not finite in f32 although the output is in f64.
    pub overflow: Option<&'a Departure>,
    /// Theirs and the closed form's, on the same inputs.
    pub measures: Option<(&'a Measures, &'a Measures)>,
    pub observed_differs_by: Option<f64>,
    pub causality: &'a [Causality],
    pub leaks_through_model: bool,
    pub dependence: Option<&'a Dependence>,
    pub rows_mix: Option<&'a RowsMix>,
    pub shifted: Option<&'a Shifted>,
    /// What the measures are of.
    pub shape: Option<Shape>,
    /// Whether it learns parameters of its own: then a factor of the scores is a choice.
    pub learns: bool,
    pub trace: Option<&'a LineTrace>,
}

/// Names what is wrong, the cause before its consequences.
pub fn diagnose(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut findings = Findings::default();
    if let Some(sentence) = refused(evidence) {
        findings.add(Kind::RefusesShapes, true, sentence);
    }
    if let Some(bad) = evidence.not_finite {
        findings.add(Kind::NotANumber, true, not_finite(bad));
        if bad.tensor == "output" {
            // Whatever else is measured of NaN, or of what became of it, says nothing.
            return findings.0;
        }
    }
    // A softmax over one row of a batch is 1 whatever the scores: that row alone does not tell what the output depends on.
    let over_batch = evidence.rows_mix.is_some() && evidence.measures.is_some_and(|(measures, _)| measures.only_ones);
    if let Some(dependence) = evidence.dependence.filter(|_| !over_batch) {
        depends(evidence, dependence, &mut findings);
    }
    let leak = evidence.causality.iter().find(|causality| causality.moved > 0);
    // Where the values count for nothing there are no weights to speak of.
    let nothing = |measures: &Measures| measures.row_sums.is(0.0) && measures.least >= 0.0;
    if let Some((measures, reference)) = evidence.measures.filter(|(measures, _)| !nothing(measures)) {
        of_weights(evidence, measures, reference, leak.is_some(), &mut findings);
    }
    in_f32(evidence, &mut findings);
    if let Some((causality, leak)) = leak.and_then(|causality| Some((causality, causality.worst?))) {
        findings.add(Kind::Leaks, true, leaks(evidence, causality, &leak));
    }
    if let Some(mix) = evidence.rows_mix {
        findings.add(
            Kind::RowsMix,
            true,
            format!(
                "rows of the batch mix: changing row 0 of {} moves the outputs of other rows by up to {}, and texts that \
                 happen to share a batch have nothing to do with each other. Does an op run over axis 0?",
                mix.case.shape.batch,
                number(mix.by)
            ),
        );
    } else if evidence.leaks_through_model && leak.is_none() {
        findings.add(
            Kind::Leaks,
            true,
            "in a model of two layers earlier positions move when later tokens change, although they do not in one call \
             with random inputs: does it do something else for some lengths, layers or inputs?"
                .into(),
        );
    }
    if let Some(far) = evidence.observed_differs_by.filter(|&far| far.is_nan() || far > 1e-9) {
        findings.add(
            Kind::Differs,
            false,
            format!(
                "what is observed as 'weights' is not what the values are multiplied by in the end: they differ by up to {}",
                number(far)
            ),
        );
    }
    if let Some(sentence) = departs(evidence) {
        findings.add(Kind::Departs, false, sentence);
    }
    findings.0
}

/// The first line that is not the reference's, or what is returned in the output's place.
fn departs(evidence: &Evidence<'_>) -> Option<String> {
    let output_differs =
        evidence.rows.iter().any(|row| row.stored == Stored::F64 && row.tensor == "output" && !row.agrees);
    let trace = evidence.trace.filter(|_| output_differs)?;
    match (trace.departure.as_ref().filter(|departure| departure.why == Why::Value), trace.returns.as_deref()) {
        (Some(departure), _) => Some(departure.words(SHIFT)),
        (None, Some("output")) => Some(
            "every line is the reference's, and what is returned is its output with its axes in another order: how are the \
             heads put together?"
                .into(),
        ),
        (None, Some(name)) => Some(format!("what is returned is ({name}), and not the output")),
        (None, None) => None,
    }
}

fn leaks(evidence: &Evidence<'_>, causality: &Causality, leak: &Leak) -> String {
    let Leak { changed, moved, by } = leak;
    let found = format!(
        "changing position {changed} moves the output at position {moved} by {}, and {} of {} such pairs move (none may)",
        number(*by),
        causality.moved,
        causality.pairs
    );
    match evidence.agrees {
        true => format!(
            "the future leaks through rounding: {found}. Later scores enter a sum or a maximum that should leave them out, \
             and one that is much larger than the rest takes all weight from what is visible"
        ),
        false => format!(
            "the future leaks: {found}: a model that trains with this sees what it is to predict, so its loss is too good \
             to be true"
        ),
    }
}

fn refused(evidence: &Evidence<'_>) -> Option<String> {
    let first = evidence.refusals.first()?;
    let square = |shape: &Shape| shape.length == shape.head_width;
    let only_square =
        evidence.accepted.iter().all(square) && !evidence.refusals.iter().any(|refusal| square(&refusal.shape));
    let (count, all) = (evidence.refusals.len(), evidence.refusals.len() + evidence.accepted.len());
    Some(match only_square {
        true => format!(
            "it runs only where T = d_head, and refuses {count} of {all} shapes: a [T, d_head] stands where a [d_head, T] \
             belongs, or the other way round; at {} it says: {}",
            first.shape, first.error
        ),
        false => format!("it refuses {count} of {all} shapes; at {} it says: {}", first.shape, first.error),
    })
}
