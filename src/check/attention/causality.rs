//! Does the past move when only the future is changed? Demanded is exactly 0: a tolerance would pass bugs that training
//! then makes large.

use serde::Serialize;

use super::CheckError;
use super::case::{Case, CaseInputs};
use super::comparison::Stored;
use super::function::Runner;

/// What changing positions did to outputs before them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Causality {
    pub case: Case,
    pub stored: Stored,
    /// Pairs of a position and a later one that were tried.
    pub pairs: usize,
    /// Pairs where the output moved.
    pub moved: usize,
    /// How far ahead of an output a position was that moved it, at most.
    pub reach: usize,
    pub worst: Option<Leak>,
}

/// The output that moved most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Leak {
    /// The position that was changed.
    pub changed: usize,
    /// The earlier position whose output moved.
    pub moved: usize,
    /// By how much.
    pub by: f64,
}

/// Changes x, query, key and value at each of `positions` in turn. `runner` computes the output of a function.
///
/// # Errors
/// A device that fails.
pub async fn causality(
    runner: &Runner,
    case: Case,
    stored: Stored,
    positions: impl Iterator<Item = usize>,
) -> Result<Causality, CheckError> {
    let inputs = CaseInputs::draw(&case);
    let mut other = CaseInputs::draw(&Case { seed: case.seed.wrapping_add(OTHER_SEED), ..case });
    let shape = case.shape;
    let (length, width) = (shape.length, shape.width());
    let before = runner.first(&inputs).await?;
    let mut found = Causality { case, stored, pairs: 0, moved: 0, reach: 0, worst: None };
    for changed in positions.filter(|position| (1..length).contains(position)) {
        let mut perturbed = inputs.clone();
        for (tensor, other) in perturbed.arguments_mut().into_iter().zip(other.arguments_mut()) {
            for row in 0..shape.batch {
                let position = (row * length + changed) * width;
                tensor[position..position + width].copy_from_slice(&other[position..position + width]);
            }
        }
        let after = runner.first(&perturbed).await?;
        for position in 0..changed {
            let places = (0..shape.batch).flat_map(|row| {
                let start = (row * length + position) * width;
                start..start + width
            });
            // Where no finite number was, none can move.
            let numbers = places.map(|at| (before[at], after[at])).filter(|(before, _)| before.is_finite());
            let moves: Vec<f64> =
                numbers.map(|(before, after)| if before == after { 0.0 } else { (before - after).abs() }).collect();
            if moves.is_empty() {
                continue;
            }
            // What turns into no number has moved as far as can be.
            let by =
                moves.into_iter().fold(0.0, |most: f64, by| if by.is_nan() { f64::INFINITY } else { most.max(by) });
            found.pairs += 1;
            if by > 0.0 {
                found.moved += 1;
                found.reach = found.reach.max(changed - position);
                if found.worst.is_none_or(|worst| by > worst.by) {
                    found.worst = Some(Leak { changed, moved: position, by });
                }
            }
        }
    }
    Ok(found)
}

/// Keeps what is put in a position's place apart from every other case.
const OTHER_SEED: u64 = 0x6361_7573_616c;
