//! Recognising attention, before differentiation: what matches becomes one op, what does not keeps running as it was
//! written, with the reason told.

mod condition;
mod scale;
mod uses;
mod weights;

use std::sync::Arc;

use self::scale::scaled;
use self::uses::Uses;
use self::weights::weights;
use super::ops::{Attention, AttentionSpec, MatMul, Permute, ScaledMaskedSoftmax, Softmax};
use super::{Graph, NodeId, Op, SourceSpan, Value};

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
    /// The label of the softmax.
    pub label: String,
    /// `Err` holds the reason why it was left as written. It begins with file and line where the op that it is about has
    /// them.
    pub outcome: Result<&'static str, String>,
    /// Where the op comes from that the reason is about; that of the softmax where there is none.
    pub span: Option<SourceSpan>,
}

/// Why something is left as written, and the node that it is about.
struct Refusal {
    node: NodeId,
    reason: String,
}

impl Refusal {
    fn of(node: NodeId, reason: impl Into<String>) -> Self {
        Self { node, reason: reason.into() }
    }
}

/// Rewrites every attention of the graph in place. A value in `kept` is a requested output: it must go on existing, so
/// it blocks a fusion that would swallow it.
///
/// Scales are known as `scale`, as negation, and as product with or quotient by a constant: of the scores, of the query, or
/// of the key. Masks are known as `causal_mask` and as `where` whose condition compares row and column index.
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
        let about = outcome.as_ref().err().map_or(node, |refusal| refusal.node);
        let span = graph.nodes[about].span.clone();
        let outcome = outcome.map_err(|Refusal { reason, .. }| match &span {
            Some(span) => format!("{span}: {reason}"),
            None => reason,
        });
        reports.push(RewriteReport { label: graph.nodes[node].label.clone(), outcome, span });
    }
    reports
}

fn fuse_softmax(graph: &mut Graph, uses: &mut Uses, softmax: NodeId, kept: &[Value]) -> Result<(), Refusal> {
    let found = weights(graph, softmax)?;
    if graph.shape(found.scores).len() < 2 {
        return Err(Refusal::of(softmax, "the scores have fewer than two dimensions"));
    }
    for &value in &found.inner {
        uses.only(graph, value, kept)?;
    }
    replace(graph, uses, softmax, ScaledMaskedSoftmax { scale: found.scale, causal: found.causal }, vec![found.scores])
}

fn fuse_attention(graph: &mut Graph, uses: &mut Uses, softmax: NodeId, kept: &[Value]) -> Result<(), Refusal> {
    let mut found = weights(graph, softmax)?;
    let weights = Value { node: softmax, output: 0 };
    let product = uses.only(graph, weights, kept)?;
    let inputs = &graph.nodes[product].inputs;
    if graph.op::<MatMul>(product).is_none() || inputs.len() != 2 || inputs[0] != weights {
        let op = graph.nodes[product].op.name();
        let reason = format!("the weights go to {op}, fused attention multiplies them by the values");
        return Err(Refusal::of(product, reason));
    }
    let value = inputs[1];

    let scores = found.scores.node;
    if graph.op::<MatMul>(scores).is_none() || graph.nodes[scores].inputs.len() != 2 {
        return Err(found.end.unwrap_or_else(|| {
            let op = graph.nodes[scores].op.name();
            let reason = format!("the scores come from {op}, fused attention needs query times transposed key");
            Refusal::of(scores, reason)
        }));
    }
    found.inner.push(found.scores);
    let [query, mut transposed] = [graph.nodes[scores].inputs[0], graph.nodes[scores].inputs[1]];
    // A scale of the queries, or of the keys, is a scale of the scores.
    let query = unscaled(graph, uses, query, kept, &mut found.scale);
    while let Some((before, factor)) = scaled(graph, transposed) {
        found.inner.push(transposed);
        found.scale *= factor;
        transposed = before;
    }
    let ranks = [query, transposed].map(|operand| graph.shape(operand).len());
    if let Some(rank) = ranks.into_iter().find(|&rank| rank != 4) {
        let reason = format!("the operands have {rank} dimensions, fused attention needs [B, H, T, D]");
        return Err(Refusal::of(scores, reason));
    }
    let transposes = graph.op::<Permute>(transposed.node).is_some_and(|op| op.order == [0, 1, 3, 2]);
    if !transposes {
        return Err(Refusal::of(scores, "the key is not transposed"));
    }
    let key = unscaled(graph, uses, graph.nodes[transposed.node].inputs[0], kept, &mut found.scale);
    for &inner in &found.inner {
        uses.only(graph, inner, kept)?;
    }
    if !found.scale.is_finite() {
        return Err(Refusal::of(scores, format!("the scores are scaled by {}", found.scale)));
    }
    let spec = AttentionSpec { scale: found.scale, causal: found.causal };
    replace(graph, uses, product, Attention { spec }, vec![query, key, value])
}

/// What an operand is before it is scaled, as far up as nobody else reads it; its factors are multiplied into `scale`.
fn unscaled(graph: &Graph, uses: &Uses, operand: Value, kept: &[Value], scale: &mut f64) -> Value {
    let mut operand = operand;
    while let Some((before, factor)) = scaled(graph, operand)
        && uses.only(graph, operand, kept).is_ok()
    {
        *scale *= factor;
        operand = before;
    }
    operand
}

/// Puts another op in a node's place; its first output must keep its type.
fn replace(graph: &mut Graph, uses: &mut Uses, node: NodeId, op: impl Op, inputs: Vec<Value>) -> Result<(), Refusal> {
    let types: Vec<_> = inputs.iter().map(|&input| graph.ty(input)).collect();
    let outputs = op.infer(&types).map_err(|reason| Refusal::of(node, reason.to_string()))?;
    if outputs[0] != graph.nodes[node].outputs[0] {
        let reason = format!("the result would be {} and not {}", outputs[0], graph.nodes[node].outputs[0]);
        return Err(Refusal::of(node, reason));
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
    use super::super::ops::{
        CausalMask, add, add_constant, binary, causal_mask, constant, divide, index, input, matmul, multiply, negate,
        scale, select, softmax, subtract, transpose,
    };
    use super::super::{GraphError, TensorType, differentiate, print_graph};
    use super::*;
    use crate::kernel::elementwise::Binary;

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

    type Step = fn(&mut Graph, Value) -> Result<Value, GraphError>;

    fn line(number: u32) -> Option<SourceSpan> {
        Some(SourceSpan { file: "attention.star".into(), line: number, column: 5 })
    }

    /// Fills where a condition on row and column does not hold.
    fn hide(
        g: &mut Graph,
        scores: Value,
        condition: impl FnOnce(&mut Graph, Value, Value) -> Result<Value, GraphError>,
        fill: f64,
    ) -> Result<Value, GraphError> {
        let (row, column) = (index(g, &[6, 1], 0)?, index(g, &[1, 6], 1)?);
        let condition = condition(g, row, column)?;
        let fill = constant(g, &[], fill)?;
        select(g, condition, scores, fill)
    }

    fn causal(g: &mut Graph, row: Value, column: Value) -> Result<Value, GraphError> {
        binary(g, column, row, Binary::LessEqual)
    }

    /// An attention whose query and key are written in line 2, the product in 3, what makes scores of it in 4, the softmax
    /// in 5 and the product with the values in 6.
    fn written(operands: [Step; 2], scores: Step, axis: usize) -> (Graph, Value) {
        let mut graph = Graph::new();
        let g = &mut graph;
        let [query, key, value] = ["q", "k", "v"].map(|name| input(g, name, TensorType::real([2, 3, 6, 4])).unwrap());
        g.set_span(line(2));
        let (query, key) = (operands[0](g, query).unwrap(), operands[1](g, key).unwrap());
        g.set_span(line(3));
        let product = matmul(g, query, key).unwrap();
        g.set_span(line(4));
        let scores = scores(g, product).unwrap();
        g.set_span(line(5));
        let weights = softmax(g, scores, axis).unwrap();
        g.set_span(line(6));
        let output = matmul(g, weights, value).unwrap();
        g.set_span(None);
        (graph, output)
    }

    const SAME: Step = |_, x| Ok(x);

    #[test]
    fn a_near_miss_stays_as_written_and_the_line_and_the_reason_are_told() {
        let rows: [(Step, &str); 15] = [
            (
                |g, x| hide(g, x, |g, row, column| binary(g, column, row, Binary::Less), -1e30),
                "4: the mask is not causal: query 0 does not see key 0",
            ),
            (
                |g, x| hide(g, x, |g, row, column| binary(g, row, column, Binary::LessEqual), -1e30),
                "4: the mask is not causal: query 0 sees key 1",
            ),
            (
                |g, x| {
                    let one_more = |g: &mut Graph, row, column| {
                        let next = add_constant(g, row, 1.0)?;
                        binary(g, column, next, Binary::LessEqual)
                    };
                    hide(g, x, one_more, f64::NEG_INFINITY)
                },
                "4: the mask is not causal: query 0 sees key 1",
            ),
            (
                |g, x| {
                    let window = |g: &mut Graph, row, column| {
                        let seen = causal(g, row, column)?;
                        let first = add_constant(g, row, -2.0)?;
                        let near = binary(g, first, column, Binary::Less)?;
                        binary(g, seen, near, Binary::And)
                    };
                    hide(g, x, window, -1e30)
                },
                "4: the mask is not causal: query 2 does not see key 0",
            ),
            (
                |g, x| {
                    let given = |g: &mut Graph, _, _| input(g, "mask", TensorType::real([6, 6]));
                    hide(g, x, given, -1e30)
                },
                "4: the condition of the mask is more than comparisons of row and column index",
            ),
            (|g, x| hide(g, x, causal, -100.0), "4: the mask fills with -100, which softmax still sees"),
            (|g, x| hide(g, x, causal, f64::NAN), "4: the mask fills with NaN, which softmax still sees"),
            (|g, x| g.add(CausalMask { fill: -1e4 }, &[x]), "4: the mask fills with -10000, which softmax still sees"),
            (
                |g, x| {
                    let masked = hide(g, x, causal, -1e30)?;
                    scale(g, masked, 0.5)
                },
                "4: the scores are scaled after the mask",
            ),
            (
                |g, x| {
                    let masked = causal_mask(g, x)?;
                    hide(g, masked, causal, -1e30)
                },
                "4: the scores are masked twice",
            ),
            (
                |g, x| {
                    let mask = constant(g, &[6, 6], -1e30)?;
                    add(g, x, mask)
                },
                "4: something is added to the scores",
            ),
            (
                |g, x| {
                    let condition = constant(g, &[], 1.0)?;
                    select(g, condition, x, x)
                },
                "4: the mask fills with more than one number",
            ),
            (
                |g, x| {
                    let condition = constant(g, &[5, 1, 1, 1, 1], 1.0)?;
                    let fill = constant(g, &[], -1e30)?;
                    let repeated = select(g, condition, x, fill)?;
                    super::super::ops::slice(g, repeated, 0, 0, 1)
                        .and_then(|one| super::super::ops::reshape(g, one, &[2, 3, 6, 6]))
                },
                "4: the scores come from reshape, fused attention needs query times transposed key",
            ),
            (
                |g, x| {
                    let scores = scale(g, x, 0.5)?;
                    let squared = multiply(g, scores, scores)?;
                    subtract(g, squared, scores)
                },
                "4: something is added to the scores",
            ),
            (
                |g, x| {
                    let zero = constant(g, &[], 0.0)?;
                    divide(g, x, zero)
                },
                "4: the scores come from divide, fused attention needs query times transposed key",
            ),
        ];
        for (scores, expected) in rows {
            let (mut graph, output) = written([SAME, |g, key| transpose(g, key)], scores, 3);
            let before = print_graph(&graph, &[output]);
            let reports = rewrite(&mut graph, Rewrites::Fused, &[]);
            let reason = reports[0].outcome.clone().unwrap_err();
            assert!(reason.starts_with(&format!("attention.star:{expected}")), "{reason} where {expected}");
            assert_eq!(reports[0].span, line(4));
            assert_eq!(print_graph(&graph, &[output]), before);
            // What lies between such a mask and the weights is still one kernel.
            let reports = rewrite(&mut graph, Rewrites::Naive, &[]);
            assert_eq!(reports[0].outcome, Ok("scaled_masked_softmax"));
            assert!(print_graph(&graph, &[output]).contains("matmul("));
        }
    }

    #[test]
    fn a_reason_names_the_line_of_the_op_that_it_is_about() {
        let transposed: Step = |g, key| transpose(g, key);
        let half: Step = |g, x| scale(g, x, 0.5);
        let shared: Step = |g, key| {
            let half = scale(g, key, 0.5)?;
            let keys = transpose(g, half)?;
            let scaled = negate(g, keys)?;
            add(g, scaled, scaled)?;
            Ok(scaled)
        };
        for (keys, axis, expected) in [
            (transposed, 2, "attention.star:5: the softmax is over axis -2, fused attention needs -1"),
            (transposed, 0, "attention.star:5: the softmax is over axis -4, fused attention needs -1"),
            (shared, 3, "attention.star:2: 'negate' is used in 2 places"),
        ] {
            let (mut graph, _) = written([SAME, keys], half, axis);
            let reports = rewrite(&mut graph, Rewrites::Fused, &[]);
            assert_eq!(reports[0].outcome, Err(expected.into()));
        }
        let (mut graph, output) = written([half, transposed], half, 3);
        let reports = rewrite(&mut graph, Rewrites::Fused, &[]);
        assert_eq!((&reports[0].outcome, &reports[0].span), (&Ok("attention"), &line(5)));
        assert_eq!(graph.nodes[output.node].span, line(6));
    }

    #[test]
    fn a_scale_that_somebody_else_reads_stays_where_it_is() {
        let (mut graph, output) = written(
            [
                |g, query| {
                    let half = scale(g, query, 0.5)?;
                    add(g, half, half)?;
                    Ok(half)
                },
                |g, key| {
                    let third = scale(g, key, 3.0)?;
                    transpose(g, third)
                },
            ],
            SAME,
            3,
        );
        let reports = rewrite(&mut graph, Rewrites::Fused, &[]);
        assert_eq!(reports[0].outcome, Ok("attention"));
        let text = print_graph(&graph, &[output]);
        assert!(text.contains("scale=3)") && text.contains("0.5)"), "{text}");
    }

    #[test]
    fn gradients_come_from_no_line_of_a_script() {
        let (mut graph, output) = written([SAME, |g, key| transpose(g, key)], |g, x| hide(g, x, causal, -1e30), 3);
        let written = graph.nodes.len();
        graph.set_span(line(9));
        let loss = super::super::ops::sum_to_shape(&mut graph, output, &[]).unwrap();
        let forward = graph.nodes.len();
        differentiate(&mut graph, loss, &[Value { node: 0, output: 0 }]).unwrap();
        assert!(graph.nodes[written..forward].iter().all(|node| node.span == line(9)));
        assert!(graph.nodes[forward..].iter().all(|node| node.span.is_none()));
        // Nodes that are added afterwards come from where the script stands.
        let more = negate(&mut graph, output).unwrap();
        assert_eq!(graph.nodes[more.node].span, line(9));
    }
}
