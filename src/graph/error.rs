//! What can be wrong with a graph before anything runs.

/// A shape rule that the inputs break.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    #[error("takes {wanted} inputs, got {got}")]
    InputCount { wanted: &'static str, got: usize },
    #[error("needs {wanted} dimensions, got {got}")]
    Rank { wanted: &'static str, got: usize },
    #[error("{what}: {left} and {right} differ")]
    Differ { what: &'static str, left: usize, right: usize },
    #[error("shapes do not broadcast: dimension {dimension} is {left} and {right}, equal sizes or 1 would do")]
    Broadcast { dimension: usize, left: usize, right: usize },
    #[error("axis {axis} does not exist, the tensor has {rank} dimensions")]
    Axis { axis: usize, rank: usize },
    #[error("{from} elements cannot be reshaped to {to}")]
    Reshape { from: u64, to: u64 },
    #[error("slice {start}..{end} of axis {axis} leaves its size {size}")]
    Slice { axis: usize, start: usize, end: usize, size: usize },
    #[error("{order:?} is no order of {rank} dimensions")]
    Permutation { order: Vec<usize>, rank: usize },
    #[error("needs {wanted}, got {got}")]
    Element { wanted: &'static str, got: &'static str },
    #[error("{0}")]
    Other(String),
}

/// A graph that does not stand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    #[error("{op} in '{label}' of {shapes}: {reason}")]
    Shape { op: &'static str, label: String, shapes: String, reason: ShapeError },
    #[error("{op} has no gradient for {what}")]
    NoGradient { op: &'static str, what: &'static str },
    #[error("the loss has shape {shape}, a gradient needs a single number")]
    LossShape { shape: String },
}
