//! Which numbers of a function are its attention weights.

use serde::Serialize;

use super::CheckError;
use super::case::{CaseInputs, Shape};
use super::function::{Runner, TracedFunction};
use super::values::{TensorValues, depends_on};
use crate::script::{Argument, TensorId};

/// How weights were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// By setting the values to the unit vectors: what comes out is what each value counts for.
    UnitValues,
    /// The tensor that the script observes as 'weights'.
    Observed,
    /// The `[.., T, T]` operand of the last product with the values.
    Operand,
}

impl Source {
    pub fn words(self) -> &'static str {
        match self {
            Self::UnitValues => "what each value counts for, with unit vectors as values",
            Self::Observed => "the tensor observed as 'weights'",
            Self::Operand => "what the values are multiplied by",
        }
    }
}

/// Weights `[maps, T, T]`.
#[derive(Clone, Debug)]
pub struct Weights {
    pub values: Vec<f64>,
    pub source: Source,
    /// How far the tensor observed as 'weights' lies from what each value counts for, where both are known.
    pub observed_differs_by: Option<f64>,
}

/// The tensor that a script observes by a name, where it is a map for each head.
pub fn observed(function: &TracedFunction, values: &TensorValues, name: &str) -> Option<TensorId> {
    let (_, id) = function.recording.observed.iter().find(|(known, _)| known == name)?;
    is_map(&function.shape, values, *id).then_some(*id)
}

pub fn is_map(shape: &Shape, values: &TensorValues, id: TensorId) -> bool {
    let Some(tensor) = values.get(id) else { return false };
    tensor.shape.ends_with(&[shape.length, shape.length]) && tensor.len() == shape.maps() * shape.length * shape.length
}

/// The map that the last product with something made of the values has as its other operand. Weights may be made of
/// values too, by mistake; a map that is not goes first.
pub fn operand(function: &TracedFunction, values: &TensorValues) -> Option<TensorId> {
    let of_value = depends_on(function, &[3]);
    let depends = |id: TensorId| of_value.get(id as usize) == Some(&true);
    let last = |made_of_values: bool| {
        function.recording.calls.iter().rev().find_map(|call| {
            let [Argument::Tensor(left), Argument::Tensor(right), transposed @ ..] = call.arguments.as_slice() else {
                return None;
            };
            // Where T = d_head queries look like a map; what multiplies transposed values makes scores.
            let product = matches!(call.op.as_str(), "bmm" | "matmul") && !transposed.contains(&Argument::Truth(true));
            let map = product && depends(*right) && is_map(&function.shape, values, *left);
            (map && depends(*left) == made_of_values).then_some(*left)
        })
    };
    last(false).or_else(|| last(true))
}

/// Finds the weights of a function. `output` is a runner of its output alone.
///
/// # Errors
/// A device that fails.
pub async fn weights(
    function: &TracedFunction,
    inputs: &CaseInputs,
    values: &TensorValues,
    output: &Runner,
) -> Result<Option<Weights>, CheckError> {
    let named = observed(function, values, "weights");
    let tensor = named.or_else(|| operand(function, values)).and_then(|id| values.get(id));
    if let Some(counted) = by_unit_values(&function.shape, inputs, output).await? {
        let far = |tensor: &crate::tape::Tensor| {
            let differences = tensor.values().iter().zip(&counted).map(|(named, counted)| (named - counted).abs());
            differences.fold(0.0, f64::max)
        };
        let observed_differs_by = named.and(tensor).map(far);
        return Ok(Some(Weights { values: counted, source: Source::UnitValues, observed_differs_by }));
    }
    let source = if named.is_some() { Source::Observed } else { Source::Operand };
    let found = tensor.map(|tensor| tensor.values().to_vec());
    Ok(found.map(|values| Weights { values, source, observed_differs_by: None }))
}

/// With value j of each head the unit vector j, component j of output i is the weight of j in i. `None` where T is larger
/// than d_head, or where the output is not these weights times the values.
async fn by_unit_values(shape: &Shape, inputs: &CaseInputs, output: &Runner) -> Result<Option<Vec<f64>>, CheckError> {
    let length = shape.length;
    if length > shape.head_width {
        return Ok(None);
    }
    let mut unit = inputs.clone();
    unit.value.fill(0.0);
    for map in 0..shape.maps() {
        for position in 0..length {
            unit.value[shape.place(map, position, position)] = 1.0;
        }
    }
    let counted = output.first(&unit).await?;
    let real = output.first(inputs).await?;
    let largest = real.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    let mut weights = Vec::with_capacity(shape.maps() * length * length);
    for map in 0..shape.maps() {
        for i in 0..length {
            let row: Vec<f64> = (0..length).map(|j| counted[shape.place(map, i, j)]).collect();
            for c in 0..shape.head_width {
                let sum: f64 = row.iter().enumerate().map(|(j, w)| w * inputs.value[shape.place(map, j, c)]).sum();
                let difference = (sum - real[shape.place(map, i, c)]).abs();
                if difference.is_nan() || difference > 1e-9 * largest {
                    return Ok(None);
                }
            }
            weights.extend(row);
        }
    }
    Ok(Some(weights))
}
