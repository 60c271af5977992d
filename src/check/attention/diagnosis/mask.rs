//! The mask: what lies above the diagonal of the weights, and on it.

use super::words::number;
use super::{Evidence, Findings, Kind};
use crate::check::attention::dependence::Dependence;
use crate::check::attention::measures::Measures;

/// The mask: what lies above the diagonal, and on it.
pub(super) fn of_mask(evidence: &Evidence<'_>, measures: &Measures, findings: &mut Findings) {
    let Measures { future, reach, on_itself, queries_ahead, .. } = measures;
    let length = measures.last_row_sums.least.line + 1;
    let only_first = *queries_ahead == 0 || (*queries_ahead == 1 && future.query == 0);
    let on_value = evidence.dependence.is_none_or(Dependence::on_value);
    if on_itself.is(0.0) && only_first && on_value {
        let first = match *reach {
            0 => "position 0 sees nothing, and its output is 0".into(),
            _ => format!("position 0, which sees nothing, gives {} to each of all {length} keys", number(future.value)),
        };
        findings.add(
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
        findings.add(
            Kind::LooksAhead,
            true,
            format!("each position sees {ahead} ahead: {place}. {off}Key j may be seen from query i where j <= i"),
        );
    } else if *reach + 1 < length || *queries_ahead + 1 < length {
        findings.add(
            Kind::LooksAhead,
            true,
            format!(
                "it looks ahead by up to {reach}, from {queries_ahead} of {length} queries: {place}. Key j may be seen from \
                 query i where j <= i"
            ),
        );
    } else if future.value.abs() < 1e-2 {
        findings.add(
            Kind::NoMask,
            true,
            format!(
                "a little weight lies on the future, up to {}: {place}. Is what the mask fills in low enough? -1e38 is",
                number(future.value)
            ),
        );
    } else {
        findings.add(
            Kind::NoMask,
            true,
            format!(
                "weight lies on all of the future: {place}. Is there a causal mask, and does its result reach the softmax?"
            ),
        );
    }
}
