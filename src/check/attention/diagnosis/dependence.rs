//! What the output depends on.

use super::{Evidence, Findings, Kind};
use crate::check::attention::dependence::Dependence;

pub(super) fn depends(evidence: &Evidence<'_>, dependence: &Dependence, findings: &mut Findings) {
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
    findings.add(Kind::DependsOnOther, no_values || (!cancelled.is_empty() && !evidence.learns), sentence);
}
