//! The ops, one file each: shape rule, gradient rule, lowering; beside each the function that adds it to a graph.

mod attention;
mod causal_mask;
mod cross_entropy;
mod cumulative_sum;
mod elementwise;
mod embedding;
mod input;
mod layer_norm;
mod matmul;
mod reduce;
mod scaled_masked_softmax;
mod select;
mod softmax;
mod views;

pub use attention::{Attention, AttentionSpec, attention};
pub use causal_mask::{CausalMask, causal_mask};
pub use cross_entropy::{CrossEntropy, Losses, cross_entropy};
pub use cumulative_sum::{CumulativeSum, cumulative_sum};
pub use elementwise::{
    BinaryOp, UnaryOp, add, add_constant, binary, divide, gelu, multiply, negate, scale, subtract, unary,
};
pub use embedding::{Embedding, embedding};
pub use input::{Constant, Index, Input, constant, index, input};
pub use layer_norm::{LayerNorm, layer_norm};
pub use matmul::{MatMul, linear, matmul};
pub use reduce::{Reduce, Reduction, reduce, sum_to_shape};
pub use scaled_masked_softmax::{ScaledMaskedSoftmax, scaled_masked_softmax};
pub use select::{Select, select};
pub use softmax::{Softmax, softmax};
pub use views::{Concat, Permute, Reshape, Slice, concat, permute, reshape, roll, slice, transpose};

/// What every op file needs.
mod prelude {
    pub use super::super::{
        Access, Defined, Dimension, Domain, Dtype, Graph, GraphError, Lowering, LoweringError, NodeId, Op, Part,
        ShapeError, TensorType, Value, View,
    };

    /// Why an op that exists only backwards has no gradient of its own.
    pub const SECOND_DERIVATIVE: &str = "its inputs: second derivatives are not built";

    /// Exactly so many inputs.
    pub fn count(inputs: &[&TensorType], wanted: usize, words: &'static str) -> Result<(), ShapeError> {
        if inputs.len() == wanted { Ok(()) } else { Err(ShapeError::InputCount { wanted: words, got: inputs.len() }) }
    }

    /// Numbers only: arithmetic on token ids would read bits that mean something else.
    pub fn numbers(inputs: &[&TensorType]) -> Result<(), ShapeError> {
        match inputs.iter().all(|ty| ty.dtype == Dtype::Real) {
            true => Ok(()),
            false => Err(ShapeError::Element { wanted: "numbers", got: "token ids" }),
        }
    }

    /// A size or stride as kernels count them. Where it is 2^32 or more, so is a buffer of the launch, which is refused.
    pub fn u(value: usize) -> u32 {
        u32::try_from(value).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Graph, GraphError, TensorType, Value};
    use super::*;
    use crate::kernel::elementwise::{Binary, Unary};

    type Trace = fn(&mut Graph, Value, Value) -> Result<Value, GraphError>;

    #[test]
    fn arithmetic_on_token_ids_is_refused_with_the_name_of_the_op() {
        let traces: [(&str, Trace); 19] = [
            ("square", |g, _, ids| unary(g, ids, Unary::Square, 0.0)),
            ("less", |g, x, ids| binary(g, x, ids, Binary::Less)),
            ("add", |g, x, ids| add(g, ids, x)),
            ("where", |g, x, ids| select(g, ids, x, x)),
            ("where", |g, x, ids| select(g, x, ids, x)),
            ("where", |g, x, ids| select(g, x, x, ids)),
            ("concat", |g, x, ids| concat(g, &[x, ids], 0)),
            ("concat", |g, _, ids| roll(g, ids, 0, 1)),
            ("matmul", |g, x, ids| matmul(g, ids, x)),
            ("matmul", |g, x, ids| linear(g, x, x, ids)),
            ("softmax", |g, _, ids| softmax(g, ids, 0)),
            ("sum", |g, _, ids| reduce(g, ids, 0, Reduction::Sum)),
            ("max", |g, _, ids| reduce(g, ids, 0, Reduction::Maximum)),
            ("cumsum", |g, _, ids| cumulative_sum(g, ids, 0)),
            ("layer_norm", |g, x, ids| layer_norm(g, ids, x, x, 1e-5)),
            ("attention", |g, x, ids| attention(g, x, ids, x, AttentionSpec { scale: 1.0, causal: true })),
            ("causal_mask", |g, _, ids| causal_mask(g, ids)),
            ("scaled_masked_softmax", |g, _, ids| scaled_masked_softmax(g, ids, 1.0, true)),
            ("embedding", |g, _, ids| embedding(g, ids, ids)),
        ];
        for (op, trace) in traces {
            let mut graph = Graph::new();
            let x = input(&mut graph, "x", TensorType::real([2, 2])).unwrap();
            let ids = input(&mut graph, "ids", TensorType::words([2, 2])).unwrap();
            match trace(&mut graph, x, ids) {
                Err(error @ GraphError::Shape { .. }) => {
                    let message = error.to_string();
                    assert!(message.starts_with(&format!("{op} in ")), "{message}");
                    assert!(message.ends_with("needs numbers, got token ids"), "{message}");
                }
                other => panic!("{op}: {other:?}"),
            }
        }
    }
}
