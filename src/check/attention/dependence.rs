//! What the output depends on, found by changing one thing and nothing else: x, q, k or v as a whole, or a row of the
//! batch.

use serde::Serialize;

use super::CheckError;
use super::case::{Case, CaseInputs};
use super::function::{Runner, TracedFunction};
use super::values::depends_on;

/// The arguments of a function in the order of its parameters.
const NAMES: [&str; 4] = ["x", "q", "k", "v"];

/// Whether the closed form depends on them.
const REFERENCE: [bool; 4] = [false, true, true, true];

/// A move that is no rounding, of the output's largest value.
const MOVES: f64 = 1e-12;

/// What moves the output when it alone is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Dependence {
    /// For x, q, k and v.
    pub moves: [bool; 4],
    /// Whether the returned tensor is made of them, with whatever factor.
    pub made_of: [bool; 4],
}

/// A row of the batch that another one reads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RowsMix {
    pub case: Case,
    /// By how much the outputs of the other rows move when row 0 is replaced.
    pub by: f64,
}

impl Dependence {
    /// What the output ought to depend on and does not, and the other way round.
    pub fn differences(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let those = |wanted: bool| {
            let at = (0..4).filter(|&at| REFERENCE[at] == wanted && self.moves[at] != wanted);
            at.map(|at| NAMES[at]).collect()
        };
        (those(true), those(false))
    }

    /// What the output is made of and yet does not depend on: a factor of 0, or a sum that takes itself away.
    pub fn cancelled(&self) -> Vec<&'static str> {
        (0..4).filter(|&at| self.made_of[at] && !self.moves[at]).map(|at| NAMES[at]).collect()
    }

    pub fn on_value(&self) -> bool {
        self.moves[3]
    }

    pub fn on_input(&self) -> bool {
        self.moves[0]
    }
}

/// Replaces x, q, k and v one at a time; `None` where the output is not finite, or T = 1.
///
/// # Errors
/// A device that fails.
pub async fn dependence(
    function: &TracedFunction,
    output: &Runner,
    case: Case,
) -> Result<Option<Dependence>, CheckError> {
    let inputs = CaseInputs::draw(&case);
    let mut other = other_inputs(&case);
    let before = output.first(&inputs).await?;
    if case.shape.length < 2 || before.iter().any(|value| !value.is_finite()) {
        return Ok(None);
    }
    let (mut moves, mut made_of) = ([false; 4], [false; 4]);
    for at in 0..4 {
        let mut changed = inputs.clone();
        std::mem::swap(changed.arguments_mut()[at], other.arguments_mut()[at]);
        moves[at] = moved(&before, &output.first(&changed).await?).is_some();
        let depends = depends_on(function, &[at as u32]);
        made_of[at] = depends.get(function.recording.result as usize) == Some(&true);
    }
    Ok(Some(Dependence { moves, made_of }))
}

/// Replaces row 0 of the batch and looks at the others; `None` where they stay, or there are none.
///
/// # Errors
/// A device that fails.
pub async fn rows_mix(output: &Runner, case: Case) -> Result<Option<RowsMix>, CheckError> {
    let row = case.shape.elements() / case.shape.batch;
    let mut inputs = CaseInputs::draw(&case);
    let mut other = other_inputs(&case);
    let before = output.first(&inputs).await?;
    for (tensor, other) in inputs.arguments_mut().into_iter().zip(other.arguments_mut()) {
        tensor[..row].copy_from_slice(&other[..row]);
    }
    let after = output.first(&inputs).await?;
    let (Some(before), Some(after)) = (before.get(row..), after.get(row..)) else { return Ok(None) };
    Ok(moved(before, after).map(|by| RowsMix { case, by }))
}

/// The largest move of finite numbers, where there is one.
fn moved(before: &[f64], after: &[f64]) -> Option<f64> {
    let pairs = before.iter().zip(after).filter(|(before, _)| before.is_finite());
    let (largest, most) = pairs.fold((0.0, 0.0), |(largest, most): (f64, f64), (before, after)| {
        let by = (before - after).abs();
        (largest.max(before.abs()), most.max(if by.is_nan() { f64::INFINITY } else { by }))
    });
    (most > MOVES * largest).then_some(most)
}

fn other_inputs(case: &Case) -> CaseInputs {
    CaseInputs::draw(&Case { seed: case.seed.wrapping_add(OTHER_SEED), ..*case })
}

/// Keeps what replaces a tensor apart from every other case.
const OTHER_SEED: u64 = 0x6465_7065_6e64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_what_is_too_much_are_told_apart() {
        for (moves, missing, extra) in [
            ([false, true, true, true], vec![], vec![]),
            ([true, false, false, false], vec!["q", "k", "v"], vec!["x"]),
            ([false, true, true, false], vec!["v"], vec![]),
        ] {
            let found = Dependence { moves, made_of: [true, true, true, true] };
            assert_eq!(found.differences(), (missing, extra));
            assert_eq!(found.cancelled().len(), moves.iter().filter(|moves| !**moves).count());
        }
        assert_eq!(moved(&[1.0, f64::NAN], &[1.0, 2.0]), None);
        assert_eq!(moved(&[1.0, 2.0], &[1.0, 2.5]), Some(0.5));
        assert_eq!(moved(&[1.0], &[f64::NAN]), Some(f64::INFINITY));
    }
}
