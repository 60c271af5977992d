//! The factor of the scores.

use super::words::{number, percent};
use super::{Evidence, Findings, Kind};
use crate::check::attention::measures::{Fit, Measures};

/// Scores that are the right product times a factor.
pub(super) fn of_scale(
    evidence: &Evidence<'_>,
    fit: &Fit,
    (measures, reference): (&Measures, &Measures),
    findings: &mut Findings,
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
    findings.add(kind, !evidence.learns, sentence);
}
