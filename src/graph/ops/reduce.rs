//! Sums, means and maxima over one axis, which is removed.

use super::super::Kinks;
use super::prelude::*;
use super::{binary, constant, divide, multiply, reshape, scale};
use crate::kernel::elementwise::Binary;
use crate::kernel::reduce as kernel;
use crate::tape::BufferId;

pub use crate::kernel::reduce::Reduction;

#[derive(Clone, Debug)]
pub struct Reduce {
    pub axis: usize,
    pub reduction: Reduction,
}

/// The sizes before, of and behind an axis: how kernels that work along one axis see a tensor.
pub struct Axis {
    outer: usize,
    length: usize,
    inner: usize,
}

impl Axis {
    pub fn new(shape: &[usize], axis: usize) -> Self {
        Self { outer: shape[..axis].iter().product(), length: shape[axis], inner: shape[axis + 1..].iter().product() }
    }

    /// Only what lies before the axis may be divided: all else would leave gaps, which these kernels do not know.
    pub fn dimensions(&self) -> [Dimension; 3] {
        [Dimension::anywhere(self.outer), Dimension::whole(self.length), Dimension::whole(self.inner)]
    }

    /// A tensor of these sizes.
    pub fn access(&self, view: &View) -> Access {
        Access::at_start(view.buffer, &[self.length * self.inner, self.inner, 1])
    }
}

impl Axis {
    /// How many equal sections the axis is reduced in, one by one and then all together, where a binding does not hold what
    /// lies along it: sums of sums, maxima of maxima, means of means of as many. `None` where it need not or cannot be.
    fn sections(&self, lowering: &Lowering<'_>, x: &View) -> Option<usize> {
        let fits = |sections: usize| {
            let axis = Axis { outer: self.outer * sections, length: self.length / sections, inner: self.inner };
            lowering.can_bind(&axis.dimensions(), &[axis.access(x)])
        };
        if fits(1) {
            return None;
        }
        (2..=self.length / 2).filter(|&sections| self.length.is_multiple_of(sections)).find(|&sections| fits(sections))
    }
}

impl Reduce {
    fn launch(&self, lowering: &mut Lowering<'_>, node: NodeId, axis: &Axis, x: BufferId, y: BufferId) {
        let accesses =
            [Access::at_start(x, &[axis.length * axis.inner, axis.inner, 1]), Access::at_start(y, &[axis.inner, 0, 1])];
        lowering.launch_in_windows(node, &kernel::KERNEL, &axis.dimensions(), &accesses, |part| kernel::Parameters {
            outer: part.size(0),
            length: part.size(1),
            inner: part.size(2),
            operation: self.reduction.index(),
        });
    }
}

impl Op for Reduce {
    fn name(&self) -> &'static str {
        match self.reduction {
            Reduction::Sum => "sum",
            Reduction::Maximum => "max",
            Reduction::Mean => "mean",
        }
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 1, "1")?;
        numbers(inputs)?;
        let mut ty = inputs[0].clone();
        if self.axis >= ty.shape.len() {
            return Err(ShapeError::Axis { axis: self.axis, rank: ty.shape.len() });
        }
        ty.shape.remove(self.axis);
        Ok(vec![ty])
    }

    fn domain(&self) -> Domain {
        match self.reduction {
            Reduction::Sum | Reduction::Mean => Domain::SMOOTH,
            Reduction::Maximum => Domain::with_kinks(Kinks::AtTiesAlong(self.axis)),
        }
    }

    /// A sum spreads its gradient; a mean spreads a part of it; a maximum gives it to the largest, ties shared.
    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        let Some(dy) = upstream[0] else { return Ok(vec![None]) };
        let x = graph.nodes[node].inputs[0];
        let shape = graph.shape(x).to_vec();
        let mut kept = shape.clone();
        kept[self.axis] = 1;
        let dy = reshape(graph, dy, &kept)?;
        let ones = constant(graph, &shape, 1.0)?;
        let spread = multiply(graph, dy, ones)?;
        let gradient = match self.reduction {
            Reduction::Sum => spread,
            Reduction::Mean => scale(graph, spread, 1.0 / shape[self.axis] as f64)?,
            Reduction::Maximum => {
                let y = reshape(graph, Value { node, output: 0 }, &kept)?;
                let largest = binary(graph, x, y, Binary::Equal)?;
                let ties = reduce(graph, largest, self.axis, Reduction::Sum)?;
                let ties = reshape(graph, ties, &kept)?;
                let part = divide(graph, largest, ties)?;
                multiply(graph, spread, part)?
            }
        };
        Ok(vec![Some(gradient)])
    }

    /// Of one number, sum, mean and maximum are the number itself.
    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let mut view = lowering.input(node, 0);
        if view.shape[self.axis] == 1 {
            view.shape.remove(self.axis);
            view.strides.remove(self.axis);
            lowering.alias(node, 0, view);
            return Ok(());
        }
        let x = lowering.contiguous_input(node, 0)?;
        let y = lowering.output(node, 0);
        let axis = Axis::new(&x.shape, self.axis);
        let Some(sections) = axis.sections(lowering, &x) else {
            self.launch(lowering, node, &axis, x.buffer, y.buffer);
            return Ok(());
        };
        let Axis { outer, length, inner } = axis;
        let category = lowering.node(node).category;
        let partial = lowering.scratch(node, "sections", &[outer, sections, inner], category);
        let section = Axis { outer: outer * sections, length: length / sections, inner };
        self.launch(lowering, node, &section, x.buffer, partial);
        self.launch(lowering, node, &Axis { outer, length: sections, inner }, partial, y.buffer);
        Ok(())
    }

    fn attributes(&self) -> String {
        format!("axis={}", self.axis)
    }
}

/// The sum, mean or maximum over an axis, which is removed.
///
/// # Errors
/// [`ShapeError::Axis`]
pub fn reduce(graph: &mut Graph, x: Value, axis: usize, reduction: Reduction) -> Result<Value, GraphError> {
    graph.add(Reduce { axis, reduction }, &[x])
}

/// Sums out the dimensions that `shape` was broadcast over: the gradient of broadcasting. Inner ones first: rows of what
/// no binding holds can be summed in windows, whole matrices of it cannot.
///
/// # Errors
/// None where `x` has a shape that `shape` broadcasts to.
pub fn sum_to_shape(graph: &mut Graph, x: Value, shape: &[usize]) -> Result<Value, GraphError> {
    let mut x = x;
    let leading = graph.shape(x).len() - shape.len();
    for axis in (0..shape.len()).rev() {
        let own = graph.shape(x).to_vec();
        if shape[axis] == 1 && own[leading + axis] > 1 {
            let summed = reduce(graph, x, leading + axis, Reduction::Sum)?;
            let mut kept = own;
            kept[leading + axis] = 1;
            x = reshape(graph, summed, &kept)?;
        }
    }
    for _ in 0..leading {
        x = reduce(graph, x, 0, Reduction::Sum)?;
    }
    Ok(x)
}
