//! What is wrong, named from what was measured. Nothing here looks at the text of a script.

use serde::Serialize;

use super::case::Shape;
use super::causality::{Causality, Leak};
use super::comparison::{Row, Stored};
use super::dependence::{Dependence, RowsMix};
use super::line_trace::{Departure, LineTrace, Why};
use super::measures::{Along, Extreme, Fit, Measures, Product, Span};
use super::not_a_number::{FirstNotFinite, NotFinite};
use super::shift::{SHIFT, SHIFT_TOLERANCE, Shifted};
use crate::script::ScriptError;

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

/// A number for a sentence: four digits that count.
pub fn number(value: f64) -> String {
    let size = value.abs();
    match () {
        // Of both zeros.
        () if value == 0.0 => "0".into(),
        () if !value.is_finite() => format!("{value}"),
        () if !(1e-3..1e5).contains(&size) => format!("{value:.1e}"),
        () => {
            let digits = (3 - size.log10().floor() as i32).clamp(1, 5) as usize;
            let text = format!("{value:.digits$}");
            // At least one digit stays behind the point.
            let short = text.trim_end_matches('0');
            if short.ends_with('.') { format!("{short}0") } else { short.into() }
        }
    }
}

/// Two numbers, with as many digits as tell them apart.
pub fn span_words(least: f64, largest: f64) -> [String; 2] {
    let short = [least, largest].map(number);
    if short[0] != short[1] || (largest - least).abs() <= 1e-9 * largest.abs() {
        return short;
    }
    [least, largest].map(|value| format!("{value:.10}"))
}

fn percent(share: f64) -> String {
    format!("{:.0}%", 100.0 * share)
}

fn row(extreme: &Extreme) -> String {
    format!("head {}, row {}", extreme.head, extreme.line)
}

/// Names what is wrong, the cause before its consequences.
pub fn diagnose(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |kind: Kind, mistake: bool, sentence: String| findings.push(Finding { kind, mistake, sentence });
    if let Some(sentence) = refused(evidence) {
        add(Kind::RefusesShapes, true, sentence);
    }
    if let Some(bad) = evidence.not_finite {
        add(Kind::NotANumber, true, not_finite(bad));
        if bad.tensor == "output" {
            // Whatever else is measured of NaN, or of what became of it, says nothing.
            return findings;
        }
    }
    // A softmax over one row of a batch is 1 whatever the scores: that row alone does not tell what the output depends on.
    let over_batch = evidence.rows_mix.is_some() && evidence.measures.is_some_and(|(measures, _)| measures.only_ones);
    if let Some(dependence) = evidence.dependence.filter(|_| !over_batch) {
        depends(evidence, dependence, &mut add);
    }
    let leak = evidence.causality.iter().find(|causality| causality.moved > 0);
    // Where the values count for nothing there are no weights to speak of.
    let nothing = |measures: &Measures| measures.row_sums.is(0.0) && measures.least >= 0.0;
    if let Some((measures, reference)) = evidence.measures.filter(|(measures, _)| !nothing(measures)) {
        of_weights(evidence, measures, reference, leak.is_some(), &mut add);
    }
    in_f32(evidence, &mut add);
    if let Some((causality, leak)) = leak.and_then(|causality| Some((causality, causality.worst?))) {
        add(Kind::Leaks, true, leaks(evidence, causality, &leak));
    }
    if let Some(mix) = evidence.rows_mix {
        add(
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
        add(
            Kind::Leaks,
            true,
            "in a model of two layers earlier positions move when later tokens change, although they do not in one call \
             with random inputs: does it do something else for some lengths, layers or inputs?"
                .into(),
        );
    }
    if let Some(far) = evidence.observed_differs_by.filter(|&far| far.is_nan() || far > 1e-9) {
        add(
            Kind::Differs,
            false,
            format!(
                "what is observed as 'weights' is not what the values are multiplied by in the end: they differ by up to {}",
                number(far)
            ),
        );
    }
    if let Some(sentence) = departs(evidence) {
        add(Kind::Departs, false, sentence);
    }
    findings
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

fn depends(evidence: &Evidence<'_>, dependence: &Dependence, add: &mut impl FnMut(Kind, bool, String)) {
    let (missing, extra) = dependence.differences();
    if missing.is_empty() {
        return;
    }
    let mut sentence = format!("the output does not depend on {}, although the reference does", missing.join(" and "));
    if !extra.is_empty() {
        sentence.push_str(&format!(", and it depends on {}, which the reference does not read", extra.join(" and ")));
    }
    let cancelled: Vec<&str> = dependence.cancelled().into_iter().filter(|name| missing.contains(name)).collect();
    if !cancelled.is_empty() {
        sentence.push_str(&format!(": it is made of {}, and yet does not move with it", cancelled.join(" and ")));
    }
    // Values may be made of x; of queries or keys they are a slip of the pen.
    let no_values = !dependence.on_value() && !dependence.on_input();
    if no_values {
        sentence.push_str(": what do the weights multiply?");
    }
    add(Kind::DependsOnOther, no_values || (!cancelled.is_empty() && !evidence.learns), sentence);
}

/// What goes wrong in f32 alone.
fn in_f32(evidence: &Evidence<'_>, add: &mut impl FnMut(Kind, bool, String)) {
    let line = |otherwise: &str| match evidence.overflow {
        Some(departure) => format!("line {}, {}, is the first that is not finite", departure.line, departure.op),
        None => otherwise.into(),
    };
    let bad = |stored: Stored| evidence.rows.iter().find(|row| row.stored == stored && !row.worst.theirs.is_finite());
    if let Some(row) = bad(Stored::F32).filter(|_| bad(Stored::F64).is_none()) {
        let tensor = row.tensor;
        add(
            Kind::Overflows,
            true,
            format!(
                "{tensor} is finite in f64 and not in f32, whose largest number is 3.4e38: {}",
                line("no line of the function is not finite by itself, a gradient or the fused kernel is")
            ),
        );
        return;
    }
    let differs = |row: &&Row| row.stored == Stored::F32 && !row.agrees;
    if let Some(row) = evidence.rows.iter().find(differs).filter(|_| evidence.agrees) {
        add(
            Kind::LosesDigits,
            false,
            format!(
                "it is the reference in f64, and in f32 {} lies {} of the largest value from it ({} are allowed): digits are \
                 lost where large numbers nearly cancel",
                row.tensor,
                number(row.worst.relative),
                number(row.worst.allowed)
            ),
        );
    }
    let Some(shifted) = evidence.shifted else { return };
    let exponential = evidence.overflow.is_some_and(|departure| departure.op == "exp");
    if shifted.overflows() && exponential {
        add(
            Kind::NoRowMaximum,
            true,
            format!(
                "with {SHIFT} added to every score, {} of the output's {} numbers are not finite in f32, and all are in \
                 f64; {}: does the softmax subtract the row maximum? e^89 is too large for f32",
                shifted.not_finite_narrow,
                shifted.elements,
                line("")
            ),
        );
    } else if shifted.overflows() {
        add(
            Kind::Overflows,
            true,
            format!(
                "with {SHIFT} added to every score, {} of the output's {} numbers are not finite in f32, and all are in \
                 f64; {}",
                shifted.not_finite_narrow,
                shifted.elements,
                line("no line is not finite by itself")
            ),
        );
    } else if shifted.not_finite_wide == 0 && shifted.narrow_from_wide > SHIFT_TOLERANCE {
        add(
            Kind::LosesDigits,
            evidence.agrees,
            format!(
                "with {SHIFT} added to every score, f32 lies {} of the largest value from f64 ({} would do): what is \
                 large is subtracted too late",
                number(shifted.narrow_from_wide),
                number(SHIFT_TOLERANCE)
            ),
        );
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

fn not_finite(bad: &Bad) -> String {
    let Some(first) = &bad.line else {
        return match &bad.steep {
            Some((line, op)) => format!(
                "line {line}, {op}: its gradient is the first that is not finite, so {} is not: at some numbers {op} rises \
                 infinitely steep, or its result is no number",
                bad.tensor
            ),
            None => format!("{} is not finite", bad.tensor),
        };
    };
    let FirstNotFinite { what, line, op, index, count, elements, of } = first;
    let made_of = match of.as_slice() {
        [] => String::new(),
        numbers => format!(", made of {}", numbers.iter().map(|x| x.to_string()).collect::<Vec<_>>().join(" and ")),
    };
    let infinite = *what == NotFinite::Nan && of.iter().any(|number| number.is_infinite());
    let why = if infinite && of.contains(&0.0) {
        let sign = if of.contains(&f64::NEG_INFINITY) { "-inf" } else { "inf" };
        format!(
            ": {sign} times 0 is not a number. Mask with ops.where or ops.causal_mask, or with a large finite number in \
             the place of {sign}"
        )
    } else if infinite {
        ": infinities that cancel are not a number".into()
    } else if op == "div" && of.last() == Some(&0.0) {
        ": it divides by 0".into()
    } else {
        String::new()
    };
    format!("line {line}, {op}: the first {}, {count} of {elements} numbers, at {index:?}{made_of}{why}", what.words())
}

fn of_weights(
    evidence: &Evidence<'_>,
    measures: &Measures,
    reference: &Measures,
    leaks: bool,
    add: &mut impl FnMut(Kind, bool, String),
) {
    let Measures { row_sums, column_sums, last_row_sums, first_column_sums, .. } = measures;
    let far_row = row_sums.furthest_from(1.0);
    let below_one = |span: &Span| span.largest.value <= 1.0 + super::measures::EXACT;
    let exact = measures.fit.filter(|fit| fit.is_exact());
    if transposed(measures) {
        // Its columns are what the rows ought to be: nothing else that is measured of rows says more.
        add(
            Kind::WeightsTransposed,
            true,
            format!(
                "the weights are used transposed: columns sum to 1, and key j counts for query i by {} of row j. The product \
                 with the values is weights @ v, without transpose_a",
                exact.map_or("a softmax".into(), |fit| format!("the softmax of {}", fit.product.turned().words()))
            ),
        );
        return;
    }

    match exact.map(|fit| fit.product) {
        Some(Product::Untransposed) => add(
            Kind::MissingTranspose,
            true,
            format!(
                "the scores are q @ k, not q @ k^T (fit {}): the keys are not transposed. Row i of q is multiplied by column j \
             of k, which mixes every position; shapes allow it only where T = d_head",
                number(exact.map_or(0.0, |fit| fit.quality))
            ),
        ),
        Some(Product::KeyQuery) => add(
            Kind::QueryAndKeySwapped,
            true,
            "the scores are k @ q^T, not q @ k^T: queries and keys are swapped, row i asks with the key of position i"
                .into(),
        ),
        _ => {}
    }
    // Sums: which numbers were made to add up to 1, and before or after some were taken away.
    if !row_sums.is(1.0) {
        let span = match span_words(row_sums.least.value, row_sums.largest.value) {
            // All the same, and not 1: its digits may lie behind the fourth.
            [least, largest] if least == largest && least == "1.0" => format!("{:.10}", row_sums.least.value),
            [least, largest] if least == largest => least,
            [least, largest] => format!("{least} to {largest}"),
        };
        let wrong_axis = column_sums.is(1.0)
            || (first_column_sums.is(1.0) && below_one(column_sums) && leaks && !last_row_sums.is(1.0));
        let over_heads = measures.head_sums.is_some_and(|sums| sums.is(1.0));
        if measures.least < -super::measures::EXACT {
            add(
                Kind::NoSoftmax,
                true,
                format!(
                    "weights are negative, down to {}, and rows sum to {span} (furthest from 1: {}): is there a softmax \
                     between the scores and the product with the values?",
                    number(measures.least),
                    row(&far_row)
                ),
            );
        } else if over_heads {
            add(
                Kind::WrongAxis,
                true,
                format!(
                    "the weights of all heads for one pair sum to 1, and rows to {span} (furthest from 1: {}): the softmax \
                     runs over the heads; over the keys it is axis -1",
                    row(&far_row)
                ),
            );
        } else if measures.only_ones {
            let mistake = evidence.rows_mix.is_some();
            add(
                if mistake { Kind::WrongAxis } else { Kind::Differs },
                mistake,
                format!(
                    "every weight is 1 where the batch has one row, and rows sum to {span}{}",
                    if mistake { ": the softmax runs over the batch; over the keys it is axis -1" } else { "" }
                ),
            );
        } else if wrong_axis {
            let columns = match column_sums.is(1.0) {
                true => "columns sum to 1".to_string(),
                false => format!(
                    "the first column sums to 1 and later ones to as little as {}, as if masked after the softmax",
                    number(column_sums.least.value)
                ),
            };
            add(
                Kind::WrongAxis,
                true,
                format!(
                    "{columns}, and rows to {span} (worst: {}): the softmax runs down the columns, axis -2; over the keys it \
                 is axis -1",
                    row(&far_row)
                ),
            );
        } else if last_row_sums.is(1.0) && below_one(row_sums) && measures.future.value == 0.0 && leaks {
            add(
                Kind::MaskAfterSoftmax,
                true,
                format!(
                    "rows sum to {} ({}), and only the last, which sees every key, to 1: is the mask applied after the \
                 softmax? Masked before it, what is visible sums to 1",
                    number(far_row.value),
                    row(&far_row)
                ),
            );
        } else {
            add(Kind::Differs, false, format!("rows sum to {span} (furthest from 1: {})", row(&far_row)));
        }
    }
    if row_sums.is(1.0) && measures.least < -super::measures::EXACT {
        let least = number(measures.least);
        add(
            Kind::Differs,
            false,
            format!("weights are negative, down to {least}, and rows sum to 1: no softmax does that"),
        );
    }
    of_mask(evidence, measures, add);
    match exact {
        Some(fit) if (fit.scale - 1.0).abs() > 1e-6 => of_scale(evidence, &fit, (measures, reference), add),
        Some(_) => {}
        None if measures.only_ones => {}
        None if measures.uniform_rows => {
            let cancelled = evidence.dependence.is_some_and(|dependence| !dependence.cancelled().is_empty());
            let mistake = cancelled && !evidence.learns;
            add(
                Kind::PlainAverage,
                mistake,
                format!(
                    "all weights of a row are equal: each is a plain average of what it sees. {}",
                    match mistake {
                        true => "Are the scores multiplied by 0? 1 // d_head is 0",
                        false => "Nothing of q k^T reaches them",
                    }
                ),
            );
        }
        None => {
            let best = match measures.fit.filter(Fit::is_near) {
                Some(fit) => format!("; {} explains {} of them", fit.product.words(), percent(fit.quality)),
                None => String::new(),
            };
            add(Kind::Differs, false, format!("the logarithms of the weights follow no product alone{best}"));
        }
    }
    if let Some(fit) =
        exact.filter(|fit| !matches!(fit.product, Product::QueryKey | Product::KeyQuery | Product::Untransposed))
    {
        add(Kind::Differs, false, format!("the scores are {}, not q k^T", fit.product.words()));
    }
    if measures.keys_of_last_row < reference.keys_of_last_row {
        add(
            Kind::Differs,
            false,
            format!(
                "the last row gives weight to {} keys of {}",
                measures.keys_of_last_row, reference.keys_of_last_row
            ),
        );
    }
}

/// Whether the columns are softmaxes of q k^T that ought to be rows.
fn transposed(measures: &Measures) -> bool {
    let down = |fit: Fit| fit.is_exact() && fit.along == Along::Columns && fit.product == Product::KeyQuery;
    measures.column_sums.is(1.0) && !measures.row_sums.is(1.0) && measures.fit.is_some_and(down)
}

/// The mask: what lies above the diagonal, and on it.
fn of_mask(evidence: &Evidence<'_>, measures: &Measures, add: &mut impl FnMut(Kind, bool, String)) {
    let Measures { future, reach, on_itself, queries_ahead, .. } = measures;
    let length = measures.last_row_sums.least.line + 1;
    let only_first = *queries_ahead == 0 || (*queries_ahead == 1 && future.query == 0);
    let on_value = evidence.dependence.is_none_or(Dependence::on_value);
    if on_itself.is(0.0) && only_first && on_value {
        let first = match *reach {
            0 => "position 0 sees nothing, and its output is 0".into(),
            _ => format!("position 0, which sees nothing, gives {} to each of all {length} keys", number(future.value)),
        };
        add(
            Kind::NotItself,
            true,
            format!(
                "the mask is strict: no position but the first sees itself, and {first}. Key j may be seen from query i \
                 where j <= i"
            ),
        );
        return;
    }
    if *reach == 0 {
        return;
    }
    let place =
        format!("query {} gives {} to key {} (head {})", future.query, number(future.value), future.key, future.head);
    if *reach + 1 < length && measures.all_as_far_ahead {
        let ahead = if *reach == 1 { "one position".into() } else { format!("{reach} positions") };
        let off = if *reach == 1 { "Is the comparison of the mask off by 1? " } else { "" };
        add(
            Kind::LooksAhead,
            true,
            format!("each position sees {ahead} ahead: {place}. {off}Key j may be seen from query i where j <= i"),
        );
    } else if *reach + 1 < length || *queries_ahead + 1 < length {
        add(
            Kind::LooksAhead,
            true,
            format!(
                "it looks ahead by up to {reach}, from {queries_ahead} of {length} queries: {place}. Key j may be seen from \
                 query i where j <= i"
            ),
        );
    } else if future.value.abs() < 1e-2 {
        add(
            Kind::NoMask,
            true,
            format!(
                "a little weight lies on the future, up to {}: {place}. Is what the mask fills in low enough? -1e38 is",
                number(future.value)
            ),
        );
    } else {
        add(
            Kind::NoMask,
            true,
            format!(
                "weight lies on all of the future: {place}. Is there a causal mask, and does its result reach the softmax?"
            ),
        );
    }
}

/// Scores that are the right product times a factor.
fn of_scale(
    evidence: &Evidence<'_>,
    fit: &Fit,
    (measures, reference): (&Measures, &Measures),
    add: &mut impl FnMut(Kind, bool, String),
) {
    let (scale, head) = (fit.scale, fit.head);
    let words = format!("{} / sqrt(d_head)", fit.product.words());
    let width = evidence.shape.map_or(f64::NAN, |shape| shape.head_width as f64);
    let heads = evidence.shape.map_or(f64::NAN, |shape| shape.heads as f64);
    let is = |factor: f64| (scale.abs() / factor - 1.0).abs() < 1e-6;
    let cause = match () {
        () if is(1.0) => "",
        () if is(width) => ": are they multiplied by sqrt(d_head) in the place of divided?",
        () if is(width.sqrt()) => ": is the division by sqrt(d_head) missing?",
        () if is(1.0 / width.sqrt()) => ": are they divided by d_head, or by its square root twice?",
        () if is(width.powf(-1.5)) => ": are they divided by the square of d_head?",
        () if is((width / heads).sqrt()) => {
            ": are they divided by the root of the number of heads, and not by that of d_head?"
        }
        () if is(1.0 / (width.sqrt() * heads)) => ": are they divided by d, the width of the whole model?",
        () if is(1.0 / heads.sqrt()) => ": are they divided by sqrt(d) of the whole model, and not by that of a head?",
        () => ": what are they divided by?",
    };
    let mut sentence = match () {
        () if scale < 0.0 => format!(
            "the scores are {words} times {} (head {head}): their sign is wrong, and the keys that fit least get the most \
             weight{cause}",
            number(scale)
        ),
        () if scale > 1.0 => {
            format!("the scores are {} times as large as {words} (head {head}){cause}", number(scale))
        }
        () => format!(
            "the scores are {} times as large as {words} (head {head}), too small by a factor of {}{cause}",
            number(scale),
            number(1.0 / scale)
        ),
    };
    // What came of it, where it was measured.
    let (mut saturates, mut numbers) = (false, Vec::new());
    if let (Some(theirs), Some(reference)) = (measures.dead_rows, reference.dead_rows)
        && theirs.share > reference.share + 0.05
    {
        saturates = true;
        numbers.push(format!(
            "{} of the rows pass no gradient ({} in the reference)",
            percent(theirs.share),
            percent(reference.share)
        ));
    }
    if let (Some(theirs), Some(reference)) = (measures.entropy, reference.entropy) {
        let (theirs, reference) = (theirs.least.value, reference.least.value);
        let of = |verb: &str| {
            format!("entropy {verb} {} of log(t+1) ({} in the reference)", number(theirs), number(reference))
        };
        if scale.abs() > 1.0 && theirs < 0.05 && theirs < reference / 2.0 {
            saturates = true;
            numbers.push(of("falls to"));
        } else if scale.abs() < 1.0 && theirs > 0.9 {
            numbers.push(format!("every row is nearly an average, {}", of("is at least")));
        }
    }
    if !numbers.is_empty() {
        sentence.push_str(if cause.is_empty() { ". " } else { " " });
        sentence.push_str(if saturates { "The softmax saturates: " } else { "With that " });
        sentence.push_str(&numbers.join(", and "));
    }
    let kind = match () {
        () if scale < 0.0 => Kind::ScoresNegated,
        () if scale > 1.0 => Kind::ScoresTooLarge,
        () => Kind::ScoresTooSmall,
    };
    add(kind, !evidence.learns, sentence);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_the_digits_that_count() {
        for (value, text) in [
            (8.0, "8.0"),
            (0.617_44, "0.6174"),
            (1.0 / 512.0, "0.00195"),
            (512.0, "512.0"),
            (0.0, "0"),
            (-0.0, "0"),
            (1e-4, "1.0e-4"),
            (f64::NAN, "NaN"),
            (1.25e7, "1.2e7"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
