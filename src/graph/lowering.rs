//! Lowering: each op of a graph becomes launches over buffers, or just another view of one.

use std::collections::HashMap;

use super::plan::TapeBuilder;
use super::view::View;
use super::windows::{Access, Dimension, Part};
use super::{Dtype, Graph, Node, NodeId, Place, Value};
use crate::kernel::copy;
use crate::tape::{BufferId, Category, ElementKind, Kernel, KernelParameters};

/// Dimensions that a strided kernel can walk.
pub const MAXIMUM_RANK: usize = 8;

/// A graph that cannot become launches.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoweringError {
    #[error("'{label}' is an input without a buffer")]
    Unbound { label: String },
    #[error("'{label}' of shape {shape} has more bytes than 64 bits count; a smaller batch or context fits")]
    TooLarge { label: String, shape: String },
    #[error("'{label}' needs {rank} separate dimensions, kernels walk {MAXIMUM_RANK}")]
    Rank { label: String, rank: usize },
    #[error("'{label}': {reason}")]
    Unsupported { label: String, reason: String },
}

/// Where the lowering of a graph stands: views of the values computed so far.
pub struct Lowering<'a> {
    pub graph: &'a Graph,
    tape: &'a mut TapeBuilder,
    views: HashMap<Value, View>,
    /// Buffers that values must be computed into, where their op allows it.
    placed: HashMap<Value, BufferId>,
}

impl<'a> Lowering<'a> {
    /// Lowers what `roots` need. The second result counts the launches that the segment had when the lowering came to the
    /// node `from`, and when it had left the last one.
    pub(super) fn run(
        graph: &Graph,
        tape: &mut TapeBuilder,
        leaves: &HashMap<Value, BufferId>,
        roots: &[(Value, Option<BufferId>)],
        from: NodeId,
    ) -> Result<(Vec<View>, [usize; 2]), LoweringError> {
        let views =
            leaves.iter().map(|(&value, &buffer)| (value, View::contiguous(buffer, graph.shape(value)))).collect();
        let needed = graph.needed(&roots.iter().map(|&(value, _)| value).collect::<Vec<_>>());
        let mut placed = HashMap::new();
        for &(value, buffer) in roots {
            // A value that is wanted in two places is computed into the first and copied to the second.
            if let Some(buffer) = buffer {
                placed.entry(value).or_insert(buffer);
            }
        }
        let mut lowering = Lowering { graph, tape, views, placed };
        let mut before = None;
        for (node, described) in graph.nodes.iter().enumerate() {
            if node == from {
                before = Some(lowering.tape.launches());
            }
            let bound = lowering.views.contains_key(&Value { node, output: 0 });
            if needed[node] && !bound {
                for (output, ty) in described.outputs.iter().enumerate() {
                    if ty.elements().is_none_or(|elements| elements > u64::MAX / 4) {
                        let label = lowering.label(node, output);
                        return Err(LoweringError::TooLarge { label, shape: ty.to_string() });
                    }
                }
                lowering.tape.set_place(described.place);
                described.op.lower(&mut lowering, node)?;
            }
        }
        let all = lowering.tape.launches();
        let views: Result<Vec<View>, LoweringError> =
            roots.iter().map(|&(value, buffer)| lowering.place(value, buffer)).collect();
        tape.set_place(Place::default());
        Ok((views?, [before.unwrap_or(all), all]))
    }

    /// Where a root lies in the end: copied where its op could not compute it there, or only as a view with gaps.
    fn place(&mut self, root: Value, wanted: Option<BufferId>) -> Result<View, LoweringError> {
        self.tape.set_place(self.node(root.node).place);
        let view = self.views[&root].clone();
        let dense = view.is_contiguous() && view.offset == 0;
        let buffer = match wanted {
            Some(buffer) if buffer != view.buffer => buffer,
            None if !dense => {
                let node = self.node(root.node);
                let label = format!("{} (contiguous)", self.label(root.node, root.output));
                self.tape.transient(label, &view.shape[..], ElementKind::Real, node.category)
            }
            _ => return Ok(view),
        };
        let target = View::contiguous(buffer, &view.shape);
        self.copy(&view, &target, &self.label(root.node, root.output))?;
        Ok(target)
    }

    pub fn node(&self, node: NodeId) -> &'a Node {
        &self.graph.nodes[node]
    }

    fn label(&self, node: NodeId, output: usize) -> String {
        let label = &self.graph.nodes[node].label;
        if output == 0 { label.clone() } else { format!("{label}#{output}") }
    }

    /// Where an input of a node lies.
    pub fn input(&self, node: NodeId, input: usize) -> View {
        self.views[&self.graph.nodes[node].inputs[input]].clone()
    }

    /// As [`Lowering::input`], copied first where it has gaps or another order.
    ///
    /// # Errors
    /// [`LoweringError::Rank`] where even a copy cannot walk it.
    pub fn contiguous_input(&mut self, node: NodeId, input: usize) -> Result<View, LoweringError> {
        let value = self.graph.nodes[node].inputs[input];
        let view = self.input(node, input);
        // A kernel that wants plain memory also wants it from the start of the buffer.
        if view.is_contiguous() && view.offset == 0 {
            return Ok(view);
        }
        let label = format!("{} (contiguous)", self.label(value.node, value.output));
        let category = self.node(value.node).category;
        let buffer = self.tape.transient(label.clone(), &view.shape[..], ElementKind::Real, category);
        let target = View::contiguous(buffer, &view.shape);
        self.copy(&view, &target, &label)?;
        Ok(target)
    }

    /// Where an input of token ids lies. Kernels read those row-major from the start of a buffer, and copies carry
    /// numbers only.
    ///
    /// # Errors
    /// [`LoweringError::Unsupported`] where they lie in another order or further on.
    pub fn words_input(&self, node: NodeId, input: usize) -> Result<View, LoweringError> {
        let view = self.input(node, input);
        if view.is_contiguous() && view.offset == 0 {
            return Ok(view);
        }
        let reason = "token ids must be handed in whole, not as a slice or in another order".into();
        Err(LoweringError::Unsupported { label: self.node(node).label.clone(), reason })
    }

    /// Appends a copy between two views of the same shape.
    ///
    /// # Errors
    /// [`LoweringError::Rank`] where the two have too many dimensions that cannot be walked as one.
    pub fn copy(&mut self, from: &View, to: &View, label: &str) -> Result<(), LoweringError> {
        let (shape, strides) = collapse(&from.shape, &[&from.strides, &to.strides]);
        let dimensions = strided_dimensions(&shape, label)?;
        let accesses = [
            Access::strided(from.buffer, from.offset, &strides[0]),
            Access::strided(to.buffer, to.offset, &strides[1]),
        ];
        let parameters = |part: &Part| {
            let (shape_low, shape_high) = part.shape();
            let (x_strides_low, x_strides_high) = part.strides(0);
            let (y_strides_low, y_strides_high) = part.strides(1);
            copy::Parameters {
                shape_low,
                shape_high,
                x_strides_low,
                x_strides_high,
                y_strides_low,
                y_strides_high,
                count: part.count(),
                x_offset: part.offset(0),
                y_offset: part.offset(1),
            }
        };
        self.launch_parts(&copy::KERNEL, &dimensions, &accesses, parameters, label);
        Ok(())
    }

    /// A new row-major buffer for an output of a node, or the buffer it was placed in.
    pub fn output(&mut self, node: NodeId, output: usize) -> View {
        let shape = self.graph.nodes[node].outputs[output].shape.clone();
        let order: Vec<usize> = (0..shape.len()).collect();
        self.output_ordered(node, output, &order)
    }

    /// As [`Lowering::output`], with the dimensions in another order in memory: `order[0]` is outermost. A value that
    /// was placed keeps the row-major order of its place.
    pub fn output_ordered(&mut self, node: NodeId, output: usize, order: &[usize]) -> View {
        let value = Value { node, output };
        let ty = &self.graph.nodes[node].outputs[output];
        let view = match self.placed.get(&value) {
            Some(&buffer) => View::contiguous(buffer, &ty.shape),
            None => {
                let kind = match ty.dtype {
                    Dtype::Real => ElementKind::Real,
                    Dtype::Words => ElementKind::Words,
                };
                let label = self.label(node, output);
                let described = self.node(node);
                let category = described.op.output_category(output).unwrap_or(described.category);
                let buffer = self.tape.transient(label, &ty.shape[..], kind, category);
                let in_memory: Vec<usize> = order.iter().map(|&dimension| ty.shape[dimension]).collect();
                let mut back = vec![0; order.len()];
                for (at, &dimension) in order.iter().enumerate() {
                    back[dimension] = at;
                }
                View::contiguous(buffer, &in_memory).permuted(&back)
            }
        };
        self.views.insert(value, view.clone());
        view
    }

    /// A buffer of one node beside those of its outputs.
    pub fn scratch(&mut self, node: NodeId, name: &str, shape: &[usize], category: Category) -> BufferId {
        let label = format!("{}.{name}", self.graph.nodes[node].label);
        self.tape.transient(label, shape, ElementKind::Real, category)
    }

    /// Declares that an output is only another view of memory that is there.
    pub fn alias(&mut self, node: NodeId, output: usize, view: View) {
        self.views.insert(Value { node, output }, view);
    }

    /// Appends a launch for a node, over whole buffers.
    pub fn launch<P: KernelParameters>(
        &mut self,
        node: NodeId,
        kernel: &'static Kernel,
        parameters: P,
        operands: &[BufferId],
    ) {
        self.tape.launch(kernel, parameters, operands, &self.graph.nodes[node].label);
    }

    /// Whether what a launch reaches can be bound, in windows if need be.
    pub fn can_bind(&self, dimensions: &[Dimension], accesses: &[Access]) -> bool {
        self.tape.fits_whole(accesses) || self.tape.parts(dimensions, accesses).is_some()
    }

    /// As [`Lowering::launch`], in parts where a buffer is larger than a binding. `parameters` says what the kernel takes
    /// for a part, which may be the whole: also where a launch cannot be divided, for the launch check to refuse.
    pub fn launch_in_windows<P: KernelParameters>(
        &mut self,
        node: NodeId,
        kernel: &'static Kernel,
        dimensions: &[Dimension],
        accesses: &[Access],
        parameters: impl Fn(&Part) -> P,
    ) {
        self.launch_parts(kernel, dimensions, accesses, parameters, &self.graph.nodes[node].label);
    }

    fn launch_parts<P: KernelParameters>(
        &mut self,
        kernel: &'static Kernel,
        dimensions: &[Dimension],
        accesses: &[Access],
        parameters: impl Fn(&Part) -> P,
        label: &str,
    ) {
        let Some(parts) = self.tape.parts(dimensions, accesses) else {
            let operands: Vec<BufferId> = accesses.iter().map(|access| access.buffer).collect();
            self.tape.launch(kernel, parameters(&Part::whole(dimensions, accesses)), &operands, label);
            return;
        };
        for (index, part) in parts.iter().enumerate() {
            let label = match parts.len() {
                1 => label.to_string(),
                count => format!("{label} (window {} of {count})", index + 1),
            };
            self.tape.launch_over(kernel, parameters(part), part.bindings(accesses), label);
        }
    }
}

/// The loops of a kernel that walks up to [`MAXIMUM_RANK`] dimensions by strides.
///
/// # Errors
/// [`LoweringError::Rank`] where there are more.
pub fn strided_dimensions(shape: &[usize], label: &str) -> Result<Vec<Dimension>, LoweringError> {
    let rank = shape.len();
    if rank > MAXIMUM_RANK {
        return Err(LoweringError::Rank { label: label.into(), rank });
    }
    // Whole vec4 along the innermost.
    let multiple = |dimension: usize| if dimension + 1 == rank { 4 } else { 1 };
    Ok(shape.iter().enumerate().map(|(dimension, &size)| Dimension::at_multiples(size, multiple(dimension))).collect())
}

/// Joins neighbouring dimensions that every one of the stride lists walks as one, and drops those of size 1.
pub fn collapse(shape: &[usize], strides: &[&[usize]]) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut sizes: Vec<usize> = Vec::new();
    let mut joined: Vec<Vec<usize>> = vec![Vec::new(); strides.len()];
    for dimension in 0..shape.len() {
        if shape[dimension] == 1 {
            continue;
        }
        let joins = !sizes.is_empty()
            && strides
                .iter()
                .zip(&joined)
                .all(|(own, done)| done.last().copied() == own[dimension].checked_mul(shape[dimension]));
        if let (true, Some(last)) = (joins, sizes.last_mut()) {
            *last *= shape[dimension];
            for (own, done) in strides.iter().zip(&mut joined) {
                if let Some(stride) = done.last_mut() {
                    *stride = own[dimension];
                }
            }
        } else {
            sizes.push(shape[dimension]);
            for (own, done) in strides.iter().zip(&mut joined) {
                done.push(own[dimension]);
            }
        }
    }
    (sizes, joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_joined_only_where_all_operands_agree() {
        let (shape, strides) = collapse(&[2, 1, 3, 4], &[&[12, 9, 4, 1], &[12, 9, 4, 1]]);
        assert_eq!((shape, strides), (vec![24], vec![vec![1], vec![1]]));
        let (shape, strides) = collapse(&[2, 3, 4], &[&[12, 4, 1], &[0, 4, 1]]);
        assert_eq!((shape, strides), (vec![2, 12], vec![vec![12, 1], vec![0, 1]]));
        let (shape, strides) = collapse(&[2, 3], &[&[0, 0], &[3, 1]]);
        assert_eq!((shape, strides), (vec![6], vec![vec![0], vec![1]]));
        let (shape, strides) = collapse(&[2, 3], &[&[1, 0], &[3, 1]]);
        assert_eq!((shape, strides), (vec![2, 3], vec![vec![1, 0], vec![3, 1]]));
        assert_eq!(collapse(&[1, 1], &[&[5, 5]]).0, Vec::<usize>::new());
    }
}
