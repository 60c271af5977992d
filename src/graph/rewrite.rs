//! Recognising attention, before differentiation: what matches becomes one op, what does not keeps running as it was
//! written, with the reason told.

use std::sync::Arc;

use super::ops::{Attention, AttentionSpec, CausalMask, MatMul, Permute, ScaledMaskedSoftmax, Softmax, UnaryOp};
use super::{Graph, NodeId, Op, Value};
use crate::kernel::elementwise::Unary;

/// Which rewrites are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrites {
    /// `bmm -> scale -> mask -> softmax -> bmm` becomes `attention`.
    Fused,
    /// The products stay; `scale -> mask -> softmax` between them becomes one kernel.
    Naive,
}

/// What became of one softmax over scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteReport {
    /// The label of the product of weights and values, or of the softmax.
    pub label: String,
    /// `Err` holds the reason why it was left as written.
    pub outcome: Result<&'static str, String>,
}

/// Rewrites every attention of the graph in place. A value in `kept` is a requested output: it must go on existing, so
/// it blocks a fusion that would swallow it.
pub fn rewrite(graph: &mut Graph, rewrites: Rewrites, kept: &[Value]) -> Vec<RewriteReport> {
    let mut reports = Vec::new();
    let mut uses = Uses::of(graph);
    for node in 0..graph.nodes.len() {
        if graph.op::<Softmax>(node).is_none() {
            continue;
        }
        let outcome = match rewrites {
            Rewrites::Fused => fuse_attention(graph, &mut uses, node, kept).map(|()| "attention"),
            Rewrites::Naive => fuse_softmax(graph, &mut uses, node, kept).map(|()| "scaled_masked_softmax"),
        };
        reports.push(RewriteReport { label: graph.nodes[node].label.clone(), outcome });
    }
    reports
}

/// The chain of ops that leads from raw scores to weights.
struct Weights {
    scores: Value,
    scale: f64,
    causal: bool,
    /// Values between the scores and the weights, which the fusion swallows.
    inner: Vec<Value>,
}

/// For each node those that read it, or have read it before they were rewritten. Looking through the whole graph for
/// them would take hundreds of times as long in a model of hundreds of layers.
struct Uses(Vec<Vec<NodeId>>);

impl Uses {
    fn of(graph: &Graph) -> Self {
        let mut uses = Self(vec![Vec::new(); graph.nodes.len()]);
        for (node, content) in graph.nodes.iter().enumerate() {
            uses.add(node, &content.inputs);
        }
        uses
    }

    fn add(&mut self, node: NodeId, inputs: &[Value]) {
        for input in inputs {
            let users = &mut self.0[input.node];
            if !users.contains(&node) {
                users.push(node);
            }
        }
    }

    /// The nodes that read `value` now.
    fn consumers(&self, graph: &Graph, value: Value) -> Vec<NodeId> {
        let users = self.0[value.node].iter().copied();
        users.filter(|&node| graph.nodes[node].inputs.contains(&value)).collect()
    }
}

/// `Err` where somebody else needs a value that a fusion would swallow.
fn only_used_here(graph: &Graph, uses: &Uses, value: Value, kept: &[Value]) -> Result<(), String> {
    let label = &graph.nodes[value.node].label;
    if kept.contains(&value) {
        return Err(format!("'{label}' is a requested output"));
    }
    match uses.consumers(graph, value).as_slice() {
        [_] => Ok(()),
        users => Err(format!("'{label}' is used in {} places", users.len())),
    }
}

fn weights(graph: &Graph, softmax: NodeId) -> Result<Weights, String> {
    let rank = graph.nodes[softmax].outputs[0].shape.len();
    let Some(op) = graph.op::<Softmax>(softmax) else { return Err("there is no softmax".into()) };
    if op.axis + 1 != rank {
        let behind = rank - op.axis;
        return Err(format!("the softmax is over axis -{behind}, fused attention needs -1"));
    }
    let mut found = Weights { scores: graph.nodes[softmax].inputs[0], scale: 1.0, causal: false, inner: Vec::new() };
    // Walk up through scales and one mask, in whatever order they were written. A scale above the mask also scales the
    // masked scores, which stay far below visibility only for factors of at least one half.
    loop {
        let node = found.scores.node;
        if let Some(mask) = graph.op::<CausalMask>(node) {
            if found.causal || mask.fill > -1e38 {
                break;
            }
            found.causal = true;
            if found.scale != 1.0 {
                return Err("the scores are scaled after the mask".into());
            }
        } else if let Some(op) = graph.op::<UnaryOp>(node) {
            match op.operation {
                Unary::Scale => found.scale *= op.constant,
                Unary::Negate => found.scale = -found.scale,
                _ => break,
            }
        } else {
            break;
        }
        found.inner.push(found.scores);
        found.scores = graph.nodes[node].inputs[0];
    }
    Ok(found)
}

fn fuse_softmax(graph: &mut Graph, uses: &mut Uses, softmax: NodeId, kept: &[Value]) -> Result<(), String> {
    let found = weights(graph, softmax)?;
    if graph.shape(found.scores).len() < 2 {
        return Err("the scores have fewer than two dimensions".into());
    }
    for &value in &found.inner {
        only_used_here(graph, uses, value, kept)?;
    }
    replace(graph, uses, softmax, ScaledMaskedSoftmax { scale: found.scale, causal: found.causal }, vec![found.scores])
}

fn fuse_attention(graph: &mut Graph, uses: &mut Uses, softmax: NodeId, kept: &[Value]) -> Result<(), String> {
    let mut found = weights(graph, softmax)?;
    let weights = Value { node: softmax, output: 0 };
    only_used_here(graph, uses, weights, kept)?;
    let product = uses.consumers(graph, weights)[0];
    let inputs = &graph.nodes[product].inputs;
    if graph.op::<MatMul>(product).is_none() || inputs.len() != 2 || inputs[0] != weights {
        return Err(format!(
            "the weights go to {}, fused attention multiplies them by the values",
            graph.nodes[product].op.name()
        ));
    }
    let value = inputs[1];

    let scores = found.scores.node;
    if graph.op::<MatMul>(scores).is_none() || graph.nodes[scores].inputs.len() != 2 {
        return Err(format!(
            "the scores come from {}, fused attention needs query times transposed key",
            graph.nodes[scores].op.name()
        ));
    }
    let [mut query, transposed] = [graph.nodes[scores].inputs[0], graph.nodes[scores].inputs[1]];
    // A scale of the queries is a scale of the scores.
    while let Some(op) = graph.op::<UnaryOp>(query.node)
        && op.operation == Unary::Scale
        && only_used_here(graph, uses, query, kept).is_ok()
    {
        found.scale *= op.constant;
        query = graph.nodes[query.node].inputs[0];
    }
    let rank = graph.shape(transposed).len();
    if rank != 4 || graph.shape(query).len() != 4 {
        return Err(format!("the operands have {rank} dimensions, fused attention needs [B, H, T, D]"));
    }
    let transposes = graph.op::<Permute>(transposed.node).is_some_and(|op| op.order == [0, 1, 3, 2]);
    if !transposes {
        return Err("the key is not transposed".into());
    }
    let key = graph.nodes[transposed.node].inputs[0];
    found.inner.push(found.scores);
    for &inner in &found.inner {
        only_used_here(graph, uses, inner, kept)?;
    }
    let spec = AttentionSpec { scale: found.scale, causal: found.causal };
    replace(graph, uses, product, Attention { spec }, vec![query, key, value])
}

/// Puts another op in a node's place; its first output must keep its type.
fn replace(graph: &mut Graph, uses: &mut Uses, node: NodeId, op: impl Op, inputs: Vec<Value>) -> Result<(), String> {
    let types: Vec<_> = inputs.iter().map(|&input| graph.ty(input)).collect();
    let outputs = op.infer(&types).map_err(|reason| reason.to_string())?;
    if outputs[0] != graph.nodes[node].outputs[0] {
        return Err(format!("the result would be {} and not {}", outputs[0], graph.nodes[node].outputs[0]));
    }
    // An input may have been added later than the node only if the order of the graph were broken.
    debug_assert!(inputs.iter().all(|input| input.node < node));
    uses.add(node, &inputs);
    let target = &mut graph.nodes[node];
    if let Some(scope) = target.label.strip_suffix(target.op.name()) {
        target.label = format!("{scope}{}", op.name());
    }
    (target.op, target.inputs, target.outputs) = (Arc::new(op), inputs, outputs);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::ops::{causal_mask, input, matmul, scale, softmax, transpose};
    use super::super::{TensorType, print_graph};
    use super::*;

    /// `softmax(mask(scale * q k^T)) v` with one thing changed.
    fn attention(variant: &str) -> (Graph, Value, Vec<Value>) {
        let mut graph = Graph::new();
        let g = &mut graph;
        let shape = [2, 3, 8, 8];
        let [query, key, value] = ["q", "k", "v"].map(|name| input(g, name, TensorType::real(shape)).unwrap());
        let query = if variant == "scaled query" { scale(g, query, 0.25).unwrap() } else { query };
        let keys = if variant == "no transpose" { key } else { transpose(g, key).unwrap() };
        let scores = matmul(g, query, keys).unwrap();
        let scaled = if variant == "scaled query" { scores } else { scale(g, scores, 0.25).unwrap() };
        let masked = if variant == "full" { scaled } else { causal_mask(g, scaled).unwrap() };
        let masked = if variant == "scaled after" { scale(g, masked, 0.5).unwrap() } else { masked };
        let weights = softmax(g, masked, if variant == "wrong axis" { 2 } else { 3 }).unwrap();
        let output = matmul(g, weights, value).unwrap();
        let kept = if variant == "map wanted" { vec![weights] } else { Vec::new() };
        (graph, output, kept)
    }

    #[test]
    fn attention_is_fused_where_it_is_attention_and_otherwise_the_reason_is_told() {
        for (variant, expected) in [
            ("plain", "causal"),
            ("full", "attention("),
            ("scaled query", "scale=0.25 causal"),
            ("no transpose", "the key is not transposed"),
            ("wrong axis", "axis -2, fused attention needs -1"),
            ("scaled after", "scaled after the mask"),
            ("map wanted", "is a requested output"),
        ] {
            let (mut graph, output, kept) = attention(variant);
            let reports = rewrite(&mut graph, Rewrites::Fused, &kept);
            let text = match &reports[0].outcome {
                Ok(_) => print_graph(&graph, &[output]),
                Err(reason) => reason.clone(),
            };
            assert!(text.contains(expected), "{variant}: {text}");
            assert!(!text.contains("matmul("), "{variant}: {text}");
        }
    }

    #[test]
    fn the_naive_path_joins_scale_mask_and_softmax_only() {
        let (mut graph, output, _) = attention("plain");
        rewrite(&mut graph, Rewrites::Naive, &[]);
        let text = print_graph(&graph, &[output]);
        assert_eq!(text.matches("matmul(").count(), 2, "{text}");
        assert!(text.contains("scaled_masked_softmax(") && !text.contains("causal_mask("), "{text}");
    }
}
