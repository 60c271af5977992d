//! What is wrong, named from what was measured. Nothing here looks at the text of a script.

use serde::Serialize;

use super::case::Shape;
use super::causality::{Causality, Leak};
use super::measures::{Extreme, Measures, Product, Span};
use super::not_a_number::FirstNan;
use super::shift::{SHIFT, SHIFT_TOLERANCE, Shifted};
use crate::script::ScriptError;

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    RefusesShapes,
    NotANumber,
    MissingTranspose,
    QueryAndKeySwapped,
    WrongAxis,
    MaskAfterSoftmax,
    LooksAhead,
    NoMask,
    NotItself,
    ScoresTooLarge,
    ScoresTooSmall,
    NoRowMaximum,
    LosesDigits,
    Leaks,
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

/// All that was measured of a function.
#[derive(Clone, Debug, Default)]
pub struct Evidence<'a> {
    pub accepted: Vec<Shape>,
    pub refusals: &'a [Refusal],
    /// Whether output and gradients are the closed form's, in f64.
    pub agrees: bool,
    pub first_nan: Option<&'a FirstNan>,
    /// Theirs and the closed form's, on the same inputs.
    pub measures: Option<(&'a Measures, &'a Measures)>,
    pub observed_differs_by: Option<f64>,
    pub causality: &'a [Causality],
    pub shifted: Option<&'a Shifted>,
    /// Whether it learns parameters of its own: then a factor of the scores is a choice.
    pub learns: bool,
}

/// A number for a sentence: four digits that count.
pub fn number(value: f64) -> String {
    let size = value.abs();
    match () {
        () if value == 0.0 || !value.is_finite() => format!("{value}"),
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
    if let Some(nan) = evidence.first_nan {
        add(Kind::NotANumber, !evidence.agrees, not_a_number(nan));
        if !evidence.agrees {
            // Whatever else is measured of NaN, or of what became of it, says nothing.
            return findings;
        }
    }
    let leak = evidence.causality.iter().find(|causality| causality.moved > 0);
    if let Some((measures, reference)) = evidence.measures {
        of_weights(evidence, measures, reference, leak.is_some(), &mut add);
    }
    if let Some(shifted) = evidence.shifted {
        if shifted.not_finite_wide == 0 && shifted.not_finite_narrow > 0 {
            add(
                Kind::NoRowMaximum,
                true,
                format!(
                    "with {SHIFT} added to every score, {} of the output's {} numbers are not finite in f32, and all are in \
                 f64: does the softmax subtract the row maximum? e^89 is too large for f32",
                    shifted.not_finite_narrow, shifted.elements
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
    if let Some((causality, leak)) = leak.and_then(|causality| Some((causality, causality.worst?))) {
        add(Kind::Leaks, true, leaks(evidence, causality, &leak));
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
    findings
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

fn not_a_number(nan: &FirstNan) -> String {
    let FirstNan { line, op, index, count, elements, of } = nan;
    let made_of = match of.as_slice() {
        [] => String::new(),
        numbers => format!(", made of {}", numbers.iter().map(|x| x.to_string()).collect::<Vec<_>>().join(" and ")),
    };
    let infinite = of.iter().any(|number| number.is_infinite());
    let why = if infinite && of.contains(&0.0) {
        let sign = if of.contains(&f64::NEG_INFINITY) { "-inf" } else { "inf" };
        format!(
            ": {sign} times 0 is not a number. Mask with ops.where or ops.causal_mask, or with a large finite number in \
             the place of {sign}"
        )
    } else if infinite {
        ": infinities that cancel are not a number".into()
    } else {
        String::new()
    };
    format!("line {line}, {op}: the first NaN, {count} of {elements} numbers, at {index:?}{made_of}{why}")
}

fn of_weights(
    evidence: &Evidence<'_>,
    measures: &Measures,
    reference: &Measures,
    leaks: bool,
    add: &mut impl FnMut(Kind, bool, String),
) {
    let Measures { row_sums, column_sums, last_row_sums, first_column_sums, future, reach, on_itself, .. } = measures;
    let far_row = row_sums.furthest_from(1.0);
    let below_one = |span: &Span| span.largest.value <= 1.0 + super::measures::EXACT;
    let exact = measures.fit.filter(|fit| fit.is_exact());

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
        let span = format!("{} to {}", number(row_sums.least.value), number(row_sums.largest.value));
        let wrong_axis = column_sums.is(1.0)
            || (first_column_sums.is(1.0) && below_one(column_sums) && leaks && !last_row_sums.is(1.0));
        if wrong_axis {
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
        } else if last_row_sums.is(1.0) && below_one(row_sums) && future.value == 0.0 && leaks {
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
    // The mask: what lies above the diagonal, and on it.
    if *reach > 0 {
        let place = format!(
            "query {} gives {} to key {} (head {})",
            future.query,
            number(future.value),
            future.key,
            future.head
        );
        let length = evidence.measured_length(measures);
        if *reach + 1 < length {
            let ahead = if *reach == 1 { "one position".into() } else { format!("{reach} positions") };
            add(
                Kind::LooksAhead,
                true,
                format!(
                    "each position sees {ahead} ahead: {place}. Is the comparison of the mask off by {reach}? Key j may be \
                 seen from query i where j <= i"
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
    } else if on_itself.is(0.0) {
        add(
            Kind::NotItself,
            true,
            format!(
                "no position but the first sees itself (largest weight {}): is the mask strict, j < i in the place of j <= i?",
                number(on_itself.largest.value)
            ),
        );
    }
    match exact {
        Some(fit) if (fit.scale - 1.0).abs() > 1e-6 => {
            let (scale, head) = (fit.scale, fit.head);
            let fit_words = format!("{} / sqrt(d_head)", fit.product.words());
            let dead = |measures: &Measures| measures.dead_rows.map_or("unknown".into(), |dead| percent(dead.share));
            let least =
                |measures: &Measures| measures.entropy.map_or("unknown".into(), |span| number(span.least.value));
            if scale > 1.0 {
                add(
                    Kind::ScoresTooLarge,
                    !evidence.learns,
                    format!(
                        "the scores are {} times as large as {fit_words} (head {head}): is the division by sqrt(d_head) \
                     missing? The softmax saturates: {} of the rows pass no gradient ({} in the reference), and entropy \
                     falls to {} of log(t+1) ({})",
                        number(scale),
                        dead(measures),
                        dead(reference),
                        least(measures),
                        least(reference)
                    ),
                );
            } else {
                add(
                    Kind::ScoresTooSmall,
                    !evidence.learns,
                    format!(
                        "the scores are {} times as large as {fit_words} (head {head}), too small by a factor of {}: what are \
                     they divided by? Every row is nearly an average: entropy is at least {} of log(t+1) ({} in the reference)",
                        number(scale),
                        number(1.0 / scale),
                        least(measures),
                        least(reference)
                    ),
                );
            }
        }
        Some(_) => {}
        None => {
            let best = match measures.fit {
                Some(fit) => format!("; {} explains {} of them", fit.product.words(), percent(fit.quality)),
                None => String::new(),
            };
            add(Kind::Differs, false, format!("the logarithms of the weights follow no product alone{best}"));
        }
    }
    if let Some(fit) = exact.filter(|fit| matches!(fit.product, Product::QueryQuery | Product::KeyKey | Product::Input))
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

impl Evidence<'_> {
    /// T of the shape that the weights were measured on: the last row that sees every key tells.
    fn measured_length(&self, measures: &Measures) -> usize {
        measures.last_row_sums.least.line + 1
    }
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
            (1e-4, "1.0e-4"),
            (f64::NAN, "NaN"),
            (1.25e7, "1.2e7"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
