//! Element by element: what was found against the reference.

use super::Expected;
use crate::tape::{Tensor, Tolerance};

/// One output of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    pub file: String,
    /// Empty where the file has only one.
    pub case: String,
    pub tensor: String,
    /// What computed it: `cpu`, `gpu fused`, ..
    pub run: String,
    /// Elements compared.
    pub compared: usize,
    /// Elements beyond the tolerance.
    pub misses: usize,
    /// Largest absolute error, and where.
    pub error: f64,
    pub index: Vec<usize>,
    pub found: f64,
    pub expected: f64,
    /// The error's share of what it may be; 1 and less passes.
    pub share: f64,
}

impl Row {
    pub fn passed(&self) -> bool {
        self.misses == 0 && self.compared > 0
    }
}

/// Row-major position to index.
fn unravel(mut position: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (slot, &size) in index.iter_mut().zip(shape).rev() {
        *slot = position % size.max(1);
        position /= size.max(1);
    }
    index
}

/// Compares with `factor` times the tolerance. The row names the element that uses the largest share of it.
///
/// # Errors
/// Another shape; a reference that is not finite where the file does not say so; nothing to compare.
pub fn compare(found: &Tensor, reference: &Tensor, expected: &Expected, factor: f64) -> Result<Row, String> {
    if found.shape != reference.shape {
        return Err(format!("it has shape {:?}, the reference {:?}", found.shape, reference.shape));
    }
    let tolerance = Tolerance::new(expected.tolerance * factor, 0.0);
    let mut row = Row::default();
    let mut worst: Option<usize> = None;
    let mut infinite = 0;
    for (position, (&value, &wanted)) in found.values().iter().zip(reference.values()).enumerate() {
        if expected.ignored.contains(&position) {
            continue;
        }
        let share = if wanted == f64::NEG_INFINITY && infinite < expected.infinite {
            infinite += 1;
            if value == wanted { 0.0 } else { f64::INFINITY }
        } else if wanted.is_finite() {
            tolerance.share(value, wanted)
        } else {
            let index = unravel(position, &reference.shape);
            return Err(format!("the reference is {wanted} at {index:?}, which the file does not declare"));
        };
        row.compared += 1;
        row.misses += usize::from(share.is_nan() || share > 1.0);
        if worst.is_none() || share > row.share {
            worst = Some(position);
            row.share = share;
        }
    }
    if infinite != expected.infinite {
        let declared = expected.infinite;
        return Err(format!("the file declares {declared} elements of -inf, the reference has {infinite}"));
    }
    let Some(worst) = worst else { return Err("there is nothing to compare".into()) };
    row.index = unravel(worst, &reference.shape);
    (row.found, row.expected) = (found.values()[worst], reference.values()[worst]);
    row.error = if row.found == row.expected { 0.0 } else { (row.found - row.expected).abs() };
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(tolerance: f64) -> Expected {
        Expected { tolerance, ignored: 0..0, infinite: 0 }
    }

    fn tensor(values: &[f64]) -> Tensor {
        Tensor::real([values.len()], values.to_vec())
    }

    #[test]
    fn the_worst_element_is_named_and_nan_never_passes() {
        for (found, reference, misses, index) in [
            (&[1.0, 2.0, 3.0][..], &[1.0, 2.0, 3.0][..], 0, 0),
            (&[1.0, 2.05, 3.0], &[1.0, 2.0, 3.0], 0, 1),
            (&[1.0, 2.05, 3.3], &[1.0, 2.0, 3.0], 1, 2),
            (&[1.0, f64::NAN, 3.3], &[1.0, 2.0, 3.0], 2, 1),
            (&[f64::INFINITY, 2.0, 3.0], &[1.0, 2.0, 3.0], 1, 0),
        ] {
            let row = compare(&tensor(found), &tensor(reference), &expected(0.1), 1.0).unwrap();
            assert_eq!((row.misses, row.index[0]), (misses, index), "{found:?} against {reference:?}");
            assert_eq!(row.passed(), misses == 0);
        }
        let row = compare(&tensor(&[1.5]), &tensor(&[1.0]), &expected(0.1), 10.0).unwrap();
        assert!(row.passed() && (row.share - 0.5).abs() < 1e-12, "{row:?}");
    }

    #[test]
    fn a_comparison_that_would_prove_nothing_is_refused() {
        let infinite = Expected { infinite: 1, ..expected(0.1) };
        let ignoring = Expected { ignored: 0..1, ..expected(0.1) };
        let negative = f64::NEG_INFINITY;
        for (found, reference, expected, fault) in [
            (&[1.0][..], &[f64::NAN][..], &expected(0.1), "the reference is NaN at [0]"),
            (&[negative], &[negative], &expected(0.1), "the reference is -inf at [0]"),
            (&[1.0], &[1.0, 2.0], &expected(0.1), "it has shape [1], the reference [2]"),
            (&[1.0], &[1.0], &infinite, "the file declares 1 elements of -inf, the reference has 0"),
            (&[1.0], &[1.0], &ignoring, "there is nothing to compare"),
            (&[], &[], &expected(0.1), "there is nothing to compare"),
        ] {
            let error = compare(&tensor(found), &tensor(reference), expected, 1.0).unwrap_err();
            assert!(error.starts_with(fault), "{error}");
        }
        assert!(compare(&tensor(&[negative]), &tensor(&[negative]), &infinite, 1.0).unwrap().passed());
        assert!(!compare(&tensor(&[-1e30]), &tensor(&[negative]), &infinite, 1.0).unwrap().passed());
    }

    #[test]
    fn positions_become_row_major_indices() {
        assert_eq!(unravel(23, &[2, 3, 4]), [1, 2, 3]);
        assert_eq!(unravel(5, &[2, 3, 4]), [0, 1, 1]);
        assert_eq!(unravel(0, &[]), Vec::<usize>::new());
    }
}
