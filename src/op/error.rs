//! What can be wrong with an op that was asked for by name.

use crate::graph::{EvaluationError, GraphError, LoweringError, ShapeError};
use crate::tape::{ExecutionError, TapeError};

#[derive(Debug, thiserror::Error)]
pub enum OpError {
    #[error("there is no op '{name}'; there are {known}")]
    Unknown { name: String, known: String },
    #[error("{op}: {faults}")]
    Tensors { op: &'static str, faults: String },
    #[error("{op} of {given}: {reason}")]
    Shape { op: &'static str, given: String, reason: ShapeError },
    #[error("{op} takes no {option}; it takes {known}")]
    Option { op: &'static str, option: &'static str, known: String },
    #[error("{option} is {value:?}, and must be {wanted}")]
    Value { option: &'static str, value: f64, wanted: &'static str },
    #[error("{op}: tensor {name} has {found} at element {index}, and must be {wanted}")]
    Element { op: &'static str, name: String, index: usize, found: i64, wanted: String },
    #[error("adamw: the norm of the gradients overflows in step {step}: --dtype f64 holds more")]
    Overflow { step: usize },
    #[error("{op}: {source}")]
    Graph { op: &'static str, source: GraphError },
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
}

impl From<TapeError> for OpError {
    fn from(error: TapeError) -> Self {
        Self::Evaluation(error.into())
    }
}

impl From<ExecutionError> for OpError {
    fn from(error: ExecutionError) -> Self {
        Self::Evaluation(error.into())
    }
}

impl From<LoweringError> for OpError {
    fn from(error: LoweringError) -> Self {
        Self::Evaluation(error.into())
    }
}
