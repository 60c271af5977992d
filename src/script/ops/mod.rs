//! The ops that a script may use: the one list that the interpreter offers, that recordings are replayed with, and that
//! the help is made of.

mod activations;
mod arithmetic;
mod attention;
mod bound;
mod comparisons;
mod leaves;
mod reductions;
mod shapes;

use super::ScriptError;
use super::recording::Argument;
use crate::graph::{Graph, GraphError, Value};

pub use bound::Bound;
pub use leaves::{OBSERVE, PARAMETER, initial};

/// What a parameter of an op takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tensor,
    /// A tensor, or a number that is broadcast.
    Operand,
    /// A list of tensors.
    Tensors,
    Number,
    /// A whole number.
    Whole,
    Truth,
    /// A list of whole numbers.
    Sizes,
    Text,
    /// A number, or a word.
    NumberOrText,
}

impl Kind {
    /// As errors say it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Tensor => "a tensor",
            Self::Operand => "a tensor or a number",
            Self::Tensors => "a list of tensors",
            Self::Number => "a number",
            Self::Whole => "a whole number",
            Self::Truth => "True or False",
            Self::Sizes => "a list of whole numbers",
            Self::Text => "a text",
            Self::NumberOrText => "a number or a text",
        }
    }
}

/// A parameter of an op.
#[derive(Clone, Copy, Debug)]
pub struct OpParameter {
    pub name: &'static str,
    pub kind: Kind,
    /// The default as the help shows it; a parameter without one must be given.
    pub default: Option<&'static str>,
}

const fn required(name: &'static str, kind: Kind) -> OpParameter {
    OpParameter { name, kind, default: None }
}

const fn optional(name: &'static str, kind: Kind, default: &'static str) -> OpParameter {
    OpParameter { name, kind, default: Some(default) }
}

type Build = fn(&mut Graph, &Bound<'_>) -> Result<Value, OpError>;

/// An op as scripts see it.
pub struct ScriptOp {
    pub name: &'static str,
    pub parameters: &'static [OpParameter],
    /// One sentence for the help.
    pub summary: &'static str,
    build: Build,
}

/// An op that refuses what it is given; the message names the op, what it got and what it wants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OpError(pub String);

impl OpError {
    /// With its place in a script.
    pub fn at(self, file: &str, line: u32, column: u32) -> ScriptError {
        ScriptError { file: file.into(), line, column, message: self.0 }
    }
}

impl From<GraphError> for OpError {
    fn from(error: GraphError) -> Self {
        match error {
            GraphError::Shape { op, shapes, reason, .. } => Self(format!("{op}: {shapes}: {reason}")),
            other => Self(other.to_string()),
        }
    }
}

impl ScriptOp {
    /// Adds the op to a graph.
    ///
    /// # Errors
    /// Arguments of another kind or shape than the op takes.
    pub fn build(&self, graph: &mut Graph, arguments: &[Argument<Value>]) -> Result<Value, OpError> {
        let bound = Bound::new(self, arguments)?;
        (self.build)(graph, &bound)
    }

    /// How it is called: `softmax(x, axis=-1)`.
    pub fn signature(&self) -> String {
        let parameters = self.parameters.iter().map(|parameter| match parameter.default {
            None => parameter.name.to_string(),
            Some(default) => format!("{}={default}", parameter.name),
        });
        format!("{}({})", self.name, parameters.collect::<Vec<_>>().join(", "))
    }
}

/// Every op, by topic.
pub fn table() -> impl Iterator<Item = &'static ScriptOp> {
    [attention::OPS, arithmetic::OPS, comparisons::OPS, activations::OPS, reductions::OPS, shapes::OPS, leaves::OPS]
        .into_iter()
        .flatten()
}

/// The op of a name.
///
/// # Errors
/// An unknown name, with the nearest known one.
pub fn find(name: &str) -> Result<&'static ScriptOp, OpError> {
    table().find(|op| op.name == name).ok_or_else(|| OpError(format!("ops has no {name}{}", nearest(name))))
}

/// `; did you mean softmax?`, or the list of all names where none is near.
pub fn nearest(name: &str) -> String {
    let best = table().map(|op| (strsim::damerau_levenshtein(op.name, name), op.name)).min();
    match best {
        Some((distance, near)) if distance <= 2 || near.starts_with(name) => format!("; did you mean ops.{near}?"),
        _ => format!("; it has {}", table().map(|op| op.name).collect::<Vec<_>>().join(", ")),
    }
}

/// A recording that no interpreter wrote.
pub fn malformed(op: &str) -> OpError {
    OpError(format!("{op}: its recording is broken"))
}
