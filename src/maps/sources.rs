//! Where in a model's graph the attention weights of a layer are.

use crate::graph::ops::{Attention, AttentionSpec, MatMul, Permute};
use crate::graph::{Graph, NodeId, Rewrites, Value, rewrite};
use crate::model::gpt::Gpt;

/// The weights of one layer, as far as the graph has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Source {
    /// In no tensor: this node is the fused attention, whose query, key and softmax statistics give them.
    Fused { attention: NodeId, spec: AttentionSpec },
    /// As a tensor `[.., T, T]` of H matrices.
    Tensor { value: Value, observed: bool },
}

impl Source {
    /// What must be computed for it.
    pub(super) fn roots(&self, graph: &Graph) -> Vec<Value> {
        match *self {
            Self::Fused { attention, .. } => {
                let inputs = &graph.nodes[attention].inputs;
                vec![inputs[0], inputs[1], Value { node: attention, output: 2 }]
            }
            Self::Tensor { value, .. } => vec![value],
        }
    }
}

/// What of a graph as it was traced stands for the weights.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Candidate {
    Attention(NodeId),
    Weights { value: Value, observed: bool },
}

/// A layer without weights, and how many tensors it multiplies its values by: none, or so many that they are not one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NoSource {
    pub layer: usize,
    pub products: usize,
}

/// The graph with attention fused wherever that leaves the weights of the given layers to be had, and where these are, by
/// layer.
///
/// # Errors
/// The first layer that has none.
pub(super) fn sources(
    gpt: &Gpt,
    layers: &[usize],
    (heads, length): (usize, usize),
) -> Result<(Graph, Vec<(usize, Source)>), NoSource> {
    let mut fused = gpt.graph.clone();
    rewrite(&mut fused, Rewrites::Fused, &[]);
    let (mut found, mut kept) = (Vec::with_capacity(layers.len()), Vec::new());
    for &layer in layers {
        let candidate = candidate(gpt, layer, heads, length).map_err(|products| NoSource { layer, products })?;
        let attention = match candidate {
            Candidate::Attention(node) => Some(node),
            Candidate::Weights { value, .. } => swallowed(&gpt.graph, &fused, value),
        };
        let spec = attention.and_then(|node| fused.op::<Attention>(node)).map(|op| op.spec);
        found.push(match (attention, spec, candidate) {
            (Some(attention), Some(spec), _) => (layer, Source::Fused { attention, spec }),
            (_, _, Candidate::Weights { value, observed }) => {
                kept.push(value);
                (layer, Source::Tensor { value, observed })
            }
            _ => return Err(NoSource { layer, products: 0 }),
        });
    }
    let mut graph = gpt.graph.clone();
    rewrite(&mut graph, Rewrites::Fused, &kept);
    Ok((graph, found))
}

/// The fused attention that took the place of the product of these weights with the values.
fn swallowed(traced: &Graph, fused: &Graph, weights: Value) -> Option<NodeId> {
    (weights.node + 1..traced.nodes.len()).find(|&node| {
        let product = traced.op::<MatMul>(node).is_some() && traced.nodes[node].inputs.first() == Some(&weights);
        product && fused.op::<Attention>(node).is_some()
    })
}

/// What the layer observes as 'weights'; else the one tensor that multiplies something made of the values, a call of the
/// fused op counting as such a product. Weights may be made of values too, by mistake: they are asked for only where there
/// are no others. The error is how many there are.
fn candidate(gpt: &Gpt, layer: usize, heads: usize, length: usize) -> Result<Candidate, usize> {
    let graph = &gpt.graph;
    let block = gpt.blocks.get(layer).ok_or(0usize)?;
    let square = |value: Value| {
        let shape = graph.shape(value);
        shape.ends_with(&[length, length]) && shape.iter().product::<usize>() == heads * length * length
    };
    if let Some(value) = block.weights.filter(|&value| square(value)) {
        return Ok(Candidate::Weights { value, observed: true });
    }
    let of_values = made_of(graph, block.value);
    // By whether they are made of values themselves.
    let mut found = [Vec::new(), Vec::new()];
    for (node, product) in graph.nodes.iter().enumerate() {
        if product.place.block != Some(layer) || !product.place.attention {
            continue;
        }
        match product.inputs[..] {
            [query, key, value] if graph.op::<Attention>(node).is_some() && of_values[value.node] => {
                let (shape, keys) = (graph.shape(query), graph.shape(key)[2]);
                if (shape[0] * shape[1], shape[2], keys) == (heads, length, length) {
                    let mixed = of_values[query.node] || of_values[key.node];
                    found[usize::from(mixed)].push(Candidate::Attention(node));
                }
            }
            // Where T = d_head queries look like a map; what multiplies transposed values makes scores.
            [weights, value] if graph.op::<MatMul>(node).is_some() && of_values[value.node] => {
                let candidate = Candidate::Weights { value: weights, observed: false };
                let own = &mut found[usize::from(of_values[weights.node])];
                if square(weights) && !transposes(graph, value) && !own.contains(&candidate) {
                    own.push(candidate);
                }
            }
            _ => {}
        }
    }
    let [apart, mixed] = found;
    match if apart.is_empty() { &mixed[..] } else { &apart[..] } {
        &[candidate] => Ok(candidate),
        several => Err(several.len()),
    }
}

/// Whether a value is another one with its last two axes swapped.
fn transposes(graph: &Graph, value: Value) -> bool {
    let swaps = |order: &[usize]| order.ends_with(&[order.len().wrapping_sub(1), order.len().wrapping_sub(2)]);
    graph.op::<Permute>(value.node).is_some_and(|op| swaps(&op.order))
}

/// For each node whether it depends on a value.
fn made_of(graph: &Graph, source: Value) -> Vec<bool> {
    let mut depends = vec![false; graph.nodes.len()];
    depends[source.node] = true;
    for node in source.node + 1..graph.nodes.len() {
        depends[node] = graph.nodes[node].inputs.iter().any(|input| depends[input.node]);
    }
    depends
}
