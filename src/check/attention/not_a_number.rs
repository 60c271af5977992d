//! Where the first number that is none comes from.

use serde::Serialize;

use super::function::TracedFunction;
use super::values::{INPUTS, TensorValues, operands};
use crate::script::{Argument, Call, TensorId};
use crate::tape::Tensor;

/// The first line that makes NaN of numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FirstNan {
    pub line: u32,
    pub op: String,
    pub index: Vec<usize>,
    pub count: usize,
    pub elements: usize,
    /// The numbers that the element was made of, where the op works element by element.
    pub of: Vec<f64>,
}

/// Finds it: the first call with a NaN in its result and none in what it reads.
pub fn first_nan(function: &TracedFunction, values: &TensorValues) -> Option<FirstNan> {
    let nans = |tensor: &Tensor| tensor.values().iter().filter(|value| value.is_nan()).count();
    for (at, call) in function.recording.calls.iter().enumerate() {
        let result = values.get((INPUTS + at) as TensorId)?;
        let count = nans(result);
        let clean = operands(call).iter().filter_map(|&id| values.get(id)).all(|tensor| nans(tensor) == 0);
        if count > 0 && clean {
            let place = result.values().iter().position(|value| value.is_nan())?;
            return Some(FirstNan {
                line: call.line,
                op: call.op.clone(),
                index: unravel(place, &result.shape),
                count,
                elements: result.len(),
                of: sources(call, values, &result.shape, place),
            });
        }
    }
    None
}

/// Ops that make each element of the elements in the same place.
const ELEMENT_BY_ELEMENT: [&str; 8] = ["add", "sub", "mul", "div", "scale", "neg", "log", "sqrt"];

fn sources(call: &Call, values: &TensorValues, shape: &[usize], place: usize) -> Vec<f64> {
    if !ELEMENT_BY_ELEMENT.contains(&call.op.as_str()) {
        return Vec::new();
    }
    let of_argument = |argument: &Argument<TensorId>| match argument {
        Argument::Tensor(id) => values.get(*id).and_then(|tensor| broadcast(tensor, shape, place)),
        Argument::Number(number) => Some(*number),
        _ => None,
    };
    call.arguments.iter().filter_map(of_argument).collect()
}

/// The element of an operand that is broadcast to `shape`, as NumPy does, at a place of the result.
fn broadcast(tensor: &Tensor, shape: &[usize], place: usize) -> Option<f64> {
    let index = unravel(place, shape);
    let lead = shape.len().checked_sub(tensor.shape.len())?;
    let at = tensor.shape.iter().zip(&index[lead..]).fold(0, |at, (&size, &index)| at * size + index.min(size - 1));
    tensor.values().get(at).copied()
}

/// The index of a place of a row-major tensor.
pub fn unravel(mut place: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (slot, &size) in index.iter_mut().zip(shape).rev() {
        (*slot, place) = (place % size.max(1), place / size.max(1));
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_of_a_broadcast_operand_is_found_as_numpy_finds_it() {
        let shape = [2, 2, 3];
        let column = Tensor::real([2, 1], vec![1.0, 2.0]);
        let row = Tensor::real([1, 3], vec![10.0, 20.0, 30.0]);
        for (place, of_column, of_row) in [(0, 1.0, 10.0), (5, 2.0, 30.0), (7, 1.0, 20.0), (11, 2.0, 30.0)] {
            assert_eq!(broadcast(&column, &shape, place), Some(of_column), "{place}");
            assert_eq!(broadcast(&row, &shape, place), Some(of_row), "{place}");
        }
        assert_eq!(unravel(7, &shape), [1, 0, 1]);
    }
}
