//! The steps of attention.

use super::{Bound, Kind, OpError, OpParameter, ScriptOp, optional, required};
use crate::graph::ops::{AttentionSpec, CausalMask, attention, matmul, permute, reshape, transpose};
use crate::graph::{Graph, Value};

const PRODUCT: &[OpParameter] = &[
    required("a", Kind::Tensor),
    required("b", Kind::Tensor),
    optional("transpose_a", Kind::Truth, "False"),
    optional("transpose_b", Kind::Truth, "False"),
];

pub const OPS: &[ScriptOp] = &[
    ScriptOp {
        name: "split_heads",
        parameters: &[required("x", Kind::Tensor), required("heads", Kind::Whole)],
        summary: "[B, T, d] as [B, H, T, d/H]: head h has the columns h*d/H up to (h+1)*d/H.",
        build: split_heads,
    },
    ScriptOp {
        name: "merge_heads",
        parameters: &[required("x", Kind::Tensor)],
        summary: "[B, H, T, d_head] as [B, T, H*d_head]: the opposite of split_heads.",
        build: merge_heads,
    },
    ScriptOp {
        name: "bmm",
        parameters: PRODUCT,
        summary: "The matrix product over the last two axes, for each of the axes before; either may be transposed.",
        build: product,
    },
    ScriptOp {
        name: "matmul",
        parameters: PRODUCT,
        summary: "As bmm; axes before the last two broadcast, so that x [B, T, d] times w [d, e] is [B, T, e].",
        build: product,
    },
    ScriptOp {
        name: "causal_mask",
        parameters: &[required("scores", Kind::Tensor), optional("fill", Kind::Number, "-2^127")],
        summary: "Scores [.., T, T] with fill above the diagonal, where a key is later than its query.",
        build: |graph, bound| {
            let scores = bound.tensor("scores")?;
            let default = crate::kernel::softmax::MASKED;
            Ok(graph.add(CausalMask { fill: bound.number_or("fill", default)? }, &[scores])?)
        },
    },
    ScriptOp {
        name: "attention",
        parameters: &[
            required("q", Kind::Tensor),
            required("k", Kind::Tensor),
            required("v", Kind::Tensor),
            optional("scale", Kind::Number, "1/sqrt(d_head)"),
            optional("causal", Kind::Truth, "True"),
        ],
        summary: "The fused attention on [B, H, T, d_head]: softmax(scale * q k^T, masked) v without storing the scores.",
        build: |graph, bound| {
            let [query, key, value] = [bound.tensor("q")?, bound.tensor("k")?, bound.tensor("v")?];
            let width = graph.shape(query).last().copied().unwrap_or(1);
            let scale = bound.number_or("scale", 1.0 / (width as f64).sqrt())?;
            let spec = AttentionSpec { scale, causal: bound.truth_or("causal", true)? };
            Ok(attention(graph, query, key, value, spec)?)
        },
    },
];

fn split_heads(graph: &mut Graph, bound: &Bound<'_>) -> Result<Value, OpError> {
    let (x, heads) = (bound.tensor("x")?, bound.whole("heads")?);
    let ty = graph.ty(x).clone();
    let [batch, length, width] = ty.shape[..] else {
        return Err(bound.error(format!("got {ty}, wanted [B, T, d]")));
    };
    let heads = usize::try_from(heads).ok().filter(|&heads| heads > 0 && width.is_multiple_of(heads));
    let Some(heads) = heads else {
        return Err(bound.error(format!("{} heads do not divide the width {width} of {ty}", bound.whole("heads")?)));
    };
    let apart = reshape(graph, x, &[batch, length, heads, width / heads])?;
    Ok(permute(graph, apart, &[0, 2, 1, 3])?)
}

fn merge_heads(graph: &mut Graph, bound: &Bound<'_>) -> Result<Value, OpError> {
    let x = bound.tensor("x")?;
    let ty = graph.ty(x).clone();
    let [batch, heads, length, width] = ty.shape[..] else {
        return Err(bound.error(format!("got {ty}, wanted [B, H, T, d_head]")));
    };
    let together = permute(graph, x, &[0, 2, 1, 3])?;
    Ok(reshape(graph, together, &[batch, length, heads * width])?)
}

fn product(graph: &mut Graph, bound: &Bound<'_>) -> Result<Value, OpError> {
    let (a, b) = (bound.tensor("a")?, bound.tensor("b")?);
    let transposes = [bound.truth_or("transpose_a", false)?, bound.truth_or("transpose_b", false)?];
    for x in [a, b] {
        if graph.shape(x).len() < 2 {
            return Err(bound.error(format!("{} has fewer than two axes", graph.ty(x))));
        }
    }
    // The sizes as the product sees them.
    let seen = |x: Value, transposed: bool| {
        let shape = graph.shape(x);
        let [rows, columns] = [shape[shape.len() - 2], shape[shape.len() - 1]];
        if transposed { [columns, rows] } else { [rows, columns] }
    };
    let ([_, left], [right, columns]) = (seen(a, transposes[0]), seen(b, transposes[1]));
    if left != right {
        let shapes = format!("{} x {}", graph.ty(a), graph.ty(b));
        let [rows, _] = seen(a, transposes[0]);
        let hint = if left == columns {
            format!("; did you mean transpose_b={}?", python(!transposes[1]))
        } else if rows == right {
            format!("; did you mean transpose_a={}?", python(!transposes[0]))
        } else {
            String::new()
        };
        return Err(bound.error(format!("{shapes}: inner {left} and {right} differ{hint}")));
    }
    let mut operand = |x: Value, transposed: bool| match transposed {
        true => transpose(graph, x),
        false => Ok(x),
    };
    let a = operand(a, transposes[0])?;
    let b = operand(b, transposes[1])?;
    Ok(matmul(graph, a, b)?)
}

fn python(truth: bool) -> &'static str {
    if truth { "True" } else { "False" }
}
