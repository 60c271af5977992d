//! Where the first number comes from that is none, or is infinite.

use serde::Serialize;

use super::CheckError;
use super::case::CaseInputs;
use super::function::TracedFunction;
use super::values::{INPUTS, TensorValues, depends_on, operands};
use crate::gpu::Pipelines;
use crate::script::{Argument, Call, TensorId};
use crate::tape::{RunOn, Tensor};

/// What a number is that is not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotFinite {
    Nan,
    Infinite,
}

impl NotFinite {
    pub fn words(self) -> &'static str {
        match self {
            Self::Nan => "NaN",
            Self::Infinite => "infinity",
        }
    }

    fn is(self, value: f64) -> bool {
        match self {
            Self::Nan => value.is_nan(),
            Self::Infinite => value.is_infinite(),
        }
    }
}

/// The first line that makes NaN, or infinities, of numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FirstNotFinite {
    pub what: NotFinite,
    pub line: u32,
    pub op: String,
    pub index: Vec<usize>,
    pub count: usize,
    pub elements: usize,
    /// The numbers that the element was made of, where the op works element by element.
    pub of: Vec<f64>,
}

/// Finds it: the first call with one in its result and none in the tensors that it reads.
pub fn first_not_finite(function: &TracedFunction, values: &TensorValues, what: NotFinite) -> Option<FirstNotFinite> {
    let bad = |tensor: &Tensor| tensor.values().iter().filter(|&&value| what.is(value)).count();
    for (at, call) in function.recording.calls.iter().enumerate() {
        let result = values.get((INPUTS + at) as TensorId)?;
        let count = bad(result);
        let clean = operands(call).iter().filter_map(|&id| values.get(id)).all(|tensor| bad(tensor) == 0);
        if count > 0 && clean {
            let place = result.values().iter().position(|&value| what.is(value))?;
            return Some(FirstNotFinite {
                what,
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

/// The line and op, counted from the end, whose gradient is not finite although the one that reaches it is; `None` where
/// there is none, or some tensor on the way has no gradient.
///
/// # Errors
/// A device that fails.
pub async fn first_steep(
    function: &TracedFunction,
    inputs: &CaseInputs,
    pipelines: &mut Pipelines,
) -> Result<Option<(u32, String)>, CheckError> {
    let depends = depends_on(function, &[0, 1, 2, 3]);
    let ids = (0..depends.len()).filter(|&id| depends[id]).map(|id| id as TensorId);
    let (ids, tensors): (Vec<_>, Vec<_>) = ids.filter_map(|id| Some((id, function.tensor(id)?))).unzip();
    let mut function = function.clone();
    let Ok(gradients) = function.differentiate(&tensors) else { return Ok(None) };
    let found = function.runner(&gradients, &RunOn::CpuWide, pipelines).await?.run(inputs).await?;
    let bad = |tensor: &Tensor| tensor.values().iter().any(|value| !value.is_finite());
    // All that reads the last such tensor comes later, so that what reaches it is finite.
    let last = ids.iter().zip(&found).rev().find(|(_, gradient)| bad(gradient)).map(|(&id, _)| id);
    let reader = last.and_then(|id| function.recording.calls.iter().find(|call| operands(call).contains(&id)));
    Ok(reader.map(|call| (call.line, call.op.clone())))
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
