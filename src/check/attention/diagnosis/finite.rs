//! Numbers that are none, and what f32 makes of large ones.

use super::words::number;
use super::{Bad, Evidence, Findings, Kind};
use crate::check::attention::comparison::{Row, Stored};
use crate::check::attention::not_a_number::{FirstNotFinite, NotFinite};
use crate::check::attention::shift::{SHIFT, SHIFT_TOLERANCE};

/// What goes wrong in f32 alone.
pub(super) fn in_f32(evidence: &Evidence<'_>, findings: &mut Findings) {
    let line = |otherwise: &str| match evidence.overflow {
        Some(departure) => format!("line {}, {}, is the first that is not finite", departure.line, departure.op),
        None => otherwise.into(),
    };
    let bad = |stored: Stored| evidence.rows.iter().find(|row| row.stored == stored && !row.worst.theirs.is_finite());
    if let Some(row) = bad(Stored::F32).filter(|_| bad(Stored::F64).is_none()) {
        let tensor = row.tensor;
        findings.add(
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
        findings.add(
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
        findings.add(
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
        findings.add(
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
        findings.add(
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

/// What is not finite in f64, and why.
pub(super) fn not_finite(bad: &Bad) -> String {
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
