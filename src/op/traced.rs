//! An op while its graph is built: leaves by name in, outputs by name out.

use std::collections::BTreeMap;

use super::OpError;
use crate::graph::{Graph, GraphError, ShapeError, Value};

/// A tensor that an op takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedTensor {
    /// Numbers that must be there.
    Real(&'static str),
    /// Ids that must be there, each below the size of an axis of another tensor, or -1 where that `may_ignore`.
    Ids { name: &'static str, table: &'static str, axis: usize, may_ignore: bool },
    /// Numbers that may be left out.
    Optional(&'static str),
    /// The gradient of an output: where it is given, gradients are computed.
    Gradient(&'static str),
}

impl NamedTensor {
    pub fn name(&self) -> &'static str {
        match *self {
            Self::Real(name) | Self::Ids { name, .. } | Self::Optional(name) | Self::Gradient(name) => name,
        }
    }
}

/// An output to differentiate, and the names for the gradients of leaves.
pub(super) struct Backward {
    pub output: Value,
    /// The leaf that holds the output's gradient; `None` for 1.
    pub gradient: Option<&'static str>,
    /// (leaf, name of its gradient)
    pub wanted: Vec<(&'static str, &'static str)>,
}

/// The graph of an op, with its leaves and what is wanted of it.
pub struct Traced<'a> {
    pub op: &'static str,
    pub graph: &'a mut Graph,
    pub(super) leaves: BTreeMap<&'static str, Value>,
    pub(super) outputs: Vec<(&'static str, Value)>,
    pub(super) backward: Vec<Backward>,
}

impl Traced<'_> {
    /// A leaf that must be there.
    pub fn leaf(&self, name: &'static str) -> Result<Value, OpError> {
        self.optional(name).ok_or_else(|| OpError::Tensors { op: self.op, faults: format!("{name} is missing") })
    }

    /// A leaf, if it was given.
    pub fn optional(&self, name: &str) -> Option<Value> {
        self.leaves.get(name).copied()
    }

    /// The shape of a leaf that must be there, with so many dimensions.
    pub fn sizes<const N: usize>(&self, name: &'static str, form: &str) -> Result<[usize; N], OpError> {
        let shape = self.graph.shape(self.leaf(name)?);
        shape.try_into().map_err(|_| OpError::Tensors {
            op: self.op,
            faults: format!("{name} has shape {shape:?} where {form} is needed"),
        })
    }

    /// Names a result.
    pub fn output(&mut self, name: &'static str, value: Value) {
        self.outputs.push((name, value));
    }

    /// Wants the gradients of leaves, given that of `output` under the name `gradient`, once it is among the inputs.
    pub fn differentiate(
        &mut self,
        output: Value,
        gradient: &'static str,
        wanted: impl IntoIterator<Item = (&'static str, &'static str)>,
    ) {
        if self.leaves.contains_key(gradient) {
            let wanted = wanted.into_iter().filter(|(leaf, _)| self.leaves.contains_key(leaf)).collect();
            self.backward.push(Backward { output, gradient: Some(gradient), wanted });
        }
    }

    /// Wants the gradients of leaves for a gradient of 1 of the single number `output`.
    pub fn differentiate_loss(
        &mut self,
        output: Value,
        wanted: impl IntoIterator<Item = (&'static str, &'static str)>,
    ) {
        self.backward.push(Backward { output, gradient: None, wanted: wanted.into_iter().collect() });
    }

    /// Puts the tensors' own names into an error about shapes.
    pub fn explain(&self, error: GraphError) -> OpError {
        match error {
            GraphError::Shape { reason, .. } => self.misfit(reason),
            source => OpError::Graph { op: self.op, source },
        }
    }

    /// An error about how the given tensors fit together.
    pub fn misfit(&self, reason: ShapeError) -> OpError {
        let given = self.leaves.iter().map(|(name, &leaf)| format!("{name} {}", self.graph.ty(leaf)));
        OpError::Shape { op: self.op, given: given.collect::<Vec<_>>().join(", "), reason }
    }
}
