//! The kernels: one file each, with the typed parameters, the CPU twin, the WGSL designs and the parity cases.
//!
//! Adding a kernel is one WGSL file, one file here and one line in [`KERNELS`].

pub mod accumulate;
pub mod binary;
pub mod causal_mask;
pub mod copy;
pub mod elementwise;
pub mod fill;
pub mod loop_limit;
pub mod reduce;
pub mod scaled_masked_softmax;
pub mod scaled_masked_softmax_backward;
pub mod softmax;
pub mod softmax_backward;
mod split_reduction;
pub mod strides;
#[cfg(test)]
mod twin_check;
pub mod unary;

use crate::gpu::Piece;
use crate::tape::Kernel;

/// Every kernel there is. Tests, `headlight parity` and the benches go by this list.
pub static KERNELS: &[&Kernel] = &[
    &accumulate::KERNEL,
    &binary::KERNEL,
    &causal_mask::KERNEL,
    &copy::KERNEL,
    &fill::KERNEL,
    &reduce::KERNEL,
    &scaled_masked_softmax::KERNEL,
    &scaled_masked_softmax_backward::KERNEL,
    &softmax::KERNEL,
    &softmax_backward::KERNEL,
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

    piece!(DIVIDE, "divide.wgsl");
    piece!(ELEMENTWISE, "elementwise.wgsl");
    piece!(LINEAR_INDEX, "linear_index.wgsl");
    piece!(LINEAR_WORKGROUP, "linear_workgroup.wgsl");
    piece!(SPLIT_REDUCTION, "split_reduction.wgsl");
    piece!(STRIDED_OFFSET, "strided_offset.wgsl");
    piece!(VISIBLE, "visible.wgsl");
    piece!(VISIBLE_KEYS, "visible_keys.wgsl");

    /// Every shared piece, so that a test can tell a shader file that nobody uses.
    pub static ALL: &[&Piece] = &[
        &DIVIDE,
        &ELEMENTWISE,
        &LINEAR_INDEX,
        &LINEAR_WORKGROUP,
        &SPLIT_REDUCTION,
        &STRIDED_OFFSET,
        &VISIBLE,
        &VISIBLE_KEYS,
    ];
}
