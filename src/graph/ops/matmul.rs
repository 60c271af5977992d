//! Matrix product over the last two dimensions, with leading batch dimensions that broadcast.

use super::super::lowering::collapse;
use super::prelude::*;
use super::{Permute, Reduction, reduce, reshape, sum_to_shape, transpose};
use crate::kernel::matmul as kernel;

/// `C[.., M, N] = A[.., M, K] B[.., K, N] (+ bias[N])`. Transposed operands are permuted views: the kernel reads any
/// strides.
#[derive(Clone, Debug)]
pub struct MatMul;

fn batch_shape(inputs: &[&TensorType]) -> Result<Vec<usize>, ShapeError> {
    let lead = |ty: &TensorType| ty.shape[..ty.shape.len() - 2].to_vec();
    super::elementwise::broadcast_shape(&lead(inputs[0]), &lead(inputs[1]))
}

impl Op for MatMul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        if !(2..=3).contains(&inputs.len()) {
            return Err(ShapeError::InputCount { wanted: "2 or 3", got: inputs.len() });
        }
        numbers(inputs)?;
        for ty in &inputs[..2] {
            if ty.shape.len() < 2 {
                return Err(ShapeError::Rank { wanted: "at least 2", got: ty.shape.len() });
            }
        }
        let (a, b) = (&inputs[0].shape, &inputs[1].shape);
        let (left, right) = (a[a.len() - 1], b[b.len() - 2]);
        if left != right {
            return Err(ShapeError::Differ { what: "inner sizes", left, right });
        }
        let columns = b[b.len() - 1];
        if let Some(bias) = inputs.get(2)
            && bias.shape != [columns]
        {
            let right = bias.shape.iter().product();
            return Err(ShapeError::Differ { what: "columns and bias", left: columns, right });
        }
        let mut shape = batch_shape(inputs)?;
        shape.extend([a[a.len() - 2], columns]);
        Ok(vec![TensorType::real(shape)])
    }

    fn domain(&self) -> Domain {
        Domain::SMOOTH
    }

    /// `dA = dC B^T`, `dB = A^T dC`, `dbias` the sum of `dC` over all rows.
    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        let inputs = graph.nodes[node].inputs.clone();
        let Some(dy) = upstream[0] else { return Ok(vec![None; inputs.len()]) };
        let (a, b) = (inputs[0], inputs[1]);
        let b_transposed = transpose(graph, b)?;
        let da = graph.add(MatMul, &[dy, b_transposed])?;
        // Where B is a transposed view, the gradient is computed in the order of what it is a view of.
        let rank = graph.shape(b).len();
        let order = graph.op::<Permute>(b.node).map(|op| op.order.clone());
        let db = if order.is_some_and(|order| order[rank - 2..] == [rank - 1, rank - 2]) {
            let dy_transposed = transpose(graph, dy)?;
            let product = graph.add(MatMul, &[dy_transposed, a])?;
            transpose(graph, product)?
        } else {
            let a_transposed = transpose(graph, a)?;
            graph.add(MatMul, &[a_transposed, dy])?
        };
        let (a_shape, b_shape) = (graph.shape(a).to_vec(), graph.shape(b).to_vec());
        let mut gradients = vec![Some(sum_to_shape(graph, da, &a_shape)?), Some(sum_to_shape(graph, db, &b_shape)?)];
        if inputs.len() == 3 {
            let columns = graph.shape(inputs[2])[0];
            let rows = graph.shape(dy).iter().product::<usize>() / columns.max(1);
            let flat = reshape(graph, dy, &[rows, columns])?;
            gradients.push(Some(reduce(graph, flat, 0, Reduction::Sum)?));
        }
        Ok(gradients)
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let c = lowering.output(node, 0);
        let rank = c.shape.len();
        let lead = &c.shape[..rank - 2];
        let full = |view: View| {
            let shape = [lead, &view.shape[view.shape.len() - 2..]].concat();
            view.broadcast(&shape)
        };
        let mut operands = [lowering.input(node, 0), lowering.input(node, 1)].map(full);
        // Two batch dimensions are what the kernel walks; a third must join its neighbour, if need be in a copy.
        let batches = |[a, b]: &[View; 2]| {
            let strides = [a, b, &c].map(|view| &view.strides[..rank - 2]);
            let (sizes, strides) = collapse(lead, &strides);
            (sizes.len() <= 2).then_some((sizes, strides))
        };
        let mut found = batches(&operands);
        if found.is_none() {
            for (view, name) in operands.iter_mut().zip(["a", "b"]) {
                let category = lowering.node(node).category;
                let target = View::contiguous(lowering.scratch(node, name, &view.shape, category), &view.shape);
                let label = format!("{} (contiguous)", lowering.node(node).label);
                lowering.copy(view, &target, &label)?;
                *view = target;
            }
            found = batches(&operands);
        }
        let (sizes, strides) =
            found.ok_or_else(|| LoweringError::Rank { label: lowering.node(node).label.clone(), rank })?;
        let [a, b] = operands;
        // (outer, inner) sizes and strides, 1 and 0 where there are fewer batch dimensions.
        let pair = |values: &[usize], filler: usize| match values {
            [] => (filler, filler),
            [only] => (filler, *only),
            [outer, inner, ..] => (*outer, *inner),
        };
        let (outer, inner) = pair(&sizes, 1);
        let (a_outer, a_inner) = pair(&strides[0], 0);
        let (b_outer, b_inner) = pair(&strides[1], 0);
        let (c_outer, c_inner) = pair(&strides[2], 0);
        let has_bias = lowering.node(node).inputs.len() == 3;
        // Tiles and vec4 begin at multiples of four.
        let dimensions = [
            Dimension::anywhere(outer),
            Dimension::anywhere(inner),
            Dimension::at_multiples(c.shape[rank - 2], 4),
            Dimension::at_multiples(c.shape[rank - 1], 4),
            Dimension::at_multiples(a.shape[rank - 1], 4),
        ];
        let of_a =
            Access::strided(a.buffer, a.offset, &[a_outer, a_inner, a.strides[rank - 2], 0, a.strides[rank - 1]]);
        let of_b =
            Access::strided(b.buffer, b.offset, &[b_outer, b_inner, 0, b.strides[rank - 1], b.strides[rank - 2]]);
        let of_bias = match has_bias {
            true => Access::at_start(lowering.contiguous_input(node, 2)?.buffer, &[0, 0, 0, 1, 0]),
            false => of_a.clone(),
        };
        let of_c = Access::strided(c.buffer, c.offset, &[c_outer, c_inner, c.strides[rank - 2], 1, 0]);
        let accesses = [of_a, of_b, of_bias, of_c];
        lowering.launch_in_windows(node, &kernel::KERNEL, &dimensions, &accesses, |part| {
            // A sum that is divided: what the first part leaves in C, later ones add to.
            let continued = part.start(4) > 0;
            kernel::Parameters {
                batches: part.size(0).saturating_mul(part.size(1)),
                batch_inner: part.size(1),
                rows: part.size(2),
                columns: part.size(3),
                inner: part.size(4),
                a_offset: part.offset(0),
                a_outer_stride: part.stride(0, 0),
                a_inner_stride: part.stride(0, 1),
                a_row_stride: part.stride(0, 2),
                a_column_stride: part.stride(0, 4),
                b_offset: part.offset(1),
                b_outer_stride: part.stride(1, 0),
                b_inner_stride: part.stride(1, 1),
                b_row_stride: part.stride(1, 4),
                b_column_stride: part.stride(1, 3),
                c_offset: part.offset(3),
                c_outer_stride: part.stride(3, 0),
                c_inner_stride: part.stride(3, 1),
                c_row_stride: part.stride(3, 2),
                has_bias: u32::from(has_bias && !continued),
                accumulates: u32::from(continued),
            }
        });
        Ok(())
    }
}

/// The product of the last two dimensions, leading dimensions broadcast.
///
/// # Errors
/// [`ShapeError::Differ`] where the inner sizes differ.
pub fn matmul(graph: &mut Graph, a: Value, b: Value) -> Result<Value, GraphError> {
    graph.add(MatMul, &[a, b])
}

/// A linear layer in GPT-2's Conv1D layout: `x [.., in] weight [in, out] + bias [out]`.
///
/// # Errors
/// As [`matmul`].
pub fn linear(graph: &mut Graph, x: Value, weight: Value, bias: Value) -> Result<Value, GraphError> {
    let shape = graph.shape(x).to_vec();
    let (inner, lead) = shape.split_last().map_or((1, &[][..]), |(last, lead)| (*last, lead));
    let flat = reshape(graph, x, &[lead.iter().product(), inner])?;
    let y = graph.add(MatMul, &[flat, weight, bias])?;
    let mut shape = lead.to_vec();
    shape.extend(graph.shape(weight).get(1));
    reshape(graph, y, &shape)
}
