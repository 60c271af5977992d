//! The ops, one file each: shape rule, gradient rule, lowering; beside each the function that adds it to a graph.

mod attention;
mod causal_mask;
mod cross_entropy;
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
pub use elementwise::{
    BinaryOp, UnaryOp, add, add_constant, binary, divide, gelu, multiply, negate, scale, subtract, unary,
};
pub use embedding::{Embedding, embedding};
pub use input::{Constant, Input, constant, input};
pub use layer_norm::{LayerNorm, layer_norm};
pub use matmul::{MatMul, linear, matmul};
pub use reduce::{Reduce, Reduction, reduce, sum_to_shape};
pub use scaled_masked_softmax::{ScaledMaskedSoftmax, scaled_masked_softmax};
pub use select::{Select, select};
pub use softmax::{Softmax, softmax};
pub use views::{Concat, Permute, Reshape, Slice, concat, permute, reshape, slice, transpose};

/// What every op file needs.
mod prelude {
    pub use super::super::{
        Defined, Domain, Dtype, Graph, GraphError, Lowering, LoweringError, NodeId, Op, ShapeError, TensorType, Value,
        View,
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

    /// A size or stride as kernels count them. Lowering refuses tensors of 2^32 elements beforehand, so the cast holds.
    pub fn u(value: usize) -> u32 {
        debug_assert!(u32::try_from(value).is_ok());
        value as u32
    }
}
