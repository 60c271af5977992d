//! Leaves: tensors that are handed in from outside, and constants.

use super::prelude::*;
use crate::kernel::fill;

/// A parameter, a batch of tokens, a probe's input: bound to a buffer when the graph is lowered.
#[derive(Clone, Debug)]
pub struct Input {
    pub ty: TensorType,
}

impl Op for Input {
    fn name(&self) -> &'static str {
        "input"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 0, "no")?;
        Ok(vec![self.ty.clone()])
    }

    fn domain(&self) -> Domain {
        Domain::LEAF
    }

    fn gradient(&self, _: &mut Graph, _: NodeId, _: &[Option<Value>]) -> Result<Vec<Option<Value>>, GraphError> {
        Ok(Vec::new())
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        Err(LoweringError::Unbound { label: lowering.node(node).label.clone() })
    }
}

/// A tensor of one value.
#[derive(Clone, Debug)]
pub struct Constant {
    pub shape: Vec<usize>,
    pub value: f64,
}

impl Op for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 0, "no")?;
        Ok(vec![TensorType::real(self.shape.clone())])
    }

    fn domain(&self) -> Domain {
        Domain::LEAF
    }

    fn gradient(&self, _: &mut Graph, _: NodeId, _: &[Option<Value>]) -> Result<Vec<Option<Value>>, GraphError> {
        Ok(Vec::new())
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let y = lowering.output(node, 0);
        let parameters = fill::Parameters { count: y.elements() as u32, value: self.value };
        lowering.launch(node, &fill::KERNEL, parameters, &[y.buffer]);
        Ok(())
    }

    fn attributes(&self) -> String {
        self.value.to_string()
    }
}

/// A leaf of the given type, labelled.
///
/// # Errors
/// None in practice; the signature is that of every builder.
pub fn input(graph: &mut Graph, label: &str, ty: TensorType) -> Result<Value, GraphError> {
    let value = graph.add(Input { ty }, &[])?;
    Ok(graph.label(value, label))
}

/// A tensor filled with one value.
///
/// # Errors
/// As [`input`].
pub fn constant(graph: &mut Graph, shape: &[usize], value: f64) -> Result<Value, GraphError> {
    graph.add(Constant { shape: shape.to_vec(), value }, &[])
}
