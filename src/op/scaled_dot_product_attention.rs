//! `sdpa`: attention, fused or written out.

use super::traced::Traced;
use super::{AttentionForm, NamedOp, NamedTensor, OpError, OpOption, OpOptions};
use crate::graph::ops::{
    AttentionSpec, Reduction, add, attention, causal_mask, matmul, multiply, reduce, reshape, scale,
    scaled_masked_softmax, subtract, transpose, unary,
};
use crate::graph::{Graph, GraphError, ShapeError, Value};
use crate::kernel::elementwise::Unary;

pub static OP: NamedOp = NamedOp {
    name: "sdpa",
    formula: "o = softmax(mask(scale q k^T)) v: q [B,H,Tq,D], k and v [B,Hkv,Tk,D]",
    gives: "o, lse (naive: also p); with do: delta, dq, dk, dv",
    tensors: &[NamedTensor::Real("q"), NamedTensor::Real("k"), NamedTensor::Real("v"), NamedTensor::Gradient("do")],
    options: &[OpOption::Causal, OpOption::Scale, OpOption::Kernel],
    body: super::Body::Graph(trace),
};

const GRADIENTS: [(&str, &str); 3] = [("q", "dq"), ("k", "dk"), ("v", "dv")];

fn trace(t: &mut Traced<'_>, options: &OpOptions) -> Result<(), OpError> {
    let query: [usize; 4] = t.sizes("q", "[B, H, Tq, D]")?;
    let key: [usize; 4] = t.sizes("k", "[B, Hkv, Tk, D]")?;
    let value: [usize; 4] = t.sizes("v", "[B, Hkv, Tk, D]")?;
    for (what, left, right) in [
        ("batch of q and k", query[0], key[0]),
        ("head width of q and k", query[3], key[3]),
        ("batch of k and v", key[0], value[0]),
        ("heads of k and v", key[1], value[1]),
        ("length of k and v", key[2], value[2]),
        ("head width of k and v", key[3], value[3]),
    ] {
        if left != right {
            return Err(t.misfit(ShapeError::Differ { what, left, right }));
        }
    }
    if !query[1].is_multiple_of(key[1]) {
        let message = format!("{} query heads are no multiple of {} key heads", query[1], key[1]);
        return Err(t.misfit(ShapeError::Other(message)));
    }
    let spec = AttentionSpec { scale: options.scale.unwrap_or(1.0 / (query[3] as f64).sqrt()), causal: options.causal };
    let [q, k, v] = [t.leaf("q")?, t.leaf("k")?, t.leaf("v")?];
    let output = match options.kernel.unwrap_or_default() {
        AttentionForm::Fused => {
            if query[3] > 128 {
                let message =
                    format!("head width {} is beyond the fused kernel's 128: --kernel naive takes any", query[3]);
                return Err(t.misfit(ShapeError::Other(message)));
            }
            let output = attention(t.graph, q, k, v, spec).map_err(|error| t.explain(error))?;
            t.output("lse", Value { node: output.node, output: 1 });
            output
        }
        AttentionForm::Naive => {
            let naive = naive(t.graph, [q, k, v], [query, key], spec).map_err(|error| t.explain(error))?;
            t.output("p", naive.weights);
            t.output("lse", naive.log_sum_exp);
            naive.output
        }
    };
    t.output("o", output);
    if let Some(gradient) = t.optional("do") {
        if t.graph.shape(gradient) == t.graph.shape(output) {
            let product = multiply(t.graph, gradient, output).map_err(|error| t.explain(error))?;
            let delta = reduce(t.graph, product, 3, Reduction::Sum).map_err(|error| t.explain(error))?;
            t.output("delta", delta);
        }
        t.differentiate(output, "do", GRADIENTS);
    }
    Ok(())
}

struct Naive {
    output: Value,
    weights: Value,
    log_sum_exp: Value,
}

/// The formula written out. Query heads that share a key head are a dimension of their own: `[B, Hkv, H / Hkv, Tq, D]`
/// against `[B, Hkv, 1, Tk, D]`.
fn naive(
    g: &mut Graph,
    [query, key, value]: [Value; 3],
    [query_shape, key_shape]: [[usize; 4]; 2],
    spec: AttentionSpec,
) -> Result<Naive, GraphError> {
    let [batch, heads, query_length, width] = query_shape;
    let [_, key_heads, key_length, _] = key_shape;
    let query = reshape(g, query, &[batch, key_heads, heads / key_heads, query_length, width])?;
    let [key, value] = [key, value].map(|rows| reshape(g, rows, &[batch, key_heads, 1, key_length, width]));
    let transposed = transpose(g, key?)?;
    let scores = matmul(g, query, transposed)?;
    let weights = scaled_masked_softmax(g, scores, spec.scale, spec.causal)?;
    let output = matmul(g, weights, value?)?;
    let scaled = scale(g, scores, spec.scale)?;
    let masked = if spec.causal { causal_mask(g, scaled)? } else { scaled };
    let parts = log_sum_exp(g, masked, 4)?;
    let log_sum_exp = add(g, parts.largest, parts.logarithm)?;
    Ok(Naive {
        output: reshape(g, output, &[batch, heads, query_length, width])?,
        weights: reshape(g, weights, &[batch, heads, query_length, key_length])?,
        log_sum_exp: reshape(g, log_sum_exp, &[batch, heads, query_length])?,
    })
}

/// A log-sum-exp in parts: where values are large, their sum has lost the digits of the smaller.
pub(super) struct LogSumExp {
    /// `x` less the largest, in the shape of `x`.
    pub below: Value,
    /// The largest over the axis, which is removed.
    pub largest: Value,
    /// `ln(sum(exp(below)))`
    pub logarithm: Value,
}

/// `ln(sum(exp(x)))` over an axis (Blanchard, Higham and Higham 2021, equation 1.3).
pub(super) fn log_sum_exp(g: &mut Graph, x: Value, axis: usize) -> Result<LogSumExp, GraphError> {
    let mut kept = g.shape(x).to_vec();
    kept[axis] = 1;
    let largest = reduce(g, x, axis, Reduction::Maximum)?;
    let spread = reshape(g, largest, &kept)?;
    let below = subtract(g, x, spread)?;
    let exponentials = unary(g, below, Unary::Exp, 0.0)?;
    let sum = reduce(g, exponentials, axis, Reduction::Sum)?;
    Ok(LogSumExp { below, largest, logarithm: unary(g, sum, Unary::Log, 0.0)? })
}
