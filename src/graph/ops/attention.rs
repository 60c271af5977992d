//! Fused attention: the whole of `softmax(mask(scale * Q K^T)) V` as one op that never holds the scores.

use super::prelude::*;
use crate::kernel::attention_shape::{AttentionShape, RowView};
use crate::kernel::{attention_backward_key_value, attention_backward_query, attention_delta, attention_forward};
use crate::tape::Category;

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
/// `[B, H, Tq, D]`; the log-sum-exp of the visible scores `[B, H, Tq]`, -2^127 where there are none; and
/// `softmax_statistics [2, B, H, Tq]`, the two numbers that make it up, which the backward pass keeps in its stead.
#[derive(Clone, Debug)]
pub struct Attention {
    pub spec: AttentionSpec,
}

/// The gradients of [`Attention`] for query, key and value (Dao et al. 2022, appendix B.4).
#[derive(Clone, Debug)]
struct AttentionBackward {
    spec: AttentionSpec,
}

/// Sizes and mask as the kernels take them.
fn shape_of(spec: &AttentionSpec, query: &View, key: &View) -> AttentionShape {
    AttentionShape {
        batch: u(query.shape[0]),
        heads: u(query.shape[1]),
        key_value_heads: u(key.shape[1]),
        query_length: u(query.shape[2]),
        key_length: u(key.shape[2]),
        head_dim: u(query.shape[3]),
        causal: spec.causal,
        scale: spec.scale,
    }
}

/// Where the rows of a `[B, H, T, D]` view lie.
fn rows_of(view: &View) -> RowView {
    RowView::new(u(view.offset), u(view.strides[0]), u(view.strides[1]), u(view.strides[2]))
}

impl Op for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        count(inputs, 3, "3")?;
        numbers(inputs)?;
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
        let [batch, heads, length] = [query[0], query[1], query[2]];
        Ok(vec![
            inputs[0].clone(),
            TensorType::real([batch, heads, length]),
            TensorType::real([2, batch, heads, length]),
        ])
    }

    fn domain(&self) -> Domain {
        Domain::SMOOTH
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        for (output, what) in [(1, "its log-sum-exp"), (2, "the statistics of its softmax")] {
            if upstream[output].is_some() {
                return Err(GraphError::NoGradient { op: self.name(), what });
            }
        }
        let Some(do_) = upstream[0] else { return Ok(vec![None; 3]) };
        let mut operands = graph.nodes[node].inputs.clone();
        operands.extend([Value { node, output: 0 }, Value { node, output: 2 }, do_]);
        let backward = graph.add_node(std::sync::Arc::new(AttentionBackward { spec: self.spec }), &operands)?;
        Ok((0..3).map(|output| Some(Value { node: backward, output })).collect())
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let [query, key, value] = operands(lowering, node, [0, 1, 2])?;
        // Memory order [B, T, H, D]: merging the heads is then only a view.
        let output = lowering.output_ordered(node, 0, &[0, 2, 1, 3]);
        let [log_sum_exp, softmax_statistics] = [1, 2].map(|output| lowering.output(node, output));
        let shape = shape_of(&self.spec, &query, &key);
        let parameters = attention_forward::Parameters::new(&shape, [&query, &key, &value, &output].map(rows_of));
        let inputs = [query.buffer, key.buffer, value.buffer];
        let outputs = [output.buffer, log_sum_exp.buffer, softmax_statistics.buffer];
        lowering.launch(node, &attention_forward::KERNEL, parameters, &[inputs, outputs].concat());
        Ok(())
    }

    fn attributes(&self) -> String {
        format!("scale={}{}", self.spec.scale, if self.spec.causal { " causal" } else { "" })
    }

    fn output_category(&self, output: usize) -> Option<Category> {
        (output > 0).then_some(Category::LogSumExp)
    }
}

/// `[B, H, T]` of a `[B, H, T, D]` view.
fn shape_rows(view: &View) -> [usize; 3] {
    [view.shape[0], view.shape[1], view.shape[2]]
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

    fn domain(&self) -> Domain {
        Domain::NotDifferentiable { what: SECOND_DERIVATIVE }
    }

    fn gradient(&self, _: &mut Graph, _: NodeId, _: &[Option<Value>]) -> Result<Vec<Option<Value>>, GraphError> {
        Err(GraphError::NoGradient { op: self.name(), what: SECOND_DERIVATIVE })
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        let [query, key, value, output, output_gradient] = operands(lowering, node, [0, 1, 2, 3, 5])?;
        let softmax_statistics = lowering.contiguous_input(node, 4)?;
        let [query_gradient, key_gradient, value_gradient] =
            [0, 1, 2].map(|gradient| lowering.output_ordered(node, gradient, &[0, 2, 1, 3]));
        let shape = shape_of(&self.spec, &query, &key);
        // A vec4 a query.
        let rows = [&shape_rows(&query)[..], &[4]].concat();
        let statistics = lowering.scratch(node, "row_statistics", &rows, Category::LogSumExp);
        lowering.launch(
            node,
            &attention_delta::KERNEL,
            attention_delta::Parameters::new(&shape, [&output, &output_gradient].map(rows_of)),
            &[output.buffer, output_gradient.buffer, softmax_statistics.buffer, statistics],
        );
        let inputs = [query.buffer, key.buffer, value.buffer, output_gradient.buffer, statistics];
        let views = [&query, &key, &value, &output_gradient, &query_gradient].map(rows_of);
        lowering.launch(
            node,
            &attention_backward_query::KERNEL,
            attention_backward_query::Parameters::new(&shape, views),
            &[&inputs[..], &[query_gradient.buffer]].concat(),
        );
        let views = [&query, &key, &value, &output_gradient, &key_gradient, &value_gradient].map(rows_of);
        lowering.launch(
            node,
            &attention_backward_key_value::KERNEL,
            attention_backward_key_value::Parameters::new(&shape, views),
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
