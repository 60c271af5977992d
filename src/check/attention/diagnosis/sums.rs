//! What rows and columns of the weights add up to.

use super::words::{number, row, span_words};
use super::{Evidence, Findings, Kind};
use crate::check::attention::measures::{EXACT, Measures, Span};

/// The sums of the rows, where they are not 1: which numbers were made to add up to 1, and before or after some were taken
/// away.
pub(super) fn of_sums(evidence: &Evidence<'_>, measures: &Measures, leaks: bool, findings: &mut Findings) {
    let Measures { row_sums, column_sums, last_row_sums, first_column_sums, .. } = measures;
    if row_sums.is(1.0) {
        return;
    }
    let far_row = row_sums.furthest_from(1.0);
    let below_one = |span: &Span| span.largest.value <= 1.0 + EXACT;
    let span = match span_words(row_sums.least.value, row_sums.largest.value) {
        // All the same, and not 1: its digits may lie behind the fourth.
        [least, largest] if least == largest && least == "1.0" => format!("{:.10}", row_sums.least.value),
        [least, largest] if least == largest => least,
        [least, largest] => format!("{least} to {largest}"),
    };
    let wrong_axis =
        column_sums.is(1.0) || (first_column_sums.is(1.0) && below_one(column_sums) && leaks && !last_row_sums.is(1.0));
    let over_heads = measures.head_sums.is_some_and(|sums| sums.is(1.0));
    if measures.least < -EXACT {
        findings.add(
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
        findings.add(
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
        findings.add(
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
        findings.add(
            Kind::WrongAxis,
            true,
            format!(
                "{columns}, and rows to {span} (worst: {}): the softmax runs down the columns, axis -2; over the keys it \
             is axis -1",
                row(&far_row)
            ),
        );
    } else if last_row_sums.is(1.0) && below_one(row_sums) && measures.future.value == 0.0 && leaks {
        findings.add(
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
        findings.add(Kind::Differs, false, format!("rows sum to {span} (furthest from 1: {})", row(&far_row)));
    }
}
