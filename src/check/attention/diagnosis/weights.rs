//! The attention weights: what they are made of, and what they add up to.

use super::mask::of_mask;
use super::scale::of_scale;
use super::sums::of_sums;
use super::words::{number, percent};
use super::{Evidence, Findings, Kind};
use crate::check::attention::measures::{Along, EXACT, Fit, Measures, Product};

pub(super) fn of_weights(
    evidence: &Evidence<'_>,
    measures: &Measures,
    reference: &Measures,
    leaks: bool,
    findings: &mut Findings,
) {
    let Measures { row_sums, .. } = measures;
    let exact = measures.fit.filter(|fit| fit.is_exact());
    if transposed(measures) {
        // Its columns are what the rows ought to be: nothing else that is measured of rows says more.
        findings.add(
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
        Some(Product::Untransposed) => findings.add(
            Kind::MissingTranspose,
            true,
            format!(
                "the scores are q @ k, not q @ k^T (fit {}): the keys are not transposed. Row i of q is multiplied by column j \
             of k, which mixes every position; shapes allow it only where T = d_head",
                number(exact.map_or(0.0, |fit| fit.quality))
            ),
        ),
        Some(Product::KeyQuery) => findings.add(
            Kind::QueryAndKeySwapped,
            true,
            "the scores are k @ q^T, not q @ k^T: queries and keys are swapped, row i asks with the key of position i"
                .into(),
        ),
        _ => {}
    }
    of_sums(evidence, measures, leaks, findings);
    if row_sums.is(1.0) && measures.least < -EXACT {
        let least = number(measures.least);
        findings.add(
            Kind::Differs,
            false,
            format!("weights are negative, down to {least}, and rows sum to 1: no softmax does that"),
        );
    }
    of_mask(evidence, measures, findings);
    match exact {
        Some(fit) if (fit.scale - 1.0).abs() > 1e-6 => of_scale(evidence, &fit, (measures, reference), findings),
        Some(_) => {}
        None if measures.only_ones => {}
        None if measures.uniform_rows => {
            let cancelled = evidence.dependence.is_some_and(|dependence| !dependence.cancelled().is_empty());
            let mistake = cancelled && !evidence.learns;
            findings.add(
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
            findings.add(Kind::Differs, false, format!("the logarithms of the weights follow no product alone{best}"));
        }
    }
    if let Some(fit) =
        exact.filter(|fit| !matches!(fit.product, Product::QueryKey | Product::KeyQuery | Product::Untransposed))
    {
        findings.add(Kind::Differs, false, format!("the scores are {}, not q k^T", fit.product.words()));
    }
    if measures.keys_of_last_row < reference.keys_of_last_row {
        findings.add(
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
