//! Leaves: tensors that are handed in from outside, constants, and positions.

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
        let (dimensions, accesses) = ([Dimension::anywhere(y.elements())], [Access::at_start(y.buffer, &[1])]);
        lowering.launch_in_windows(node, &fill::KERNEL, &dimensions, &accesses, |part| fill::Parameters {
            count: part.count(),
            value: self.value,
            step: 0.0,
        });
        Ok(())
    }

    fn attributes(&self) -> String {
        self.value.to_string()
    }
}

/// Each element's position along an axis, a whole number from 0 on.
#[derive(Clone, Debug)]
pub struct Index {
    pub shape: Vec<usize>,
    pub axis: usize,
}

impl Index {
    /// Whole numbers beyond 2^24 are not all there in f32.
    const LARGEST: usize = 1 << 24;
}

impl Op for Index {
    fn name(&self) -> &'static str {
        "index"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 0, "no")?;
        let rank = self.shape.len();
        let size = *self.shape.get(self.axis).ok_or(ShapeError::Axis { axis: self.axis, rank })?;
        match size <= Self::LARGEST {
            true => Ok(vec![TensorType::real(self.shape.clone())]),
            false => Err(ShapeError::Other(format!("{size} positions are more than f32 can count, {}", Self::LARGEST))),
        }
    }

    fn domain(&self) -> Domain {
        Domain::LEAF
    }

    fn gradient(&self, _: &mut Graph, _: NodeId, _: &[Option<Value>]) -> Result<Vec<Option<Value>>, GraphError> {
        Ok(Vec::new())
    }

    /// One line of positions, seen from every other axis with a stride of 0.
    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let size = self.shape[self.axis];
        let buffer = lowering.scratch(node, "positions", &[size], lowering.node(node).category);
        let parameters = fill::Parameters { count: u(size), value: 0.0, step: 1.0 };
        lowering.launch(node, &fill::KERNEL, parameters, &[buffer]);
        let mut line = vec![1; self.shape.len()];
        line[self.axis] = size;
        lowering.alias(node, 0, View::contiguous(buffer, &line).broadcast(&self.shape));
        Ok(())
    }

    fn attributes(&self) -> String {
        format!("axis={}", self.axis)
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

/// Each element's position along an axis of a tensor of that shape: `[T, 1]` and axis 0 give the rows of a `[T, T]` mask,
/// `[1, T]` and axis 1 its columns.
///
/// # Errors
/// [`ShapeError::Axis`]; [`ShapeError::Other`] where there are more positions than f32 can tell apart.
pub fn index(graph: &mut Graph, shape: &[usize], axis: usize) -> Result<Value, GraphError> {
    graph.add(Index { shape: shape.to_vec(), axis }, &[])
}

#[cfg(test)]
mod tests {
    use super::super::super::evaluate;
    use super::super::{add_constant, reshape};
    use super::*;
    use crate::tape::RunOn;

    #[test]
    fn positions_are_counted_along_their_axis_and_the_same_on_every_other() {
        for (shape, axis, expected) in [
            (&[3, 1][..], 0, &[0.0, 1.0, 2.0][..]),
            (&[1, 3], 1, &[0.0, 1.0, 2.0]),
            (&[2, 3], 0, &[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]),
            (&[2, 3], 1, &[0.0, 1.0, 2.0, 0.0, 1.0, 2.0]),
            (&[2, 2, 2], 1, &[0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]),
        ] {
            let mut graph = Graph::new();
            let positions = index(&mut graph, shape, axis).unwrap();
            // As a view, as what a kernel reads, and in a shape that strides of 0 cannot express.
            let moved = add_constant(&mut graph, positions, 0.0).unwrap();
            let flat = reshape(&mut graph, positions, &[shape.iter().product()]).unwrap();
            let outputs = [positions, moved, flat];
            for result in pollster::block_on(evaluate(&graph, &[], &outputs, &RunOn::CpuWide)).unwrap() {
                assert_eq!(result.values(), expected, "{shape:?} along {axis}");
            }
        }
    }

    #[test]
    fn positions_that_f32_cannot_count_and_axes_that_are_not_there_are_refused() {
        let mut graph = Graph::new();
        assert!(index(&mut graph, &[1 << 24, 1], 0).is_ok());
        for (shape, axis, part) in [
            (&[(1 << 24) + 1, 1][..], 0, "16777217 positions are more than f32 can count, 16777216"),
            (&[3, 1], 2, "axis 2 does not exist, the tensor has 2 dimensions"),
            (&[], 0, "axis 0 does not exist, the tensor has 0 dimensions"),
        ] {
            let message = index(&mut graph, shape, axis).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
