//! The graph floor: differentiable ops over tensors, rewritten, differentiated, lowered and planned into a tape.
//!
//! The way of a step: trace (ops are added one by one), [`rewrite`] (attention is recognised before differentiation,
//! so that the fused op's own gradient rule is used), [`differentiate`], [`lower`](lowering), plan.

mod autodiff;
mod error;
mod evaluate;
mod lowering;
pub mod ops;
mod plan;
mod print;
mod recompute;
mod rewrite;
mod tensor;
mod view;
mod windows;

use std::sync::Arc;

pub use autodiff::{differentiate, differentiate_from};
pub use error::{GraphError, ShapeError};
pub use evaluate::{Evaluation, EvaluationError, evaluate};
pub use lowering::{Lowering, LoweringError};
pub use plan::{Extent, Reuse, TapeBuilder};
pub use print::print_graph;
pub use recompute::Recompute;
pub use rewrite::{RewriteReport, Rewrites, rewrite};
pub use tensor::{Dtype, TensorType};
pub use view::View;
pub use windows::{Access, Dimension, Part};

pub use crate::kernel::domain::{Defined, Domain, Kinks};

use crate::tape::Category;

/// A node's place in its graph. Inputs always have smaller numbers, so the numbers are a topological order.
pub type NodeId = usize;

/// One output of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value {
    pub node: NodeId,
    pub output: usize,
}

/// Where in a learner's script a node came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpan {
    pub file: String,
    pub line: u32,
    pub column: u32,
}

impl std::fmt::Display for SourceSpan {
    /// `FILE:LINE`
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.file, self.line)
    }
}

/// Where in a model a node belongs, for what is planned over whole blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The transformer block; `None` outside of them.
    pub block: Option<usize>,
    /// Inside of the block's attention function: from query, key and value to what it returns.
    pub attention: bool,
    /// Added by differentiation.
    pub backward: bool,
}

/// A differentiable operation: its shape rule, its domain, its gradient rule and its lowering.
pub trait Op: std::fmt::Debug + Send + Sync + std::any::Any {
    /// The name that plans and errors use.
    fn name(&self) -> &'static str;

    /// The shape rule.
    ///
    /// # Errors
    /// What about the inputs is wrong, and what would be right.
    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError>;

    /// For which inputs it is defined, and where it has no derivative. The tests of its gradient rule draw their inputs
    /// from this statement.
    fn domain(&self) -> Domain;

    /// The gradient rule: for each input the gradient of the loss, or `None` where nothing flows. `upstream` holds the
    /// gradient of the loss for each output that has one.
    ///
    /// # Errors
    /// An op that cannot be differentiated says so.
    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError>;

    /// Emits the launches (or just the views) that compute the outputs.
    ///
    /// # Errors
    /// A size that no kernel can index.
    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError>;

    /// Attributes as a plan prints them; empty for most.
    fn attributes(&self) -> String {
        String::new()
    }

    /// What an output is kept for; `None` for what the node's others are.
    fn output_category(&self, _output: usize) -> Option<Category> {
        None
    }
}

/// An op applied to inputs.
#[derive(Clone, Debug)]
pub struct Node {
    pub op: Arc<dyn Op>,
    pub inputs: Vec<Value>,
    pub outputs: Vec<TensorType>,
    /// What the node computes, for a reader of the plan: `h.0.attn.scores`.
    pub label: String,
    pub category: Category,
    pub span: Option<SourceSpan>,
    pub place: Place,
}

/// Ops and the values that flow between them.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub nodes: Vec<Node>,
    /// Put before the label of each new node.
    scope: String,
    category: Option<Category>,
    span: Option<SourceSpan>,
    place: Place,
}

impl Graph {
    pub fn new() -> Self {
        Self::default()
    }

    /// Labels of nodes added from now on begin with `scope`.
    pub fn set_scope(&mut self, scope: impl Into<String>) {
        self.scope = scope.into();
    }

    /// Outputs of nodes added from now on are booked under this category; `None` for [`Category::Activation`].
    pub fn set_category(&mut self, category: Option<Category>) {
        self.category = category;
    }

    /// Nodes added from now on come from this place of a script; `None` for those of the program itself. Gradients come
    /// from none.
    pub fn set_span(&mut self, span: Option<SourceSpan>) {
        self.span = span;
    }

    /// Nodes added from now on belong there.
    pub fn set_place(&mut self, place: Place) {
        self.place = place;
    }

    /// Adds an op with one output.
    ///
    /// # Errors
    /// [`GraphError::Shape`] where the inputs do not fit the op.
    pub fn add(&mut self, op: impl Op, inputs: &[Value]) -> Result<Value, GraphError> {
        Ok(Value { node: self.add_node(Arc::new(op), inputs)?, output: 0 })
    }

    /// Adds an op; its outputs are `Value { node, output: 0.. }`.
    ///
    /// # Errors
    /// As [`Graph::add`].
    pub fn add_node(&mut self, op: Arc<dyn Op>, inputs: &[Value]) -> Result<NodeId, GraphError> {
        let types: Vec<&TensorType> = inputs.iter().map(|&input| self.ty(input)).collect();
        let outputs = op.infer(&types).map_err(|reason| self.shape_error(op.name(), inputs, reason))?;
        let label = if self.scope.is_empty() { op.name().into() } else { format!("{}.{}", self.scope, op.name()) };
        self.nodes.push(Node {
            op,
            inputs: inputs.to_vec(),
            outputs,
            label,
            category: self.category.unwrap_or(Category::Activation),
            span: self.span.clone(),
            place: self.place,
        });
        Ok(self.nodes.len() - 1)
    }

    /// The error of an op whose shape rule these inputs break.
    fn shape_error(&self, op: &'static str, inputs: &[Value], reason: ShapeError) -> GraphError {
        let shapes: Vec<String> = inputs.iter().map(|&input| self.ty(input).to_string()).collect();
        GraphError::Shape { op, label: self.scope.clone(), shapes: shapes.join(" x "), reason }
    }

    /// Renames the node of a value.
    pub fn label(&mut self, value: Value, label: impl Into<String>) -> Value {
        self.nodes[value.node].label = label.into();
        value
    }

    pub fn ty(&self, value: Value) -> &TensorType {
        &self.nodes[value.node].outputs[value.output]
    }

    pub fn shape(&self, value: Value) -> &[usize] {
        &self.ty(value).shape
    }

    /// The op of a node, if it is a `T`.
    pub fn op<T: Op>(&self, node: NodeId) -> Option<&T> {
        let op: &dyn std::any::Any = &*self.nodes[node].op;
        op.downcast_ref()
    }

    /// Which nodes the given values need, by node.
    pub fn needed(&self, roots: &[Value]) -> Vec<bool> {
        let mut needed = vec![false; self.nodes.len()];
        for root in roots {
            needed[root.node] = true;
        }
        for node in (0..self.nodes.len()).rev() {
            if needed[node] {
                for input in &self.nodes[node].inputs {
                    needed[input.node] = true;
                }
            }
        }
        needed
    }
}
