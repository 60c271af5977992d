//! Gradients held against finite differences, element by element.

use headlight::graph::Reuse;
use headlight::tape::Contents;

use super::case::{Case, Leaf};
use super::draw::{Draw, STEP, draw};
use super::problem::{Planned, Problem, equal_bits, real};

/// How a slope is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    Central,
    /// One step ahead; sees a jump that lies exactly where it starts. Coarser.
    Forward,
}

/// The largest slope that was measured.
///
/// # Errors
/// The first element whose gradient is not its difference.
pub fn compare(
    problem: &Problem,
    planned: &Planned,
    contents: &[Contents],
    gradients: &[Vec<f64>],
    difference: Difference,
) -> Result<f64, String> {
    planned.write(contents);
    let loss = planned.loss();
    let mut largest = 0.0f64;
    for (&leaf, gradient) in problem.wanted.iter().zip(gradients) {
        let mut values = real(&contents[leaf]).to_vec();
        for (index, &found) in gradient.iter().enumerate() {
            let original = values[index];
            let mut moved = |by: f64| {
                values[index] = original + by;
                planned.write_real(leaf, &values);
                planned.loss()
            };
            let (expected, tolerance) = match difference {
                Difference::Central => {
                    let expected = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
                    (expected, 1e-8 + 1e-6 * expected.abs())
                }
                Difference::Forward => {
                    let expected = (moved(STEP) - loss) / STEP;
                    (expected, 1e-3 + 1e-3 * expected.abs())
                }
            };
            moved(0.0);
            // Written so that NaN fails.
            let close = (found - expected).abs() <= tolerance;
            if !close {
                return Err(format!("leaf {leaf}[{index}]: {found} against {expected}"));
            }
            largest = largest.max(expected.abs());
        }
    }
    Ok(largest)
}

/// The inputs of a case; what the case gives itself is left as it is.
pub fn contents(case: &Case, problem: &Problem, kind: Draw) -> Option<Vec<Contents>> {
    let mut contents = draw(problem, kind)?;
    for (contents, leaf) in contents.iter_mut().zip(&case.leaves) {
        if let Leaf::Given(words) = leaf {
            *contents = Contents::Words(words.clone());
        }
    }
    Some(contents)
}

/// Checks a case on all inputs that it is to have, with shared buffers and without. Returns the largest slope.
///
/// # Errors
/// What differs, with the name of the case.
pub fn check(case: &Case, problem: &Problem) -> Result<f64, String> {
    let pooled = Planned::new(problem, Reuse::Pooled)?;
    let separate = Planned::new(problem, Reuse::Never)?;
    let kinds = match case.near {
        true => &[
            (Draw::Within, Difference::Central),
            (Draw::NearlyEqual, Difference::Central),
            (Draw::Equal, Difference::Forward),
            (Draw::NearlyZero, Difference::Central),
            (Draw::SomeZero, Difference::Forward),
        ][..],
        false => &[(Draw::Within, Difference::Central)],
    };
    let mut largest = 0.0f64;
    for &(kind, difference) in kinds {
        let Some(contents) = contents(case, problem, kind) else { continue };
        pooled.write(&contents);
        separate.write(&contents);
        let slopes = equal_bits(&pooled, &separate)
            .and_then(|results| compare(problem, &pooled, &contents, &results[1..], difference));
        largest = largest.max(slopes.map_err(|fault| format!("{} ({kind:?}): {fault}", case.name))?);
    }
    Ok(largest)
}
