//! Scores shifted by +100, which a softmax does not notice and `exp` in f32 does: e^89 is too large for it.
//!
//! The function is left alone. Component 0 of every head's query becomes a constant a and that of every key b, with
//! a b / sqrt(d_head) = 100, which is added to every score; before, both are 0.

use serde::Serialize;

use super::CheckError;
use super::case::{Case, CaseInputs};
use super::function::Runner;

/// How much is added to every score.
pub const SHIFT: f64 = 100.0;

/// Allowed between f32 and f64 on shifted inputs, of the largest value: scores of 100 are rounded by 100 * 2^-24, weights
/// by as much of themselves, and the sums add theirs. A hundred times that is no missing digit but another mistake.
pub const SHIFT_TOLERANCE: f64 = 1e-3;

/// Equal in f64, of the largest value.
const SAME: f64 = 1e-9;

/// What the shift did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shifted {
    pub case: Case,
    /// Elements of the output in f64 that are not finite.
    pub not_finite_wide: usize,
    /// Elements of the output in f32 that are not finite.
    pub not_finite_narrow: usize,
    pub elements: usize,
    /// How far the output moves in f64, of its largest value; 0 but for rounding where each row goes through a softmax.
    pub moved_wide: f64,
    /// How far f32 lies from f64 on the shifted inputs, of the largest value.
    pub narrow_from_wide: f64,
}

impl Shifted {
    /// Whether the output is finite in f64 and not in f32.
    pub fn overflows(&self) -> bool {
        self.not_finite_wide == 0 && self.not_finite_narrow > 0
    }
}

/// Inputs without component 0 of each head's query and key, and with every score shifted.
pub fn shifted_inputs(case: &Case) -> (CaseInputs, CaseInputs) {
    let shape = case.shape;
    let mut plain = CaseInputs::draw(case);
    let mut shifted = plain.clone();
    // Equal factors, so that neither is large.
    let component = f64::from((SHIFT / shape.scale()).sqrt() as f32);
    for map in 0..shape.maps() {
        for position in 0..shape.length {
            let at = shape.place(map, position, 0);
            (plain.query[at], plain.key[at]) = (0.0, 0.0);
            (shifted.query[at], shifted.key[at]) = (component, component);
        }
    }
    (plain, shifted)
}

/// Runs a function in both forms on shifted inputs. `None` where queries or keys are used outside of the scores: with
/// component 0 of the one constant and that of the other 0 no score changes, and the output may not either.
///
/// # Errors
/// A device that fails.
pub async fn shift(wide: &Runner, narrow: &Runner, case: Case) -> Result<Option<Shifted>, CheckError> {
    let (plain, shifted) = shifted_inputs(&case);
    let before = wide.first(&plain).await?;
    for half in [
        CaseInputs { query: shifted.query.clone(), ..plain.clone() },
        CaseInputs { key: shifted.key.clone(), ..plain.clone() },
    ] {
        if difference(&wide.first(&half).await?, &before) > SAME {
            return Ok(None);
        }
    }
    let after = wide.first(&shifted).await?;
    let in_f32 = narrow.first(&shifted).await?;
    let lost = |values: &[f64]| values.iter().filter(|value| !value.is_finite()).count();
    Ok(Some(Shifted {
        case,
        not_finite_wide: lost(&after),
        not_finite_narrow: lost(&in_f32),
        elements: after.len(),
        moved_wide: difference(&after, &before),
        narrow_from_wide: difference(&in_f32, &after),
    }))
}

/// The largest difference over the largest value of `expected`; infinite where one is no number.
fn difference(found: &[f64], expected: &[f64]) -> f64 {
    let largest = expected.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    let differences = found.iter().zip(expected).map(|(found, expected)| (found - expected).abs() / largest);
    differences.fold(0.0, |most: f64, one| if one.is_nan() { f64::INFINITY } else { most.max(one) })
}
