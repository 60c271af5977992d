//! Ops that move no number where they need not: reshape, permute, slice; and their opposite, concat.

use super::constant;
use super::prelude::*;

/// The same elements in another shape.
#[derive(Clone, Debug)]
pub struct Reshape {
    pub shape: Vec<usize>,
}

/// Dimensions in another order: output dimension `d` is input dimension `order[d]`.
#[derive(Clone, Debug)]
pub struct Permute {
    pub order: Vec<usize>,
}

/// The part `start..end` of an axis.
#[derive(Clone, Debug)]
pub struct Slice {
    pub axis: usize,
    pub start: usize,
    pub end: usize,
}

/// Tensors one behind the other along an axis.
#[derive(Clone, Debug)]
pub struct Concat {
    pub axis: usize,
}

impl Op for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 1, "1")?;
        let ty = TensorType { shape: self.shape.clone(), ..inputs[0].clone() };
        match (inputs[0].elements(), ty.elements()) {
            (Some(from), Some(to)) if from == to => Ok(vec![ty]),
            (from, to) => Err(ShapeError::Reshape { from: from.unwrap_or(u64::MAX), to: to.unwrap_or(u64::MAX) }),
        }
    }

    fn domain(&self) -> Domain {
        Domain::SMOOTH
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        let Some(dy) = upstream[0] else { return Ok(vec![None]) };
        let shape = graph.shape(graph.nodes[node].inputs[0]).to_vec();
        Ok(vec![Some(reshape(graph, dy, &shape)?)])
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let x = lowering.input(node, 0);
        match x.reshaped(&self.shape) {
            Some(view) => lowering.alias(node, 0, view),
            None => {
                if lowering.node(node).outputs[0].dtype == Dtype::Words {
                    // Refuses: what no strides can express does not lie in order, and copies carry numbers only.
                    lowering.words_input(node, 0)?;
                }
                let y = lowering.output(node, 0);
                let target = View::contiguous(y.buffer, &x.shape);
                let label = format!("{} (copy)", lowering.node(node).label);
                lowering.copy(&x, &target, &label)?;
            }
        }
        Ok(())
    }
}

impl Op for Permute {
    fn name(&self) -> &'static str {
        "permute"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 1, "1")?;
        let rank = inputs[0].shape.len();
        let mut sorted = self.order.clone();
        sorted.sort_unstable();
        if sorted != (0..rank).collect::<Vec<_>>() {
            return Err(ShapeError::Permutation { order: self.order.clone(), rank });
        }
        let shape = self.order.iter().map(|&dimension| inputs[0].shape[dimension]).collect();
        Ok(vec![TensorType { shape, ..inputs[0].clone() }])
    }

    fn domain(&self) -> Domain {
        Domain::SMOOTH
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        _: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        let Some(dy) = upstream[0] else { return Ok(vec![None]) };
        let mut back = vec![0; self.order.len()];
        for (at, &dimension) in self.order.iter().enumerate() {
            back[dimension] = at;
        }
        Ok(vec![Some(permute(graph, dy, &back)?)])
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let view = lowering.input(node, 0).permuted(&self.order);
        lowering.alias(node, 0, view);
        Ok(())
    }

    fn attributes(&self) -> String {
        format!("order={:?}", self.order)
    }
}

impl Op for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 1, "1")?;
        let Slice { axis, start, end } = *self;
        let mut ty = inputs[0].clone();
        let rank = ty.shape.len();
        let size = *ty.shape.get(axis).ok_or(ShapeError::Axis { axis, rank })?;
        if start >= end || end > size {
            return Err(ShapeError::Slice { axis, start, end, size });
        }
        ty.shape[axis] = end - start;
        Ok(vec![ty])
    }

    fn domain(&self) -> Domain {
        Domain::SMOOTH
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        let Some(dy) = upstream[0] else { return Ok(vec![None]) };
        let shape = graph.shape(graph.nodes[node].inputs[0]).to_vec();
        let zeros = |graph: &mut Graph, size: usize| {
            let mut shape = shape.clone();
            shape[self.axis] = size;
            (size > 0).then(|| constant(graph, &shape, 0.0)).transpose()
        };
        let before = zeros(graph, self.start)?;
        let after = zeros(graph, shape[self.axis] - self.end)?;
        let parts: Vec<Value> = [before, Some(dy), after].into_iter().flatten().collect();
        Ok(vec![Some(concat(graph, &parts, self.axis)?)])
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let view = lowering.input(node, 0).sliced(self.axis, self.start, self.end - self.start);
        lowering.alias(node, 0, view);
        Ok(())
    }

    fn attributes(&self) -> String {
        format!("axis={} {}..{}", self.axis, self.start, self.end)
    }
}

impl Op for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        let first = *inputs.first().ok_or(ShapeError::InputCount { wanted: "at least 1", got: 0 })?;
        numbers(inputs)?;
        let rank = first.shape.len();
        if self.axis >= rank {
            return Err(ShapeError::Axis { axis: self.axis, rank });
        }
        let mut ty = first.clone();
        for other in &inputs[1..] {
            if other.shape.len() != rank {
                return Err(ShapeError::Differ { what: "number of dimensions", left: rank, right: other.shape.len() });
            }
            for dimension in (0..rank).filter(|&dimension| dimension != self.axis) {
                let (left, right) = (first.shape[dimension], other.shape[dimension]);
                if left != right {
                    return Err(ShapeError::Differ { what: "sizes beside the axis", left, right });
                }
            }
            ty.shape[self.axis] += other.shape[self.axis];
        }
        Ok(vec![ty])
    }

    fn domain(&self) -> Domain {
        Domain::SMOOTH
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        let inputs = graph.nodes[node].inputs.clone();
        let Some(dy) = upstream[0] else { return Ok(vec![None; inputs.len()]) };
        let mut start = 0;
        inputs
            .into_iter()
            .map(|input| {
                let end = start + graph.shape(input)[self.axis];
                let part = slice(graph, dy, self.axis, start, end)?;
                start = end;
                Ok(Some(part))
            })
            .collect()
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let y = lowering.output(node, 0);
        let label = lowering.node(node).label.clone();
        let mut start = 0;
        for input in 0..lowering.node(node).inputs.len() {
            let x = lowering.input(node, input);
            let size = x.shape[self.axis];
            lowering.copy(&x, &y.sliced(self.axis, start, size), &label)?;
            start += size;
        }
        Ok(())
    }

    fn attributes(&self) -> String {
        format!("axis={}", self.axis)
    }
}

/// `x` in another shape of as many elements; `x` itself where the shape is the same.
///
/// # Errors
/// [`ShapeError::Reshape`]
pub fn reshape(graph: &mut Graph, x: Value, shape: &[usize]) -> Result<Value, GraphError> {
    if graph.shape(x) == shape {
        return Ok(x);
    }
    graph.add(Reshape { shape: shape.to_vec() }, &[x])
}

/// `x` with its dimensions in another order.
///
/// # Errors
/// [`ShapeError::Permutation`]
pub fn permute(graph: &mut Graph, x: Value, order: &[usize]) -> Result<Value, GraphError> {
    graph.add(Permute { order: order.to_vec() }, &[x])
}

/// `x` with its last two dimensions exchanged.
///
/// # Errors
/// [`ShapeError::Rank`] where it has fewer than two.
pub fn transpose(graph: &mut Graph, x: Value) -> Result<Value, GraphError> {
    let rank = graph.shape(x).len();
    let mut order: Vec<usize> = (0..rank).collect();
    if rank >= 2 {
        order.swap(rank - 2, rank - 1);
    }
    permute(graph, x, &order)
}

/// The part `start..end` of an axis of `x`; `x` itself where that is all of it.
///
/// # Errors
/// [`ShapeError::Axis`], [`ShapeError::Slice`]
pub fn slice(graph: &mut Graph, x: Value, axis: usize, start: usize, end: usize) -> Result<Value, GraphError> {
    if start == 0 && graph.shape(x).get(axis) == Some(&end) {
        return Ok(x);
    }
    graph.add(Slice { axis, start, end }, &[x])
}

/// Tensors one behind the other along an axis; the only one itself where there is one.
///
/// # Errors
/// [`ShapeError::Differ`] where sizes beside the axis differ.
pub fn concat(graph: &mut Graph, parts: &[Value], axis: usize) -> Result<Value, GraphError> {
    match parts {
        [only] => Ok(*only),
        _ => graph.add(Concat { axis }, parts),
    }
}

/// `x` with its elements moved by `shift` along an axis, those that leave it at one end coming back at the other: element
/// i goes to `(i + shift) mod n` (NumPy's `roll`). `x` itself where that moves nothing.
///
/// # Errors
/// [`ShapeError::Axis`]
pub fn roll(graph: &mut Graph, x: Value, axis: usize, shift: i64) -> Result<Value, GraphError> {
    let Some(&size) = graph.shape(x).get(axis) else {
        let rank = graph.shape(x).len();
        return Err(graph.shape_error("roll", &[x], ShapeError::Axis { axis, rank }));
    };
    // Less than `size`, so that both casts hold.
    let shift = shift.checked_rem_euclid(size as i64).unwrap_or(0) as usize;
    if shift == 0 {
        return Ok(x);
    }
    let last = slice(graph, x, axis, size - shift, size)?;
    let first = slice(graph, x, axis, 0, size - shift)?;
    concat(graph, &[last, first], axis)
}

#[cfg(test)]
mod tests {
    use super::super::super::evaluate;
    use super::super::{add, add_constant, input};
    use super::*;
    use crate::tape::{RunOn, Tensor};

    #[test]
    fn views_of_a_wrong_shape_say_what_is_wrong() {
        let mut graph = Graph::new();
        let x = input(&mut graph, "x", TensorType::real([2, 3])).unwrap();
        let total = add(&mut graph, x, x).unwrap();
        for (error, part) in [
            (reshape(&mut graph, total, &[7]), "6 elements cannot be reshaped to 7"),
            (permute(&mut graph, x, &[0, 0]), "no order of 2 dimensions"),
            (slice(&mut graph, x, 1, 2, 5), "slice 2..5 of axis 1 leaves its size 3"),
            (slice(&mut graph, x, 2, 0, 1), "axis 2 does not exist"),
            (roll(&mut graph, x, 2, 1), "roll in '' of [2,3]: axis 2 does not exist"),
        ] {
            let message = error.unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn an_element_that_rolls_out_at_one_end_comes_back_at_the_other() {
        // Of [[0, 1, 2], [3, 4, 5]], as NumPy's roll gives them.
        for (axis, shift, expected) in [
            (1, 1, [2.0, 0.0, 1.0, 5.0, 3.0, 4.0]),
            (1, -1, [1.0, 2.0, 0.0, 4.0, 5.0, 3.0]),
            (1, 7, [2.0, 0.0, 1.0, 5.0, 3.0, 4.0]),
            (1, i64::MIN, [2.0, 0.0, 1.0, 5.0, 3.0, 4.0]),
            (1, -3, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
            (0, 1, [3.0, 4.0, 5.0, 0.0, 1.0, 2.0]),
            (0, 0, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
        ] {
            let mut graph = Graph::new();
            let x = input(&mut graph, "x", TensorType::real([2, 3])).unwrap();
            let rolled = roll(&mut graph, x, axis, shift).unwrap();
            let rolled = add_constant(&mut graph, rolled, 0.0).unwrap();
            let tensor = Tensor::real([2, 3], (0..6).map(f64::from).collect());
            let results = pollster::block_on(evaluate(&graph, &[(x, &tensor)], &[rolled], &RunOn::CpuWide)).unwrap();
            assert_eq!(results[0].values(), expected, "by {shift} along {axis}");
        }
    }
}
