//! Fused attention: the whole of `softmax(mask(scale * Q K^T)) V` as one op that never holds the scores.

use super::prelude::*;
use crate::kernel::{attention_backward_key_value, attention_backward_query, attention_delta, attention_forward};

/// What an attention computes beside its inputs. Whole kinds of attention are fields here, so that an option which is
/// not built is refused by its name and never ignored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionSpec {
    /// Multiplies the scores; usually 1/sqrt(d_head).
    pub scale: f64,
    /// Query `i` sees key `j` iff `j <= i + Tk - Tq`.
    pub causal: bool,
}

/// `query [B, H, Tq, D]`, `key` and `value [B, Hkv, Tk, D]` (query head `h` reads head `h / (H / Hkv)`). Outputs:
/// `[B, H, Tq, D]` and the log-sum-exp of the visible scores `[B, H, Tq]`.
#[derive(Clone, Debug)]
pub struct Attention {
    pub spec: AttentionSpec,
}

/// The gradients of [`Attention`] for query, key and value (Dao et al. 2022, appendix B.4).
#[derive(Clone, Debug)]
struct AttentionBackward {
    spec: AttentionSpec,
}

/// Batch, heads, key/value heads, query length, key length, head width.
fn sizes(query: &[usize], key: &[usize]) -> [u32; 6] {
    [query[0], query[1], key[1], query[2], key[2], query[3]].map(u)
}

impl Op for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 3, "3")?;
        for ty in inputs {
            if ty.shape.len() != 4 {
                return Err(ShapeError::Rank { wanted: "4", got: ty.shape.len() });
            }
        }
        let [query, key, value] = [0, 1, 2].map(|input| &inputs[input].shape);
        for (what, left, right) in [
            ("batch of query and key", query[0], key[0]),
            ("head width of query and key", query[3], key[3]),
            ("batch of key and value", key[0], value[0]),
            ("heads of key and value", key[1], value[1]),
            ("length of key and value", key[2], value[2]),
            ("head width of key and value", key[3], value[3]),
        ] {
            if left != right {
                return Err(ShapeError::Differ { what, left, right });
            }
        }
        if key[1] == 0 || !query[1].is_multiple_of(key[1]) {
            let message = format!("{} query heads are no multiple of {} key heads", query[1], key[1]);
            return Err(ShapeError::Other(message));
        }
        if !(1..=128).contains(&query[3]) {
            return Err(ShapeError::Other(format!("head width {} is outside of 1 to 128", query[3])));
        }
        Ok(vec![inputs[0].clone(), TensorType::real([query[0], query[1], query[2]])])
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        if upstream[1].is_some() {
            return Err(GraphError::NoGradient { op: self.name(), what: "its log-sum-exp" });
        }
        let Some(do_) = upstream[0] else { return Ok(vec![None; 3]) };
        let mut operands = graph.nodes[node].inputs.clone();
        operands.extend([Value { node, output: 0 }, Value { node, output: 1 }, do_]);
        let backward = graph.add_node(std::sync::Arc::new(AttentionBackward { spec: self.spec }), &operands)?;
        Ok((0..3).map(|output| Some(Value { node: backward, output })).collect())
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let [query, key, value] = operands(lowering, node, [0, 1, 2])?;
        // Memory order [B, T, H, D]: merging the heads is then only a view.
        let output = lowering.output_ordered(node, 0, &[0, 2, 1, 3]);
        let log_sum_exp = lowering.output(node, 1);
        let [batch, heads, key_value_heads, query_length, key_length, head_dim] = sizes(&query.shape, &key.shape);
        let parameters = attention_forward::Parameters {
            batch,
            heads,
            key_value_heads,
            query_length,
            key_length,
            head_dim,
            causal: u32::from(self.spec.causal),
            scale: self.spec.scale,
            query_offset: u(query.offset),
            query_batch_stride: u(query.strides[0]),
            query_head_stride: u(query.strides[1]),
            query_row_stride: u(query.strides[2]),
            key_offset: u(key.offset),
            key_batch_stride: u(key.strides[0]),
            key_head_stride: u(key.strides[1]),
            key_row_stride: u(key.strides[2]),
            value_offset: u(value.offset),
            value_batch_stride: u(value.strides[0]),
            value_head_stride: u(value.strides[1]),
            value_row_stride: u(value.strides[2]),
            output_offset: u(output.offset),
            output_batch_stride: u(output.strides[0]),
            output_head_stride: u(output.strides[1]),
            output_row_stride: u(output.strides[2]),
        };
        let operands = [query.buffer, key.buffer, value.buffer, output.buffer, log_sum_exp.buffer];
        lowering.launch(node, &attention_forward::KERNEL, parameters, &operands);
        Ok(())
    }

    fn attributes(&self) -> String {
        format!("scale={}{}", self.spec.scale, if self.spec.causal { " causal" } else { "" })
    }
}

/// Inputs whose head width lies without gaps, copied where it does not.
fn operands<const N: usize>(
    lowering: &mut Lowering<'_>,
    node: NodeId,
    inputs: [usize; N],
) -> Result<[View; N], LoweringError> {
    let mut views = Vec::with_capacity(N);
    for input in inputs {
        let view = lowering.input(node, input);
        views.push(match view.strides[3] == 1 || view.shape[3] == 1 {
            true => view,
            false => lowering.contiguous_input(node, input)?,
        });
    }
    let count = views.len();
    views.try_into().map_err(|_| LoweringError::Rank { label: lowering.node(node).label.clone(), rank: count })
}

impl Op for AttentionBackward {
    fn name(&self) -> &'static str {
        "attention_backward"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 6, "6")?;
        Ok(inputs[..3].iter().map(|&ty| ty.clone()).collect())
    }

    fn gradient(&self, _: &mut Graph, _: NodeId, _: &[Option<Value>]) -> Result<Vec<Option<Value>>, GraphError> {
        Err(GraphError::NoGradient { op: self.name(), what: "its inputs: second derivatives are not built" })
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let [query, key, value, output, output_gradient] = operands(lowering, node, [0, 1, 2, 3, 5])?;
        let log_sum_exp = lowering.contiguous_input(node, 4)?;
        let [query_gradient, key_gradient, value_gradient] =
            [0, 1, 2].map(|gradient| lowering.output_ordered(node, gradient, &[0, 2, 1, 3]));
        let [batch, heads, key_value_heads, query_length, key_length, head_dim] = sizes(&query.shape, &key.shape);
        let statistics = lowering.scratch(node, "row_statistics", 2 * log_sum_exp.elements());
        lowering.launch(
            node,
            &attention_delta::KERNEL,
            attention_delta::Parameters {
                batch,
                heads,
                query_length,
                head_dim,
                output_offset: u(output.offset),
                output_batch_stride: u(output.strides[0]),
                output_head_stride: u(output.strides[1]),
                output_row_stride: u(output.strides[2]),
                output_gradient_offset: u(output_gradient.offset),
                output_gradient_batch_stride: u(output_gradient.strides[0]),
                output_gradient_head_stride: u(output_gradient.strides[1]),
                output_gradient_row_stride: u(output_gradient.strides[2]),
            },
            &[output.buffer, output_gradient.buffer, log_sum_exp.buffer, statistics],
        );
        let causal = u32::from(self.spec.causal);
        let scale = self.spec.scale;
        let inputs = [query.buffer, key.buffer, value.buffer, output_gradient.buffer, statistics];
        lowering.launch(
            node,
            &attention_backward_query::KERNEL,
            attention_backward_query::Parameters {
                batch,
                heads,
                key_value_heads,
                query_length,
                key_length,
                head_dim,
                causal,
                scale,
                query_offset: u(query.offset),
                query_batch_stride: u(query.strides[0]),
                query_head_stride: u(query.strides[1]),
                query_row_stride: u(query.strides[2]),
                key_offset: u(key.offset),
                key_batch_stride: u(key.strides[0]),
                key_head_stride: u(key.strides[1]),
                key_row_stride: u(key.strides[2]),
                value_offset: u(value.offset),
                value_batch_stride: u(value.strides[0]),
                value_head_stride: u(value.strides[1]),
                value_row_stride: u(value.strides[2]),
                output_gradient_offset: u(output_gradient.offset),
                output_gradient_batch_stride: u(output_gradient.strides[0]),
                output_gradient_head_stride: u(output_gradient.strides[1]),
                output_gradient_row_stride: u(output_gradient.strides[2]),
                query_gradient_offset: u(query_gradient.offset),
                query_gradient_batch_stride: u(query_gradient.strides[0]),
                query_gradient_head_stride: u(query_gradient.strides[1]),
                query_gradient_row_stride: u(query_gradient.strides[2]),
            },
            &[&inputs[..], &[query_gradient.buffer]].concat(),
        );
        lowering.launch(
            node,
            &attention_backward_key_value::KERNEL,
            attention_backward_key_value::Parameters {
                batch,
                heads,
                key_value_heads,
                query_length,
                key_length,
                head_dim,
                causal,
                scale,
                query_offset: u(query.offset),
                query_batch_stride: u(query.strides[0]),
                query_head_stride: u(query.strides[1]),
                query_row_stride: u(query.strides[2]),
                key_offset: u(key.offset),
                key_batch_stride: u(key.strides[0]),
                key_head_stride: u(key.strides[1]),
                key_row_stride: u(key.strides[2]),
                value_offset: u(value.offset),
                value_batch_stride: u(value.strides[0]),
                value_head_stride: u(value.strides[1]),
                value_row_stride: u(value.strides[2]),
                output_gradient_offset: u(output_gradient.offset),
                output_gradient_batch_stride: u(output_gradient.strides[0]),
                output_gradient_head_stride: u(output_gradient.strides[1]),
                output_gradient_row_stride: u(output_gradient.strides[2]),
                key_gradient_offset: u(key_gradient.offset),
                key_gradient_batch_stride: u(key_gradient.strides[0]),
                key_gradient_head_stride: u(key_gradient.strides[1]),
                key_gradient_row_stride: u(key_gradient.strides[2]),
                value_gradient_offset: u(value_gradient.offset),
                value_gradient_batch_stride: u(value_gradient.strides[0]),
                value_gradient_head_stride: u(value_gradient.strides[1]),
                value_gradient_row_stride: u(value_gradient.strides[2]),
            },
            &[&inputs[..], &[key_gradient.buffer, value_gradient.buffer]].concat(),
        );
        Ok(())
    }
}

/// Fused attention.
///
/// # Errors
/// [`ShapeError::Differ`] where query, key and value do not belong together.
pub fn attention(
    graph: &mut Graph,
    query: Value,
    key: Value,
    value: Value,
    spec: AttentionSpec,
) -> Result<Value, GraphError> {
    graph.add(Attention { spec }, &[query, key, value])
}
