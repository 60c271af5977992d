//! The kernels: one file each, with the typed parameters, the CPU twin, the WGSL designs and the parity cases.
//!
//! Adding a kernel is one WGSL file, one file here and one line in [`KERNELS`].

pub mod accumulate;
pub mod adamw;
pub mod attention_backward_key_value;
pub mod attention_backward_query;
mod attention_cases;
pub mod attention_delta;
mod attention_error;
pub mod attention_forward;
mod attention_reference;
mod attention_rows;
pub mod attention_shape;
pub mod binary;
mod broadcast;
pub mod causal_mask;
pub mod copy;
pub mod cross_entropy;
pub mod cross_entropy_backward;
pub mod cross_entropy_mean;
pub mod cumulative_sum;
pub mod domain;
pub mod elementwise;
pub mod embedding;
pub mod embedding_backward;
pub mod fill;
#[cfg(test)]
mod finite_difference;
pub mod gradient_norm;
pub mod layer_norm;
pub mod layer_norm_backward_input;
pub mod layer_norm_backward_parameters;
pub mod loop_limit;
pub mod matmul;
pub mod multiply_add;
pub mod reduce;
pub mod scaled_masked_softmax;
pub mod scaled_masked_softmax_backward;
pub mod select;
pub mod softmax;
pub mod softmax_backward;
mod split_reduction;
pub mod strides;
pub mod sum_of_squares;
pub mod unary;

use crate::gpu::Piece;
use crate::tape::Kernel;

/// Every kernel there is. Tests, `headlight parity` and the benches go by this list.
pub static KERNELS: &[&Kernel] = &[
    &accumulate::KERNEL,
    &adamw::KERNEL,
    &attention_backward_key_value::KERNEL,
    &attention_backward_query::KERNEL,
    &attention_delta::KERNEL,
    &attention_forward::KERNEL,
    &binary::KERNEL,
    &causal_mask::KERNEL,
    &copy::KERNEL,
    &cross_entropy::KERNEL,
    &cross_entropy_backward::KERNEL,
    &cross_entropy_mean::KERNEL,
    &cumulative_sum::KERNEL,
    &embedding::KERNEL,
    &embedding_backward::KERNEL,
    &fill::KERNEL,
    &gradient_norm::KERNEL,
    &layer_norm::KERNEL,
    &layer_norm_backward_input::KERNEL,
    &layer_norm_backward_parameters::KERNEL,
    &matmul::KERNEL,
    &multiply_add::KERNEL,
    &reduce::KERNEL,
    &scaled_masked_softmax::KERNEL,
    &scaled_masked_softmax_backward::KERNEL,
    &select::KERNEL,
    &softmax::KERNEL,
    &softmax_backward::KERNEL,
    &sum_of_squares::KERNEL,
    &unary::KERNEL,
];

/// Shared pieces of WGSL that designs begin with.
pub mod piece {
    use super::Piece;

    macro_rules! piece {
        ($name:ident, $file:literal) => {
            pub static $name: Piece =
                Piece { file: concat!("common/", $file), text: include_str!(concat!("../../shaders/common/", $file)) };
        };
    }

    piece!(ATTENTION_MASK, "attention_mask.wgsl");
    piece!(ATTENTION_TILE, "attention_tile.wgsl");
    piece!(BROADCAST_POSITION, "broadcast_position.wgsl");
    piece!(DIVIDE, "divide.wgsl");
    piece!(ELEMENTWISE, "elementwise.wgsl");
    piece!(HOLDS, "holds.wgsl");
    piece!(LINEAR_INDEX, "linear_index.wgsl");
    piece!(LINEAR_WORKGROUP, "linear_workgroup.wgsl");
    piece!(MATMUL, "matmul.wgsl");
    piece!(MATMUL_SCALAR, "matmul_scalar.wgsl");
    piece!(MATMUL_VEC4, "matmul_vec4.wgsl");
    piece!(NAN, "nan.wgsl");
    piece!(SCALAR_VALUES, "scalar_values.wgsl");
    piece!(SERIAL_REDUCTION, "serial_reduction.wgsl");
    piece!(SPLIT_MAXIMUM, "split_maximum.wgsl");
    piece!(SPLIT_REDUCTION, "split_reduction.wgsl");
    piece!(SPLIT_SUM, "split_sum.wgsl");
    piece!(STRIDED_OFFSET, "strided_offset.wgsl");
    piece!(SUBGROUP_EIGHT, "subgroup_eight.wgsl");
    piece!(VEC4_VALUES, "vec4_values.wgsl");
    piece!(VISIBLE, "visible.wgsl");
    piece!(VISIBLE_KEYS, "visible_keys.wgsl");

    /// Every shared piece, so that a test can tell a shader file that nobody uses.
    pub static ALL: &[&Piece] = &[
        &ATTENTION_MASK,
        &ATTENTION_TILE,
        &BROADCAST_POSITION,
        &DIVIDE,
        &ELEMENTWISE,
        &HOLDS,
        &LINEAR_INDEX,
        &LINEAR_WORKGROUP,
        &MATMUL,
        &MATMUL_SCALAR,
        &MATMUL_VEC4,
        &NAN,
        &SCALAR_VALUES,
        &SERIAL_REDUCTION,
        &SPLIT_MAXIMUM,
        &SPLIT_REDUCTION,
        &SPLIT_SUM,
        &STRIDED_OFFSET,
        &SUBGROUP_EIGHT,
        &VEC4_VALUES,
        &VISIBLE,
        &VISIBLE_KEYS,
    ];
}
