//! Ops that move elements and change none.

use super::{Kind, OpError, ScriptOp, optional, required};
use crate::graph::ops::{concat, permute, reshape, roll, slice};

pub const OPS: &[ScriptOp] = &[
    ScriptOp {
        name: "transpose",
        parameters: &[required("x", Kind::Tensor), optional("axes", Kind::Sizes, "the last two swapped")],
        summary: "The axes in another order.",
        build: |graph, bound| {
            let x = bound.tensor("x")?;
            let rank = graph.shape(x).len();
            let order: Vec<usize> = match bound.is_given("axes")? {
                true => {
                    let of_end = |&axis: &i64| usize::try_from(if axis < 0 { axis + rank as i64 } else { axis });
                    let order = bound.list("axes")?.iter().map(of_end).collect::<Result<_, _>>();
                    order.map_err(|_| bound.error(format!("axes must name each of the {rank} axes once")))?
                }
                false if rank < 2 => return Err(bound.error(format!("{} has only one axis", graph.ty(x)))),
                false => (0..rank - 2).chain([rank - 1, rank - 2]).collect(),
            };
            Ok(permute(graph, x, &order)?)
        },
    },
    ScriptOp {
        name: "reshape",
        parameters: &[required("x", Kind::Tensor), required("shape", Kind::Sizes)],
        summary: "The same elements in another shape; one size may be -1.",
        build: |graph, bound| {
            let x = bound.tensor("x")?;
            let asked = bound.list("shape")?;
            let elements: usize = graph.shape(x).iter().product();
            let mut shape = Vec::with_capacity(asked.len());
            let mut open = None;
            for (index, &size) in asked.iter().enumerate() {
                match usize::try_from(size) {
                    Ok(size) if size > 0 => shape.push(size),
                    _ if size == -1 && open.is_none() => {
                        open = Some(index);
                        shape.push(1);
                    }
                    _ => return Err(bound.error(format!("the shape {asked:?} holds {size}: one size may be -1"))),
                }
            }
            if let Some(index) = open {
                let known = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
                match known {
                    Some(known) if elements.is_multiple_of(known) => shape[index] = elements / known,
                    _ => return Err(unequal(&graph.ty(x).to_string(), asked)),
                }
            }
            if shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size)) != Some(elements) {
                return Err(unequal(&graph.ty(x).to_string(), asked));
            }
            Ok(reshape(graph, x, &shape)?)
        },
    },
    ScriptOp {
        name: "slice",
        parameters: &[
            required("x", Kind::Tensor),
            required("axis", Kind::Whole),
            required("start", Kind::Whole),
            optional("stop", Kind::Whole, "the end"),
        ],
        summary: "The places from start up to, and without, stop along an axis; negative ones count from its end.",
        build: |graph, bound| {
            let x = bound.tensor("x")?;
            let axis = bound.axis_or(graph, x, "axis", 0)?;
            let size = graph.shape(x)[axis];
            let place = |at: i64| if at < 0 { at + size as i64 } else { at };
            let start = place(bound.whole("start")?);
            let stop = if bound.is_given("stop")? { place(bound.whole("stop")?) } else { size as i64 };
            if start < 0 || stop > size as i64 || start >= stop {
                let shape = graph.ty(x);
                return Err(bound.error(format!("{start} to {stop} holds nothing of axis {axis} of {shape}")));
            }
            Ok(slice(graph, x, axis, start as usize, stop as usize)?)
        },
    },
    ScriptOp {
        name: "concat",
        parameters: &[required("tensors", Kind::Tensors), optional("axis", Kind::Whole, "-1")],
        summary: "Tensors one behind the other along an axis.",
        build: |graph, bound| {
            let parts = bound.tensors("tensors")?;
            let Some(&first) = parts.first() else { return Err(bound.error("there are no tensors")) };
            let axis = bound.axis_or(graph, first, "axis", -1)?;
            Ok(concat(graph, parts, axis)?)
        },
    },
    ScriptOp {
        name: "roll",
        parameters: &[required("x", Kind::Tensor), required("shift", Kind::Whole), optional("axis", Kind::Whole, "-1")],
        summary: "Every element moved on by shift places along an axis; what leaves at the end enters at the beginning.",
        build: |graph, bound| {
            let x = bound.tensor("x")?;
            let axis = bound.axis_or(graph, x, "axis", -1)?;
            Ok(roll(graph, x, axis, bound.whole("shift")?)?)
        },
    },
];

fn unequal(from: &str, to: &[i64]) -> OpError {
    OpError(format!("reshape: {from} cannot become {to:?}: the numbers of elements differ"))
}
