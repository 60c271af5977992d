//! What a script did, op by op.

use serde::{Deserialize, Serialize};

/// A tensor of a recording: 0 to 3 are x, q, k and v, and each call makes the next one.
pub type TensorId = u32;

/// How many tensors a function is called with.
pub const INPUTS: usize = 4;

/// An argument of a call, bound to its parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Argument<T> {
    Tensor(T),
    #[serde(with = "bits")]
    Number(f64),
    Truth(bool),
    Text(String),
    List(Vec<i64>),
    Tensors(Vec<T>),
    /// The default.
    Omitted,
}

impl<T> Argument<T> {
    /// The same argument with its tensors looked up; `None` where one is not found.
    pub fn look_up<U>(&self, tensor: impl Fn(&T) -> Option<U>) -> Option<Argument<U>> {
        Some(match self {
            Self::Tensor(value) => Argument::Tensor(tensor(value)?),
            Self::Number(value) => Argument::Number(*value),
            Self::Truth(value) => Argument::Truth(*value),
            Self::Text(value) => Argument::Text(value.clone()),
            Self::List(value) => Argument::List(value.clone()),
            Self::Tensors(values) => Argument::Tensors(values.iter().map(tensor).collect::<Option<_>>()?),
            Self::Omitted => Argument::Omitted,
        })
    }
}

/// An op applied to arguments, which makes one tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Its name in [`ops::TABLE`](super::ops::TABLE).
    pub op: String,
    /// One for each parameter.
    pub arguments: Vec<Argument<TensorId>>,
    /// Counted from 1.
    pub line: u32,
    pub column: u32,
}

/// How a learned parameter begins.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Initial {
    Constant(f64),
    /// Normal, with this standard deviation.
    Normal(f64),
}

/// A learned parameter of one layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterDeclaration {
    pub name: String,
    pub shape: Vec<usize>,
    pub initial: Initial,
    /// The tensor it is.
    pub tensor: TensorId,
    pub line: u32,
}

/// A whole function call for one layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    pub calls: Vec<Call>,
    pub parameters: Vec<ParameterDeclaration>,
    /// Tensors that `observe` named, in order.
    pub observed: Vec<(String, TensorId)>,
    /// What the function returned, `[B, T, d]`.
    pub result: TensorId,
    /// What `print` wrote.
    pub printed: Vec<String>,
    /// What may be a mistake and is none yet, with its line.
    pub notes: Vec<(u32, String)>,
}

/// JSON knows neither infinities nor which NaN: numbers go by their bits.
mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(number.to_bits())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(f64::from_bits(u64::deserialize(deserializer)?))
    }
}
