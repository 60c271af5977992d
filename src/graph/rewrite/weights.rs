//! The way from raw scores to attention weights, walked back from the softmax.

use super::Refusal;
use super::condition::check_causal;
use super::scale::{number, scaled};
use crate::graph::ops::{BinaryOp, CausalMask, Select, Softmax};
use crate::graph::{Graph, NodeId, Value};
use crate::kernel::elementwise::Binary;
use crate::kernel::softmax::INVISIBLE;

/// A mask must fill with this or less. `exp(fill - score)` is exactly 0 in f32 from 104 below a visible score on, so that
/// the weight of a masked key is 0 unless every visible score of its query lies below -1e9 itself, where neighbouring
/// numbers of f32 are 64 apart and no softmax means anything. Fills that are often seen, -1e9, -1e30 and minus infinity, are
/// taken; -1e4 and -100 are not: scores come near the one when training diverges, and the other is no mask at all.
const FILL: f64 = -1e9;

/// The chain of ops that leads from raw scores to weights.
pub(super) struct Weights {
    pub scores: Value,
    pub scale: f64,
    pub causal: bool,
    /// Values between the scores and the weights, which the fusion swallows.
    pub inner: Vec<Value>,
    /// Why the walk ended at `scores`, where it met something that comes near to a scale or a mask.
    pub end: Option<Refusal>,
}

/// Walks up through scales and one mask, in whatever order they were written. A scale above the mask also scales what the
/// mask has filled in, so there the walk ends.
pub(super) fn weights(graph: &Graph, softmax: NodeId) -> Result<Weights, Refusal> {
    let rank = graph.nodes[softmax].outputs[0].shape.len();
    let behind = graph.op::<Softmax>(softmax).map_or(0, |op| rank - op.axis);
    if behind != 1 {
        let reason = format!("the softmax is over axis -{behind}, fused attention needs -1");
        return Err(Refusal::of(softmax, reason));
    }
    let scores = graph.nodes[softmax].inputs[0];
    let mut found = Weights { scores, scale: 1.0, causal: false, inner: Vec::new(), end: None };
    loop {
        let before = if let Some((before, factor)) = scaled(graph, found.scores) {
            found.scale *= factor;
            before
        } else {
            let masked = match masked(graph, found.scores) {
                None => return Ok(found),
                Some(Ok(_)) if found.causal => Err("the scores are masked twice".into()),
                Some(Ok(_)) if found.scale != 1.0 => Err("the scores are scaled after the mask".into()),
                Some(masked) => masked,
            };
            match masked {
                Ok(before) => {
                    found.causal = true;
                    before
                }
                Err(reason) => {
                    found.end = Some(Refusal::of(found.scores.node, reason));
                    return Ok(found);
                }
            }
        };
        found.inner.push(found.scores);
        found.scores = before;
    }
}

/// What a causal mask hides a part of, or why a value that looks like a mask is none that is known; `None` where it does not
/// look like one.
fn masked(graph: &Graph, value: Value) -> Option<Result<Value, String>> {
    let node = value.node;
    let inputs = &graph.nodes[node].inputs;
    if let Some(op) = graph.op::<CausalMask>(node) {
        return Some(check_fill(op.fill, graph.shape(value)).map(|()| inputs[0]));
    }
    if let Some(op) = graph.op::<BinaryOp>(node) {
        let adds = matches!(op.operation, Binary::Add | Binary::Subtract);
        let reason = "something is added to the scores, which fused attention does not know; a mask that is added it \
                      knows as where(condition, scores, fill)";
        return adds.then(|| Err(reason.into()));
    }
    graph.op::<Select>(node)?;
    let (scores, fill, visible) = match (number(graph, inputs[1]), number(graph, inputs[2])) {
        (_, Some(fill)) => (inputs[1], fill, true),
        (Some(fill), None) => (inputs[2], fill, false),
        (None, None) => return Some(Err("the mask fills with more than one number".into())),
    };
    let shape = graph.shape(value);
    if graph.shape(scores) != shape {
        return Some(Err("the mask repeats the scores".into()));
    }
    let checked = check_fill(fill, shape).and_then(|()| check_causal(graph, inputs[0], shape, visible));
    Some(checked.map(|()| scores))
}

/// Whether softmax gives weight 0 to what a causal mask fills in.
fn check_fill(fill: f64, shape: &[usize]) -> Result<(), String> {
    let [.., queries, keys] = *shape else { return Err("the scores have fewer than two dimensions".into()) };
    // Written so that NaN fails.
    let unseen = fill <= FILL;
    if !unseen {
        return Err(format!("the mask fills with {fill}, which softmax still sees"));
    }
    if fill > INVISIBLE && queries > keys {
        let count = queries - keys;
        return Err(format!("the mask fills with {fill:e}, which the first {count} queries see, as they see no key"));
    }
    Ok(())
}
