//! The kernels: one file each, with the typed parameters, the CPU twin, the WGSL designs and the parity cases.
//!
//! Adding a kernel is one WGSL file, one file here and one line in [`KERNELS`].

pub mod adamw;
pub mod cross_entropy;
pub mod cross_entropy_backward;
pub mod cross_entropy_mean;
pub mod embedding;
pub mod embedding_backward;
#[cfg(test)]
mod finite_difference;
pub mod gradient_norm;
pub mod layer_norm;
pub mod layer_norm_backward_input;
pub mod layer_norm_backward_parameters;
pub mod loop_limit;
pub mod scale;
pub mod sum_of_squares;

use crate::gpu::Piece;
use crate::tape::Kernel;

/// Every kernel there is. Tests, `headlight parity` and the benches go by this list.
pub static KERNELS: &[&Kernel] = &[
    &adamw::KERNEL,
    &cross_entropy::KERNEL,
    &cross_entropy_backward::KERNEL,
    &cross_entropy_mean::KERNEL,
    &embedding::KERNEL,
    &embedding_backward::KERNEL,
    &gradient_norm::KERNEL,
    &layer_norm::KERNEL,
    &layer_norm_backward_input::KERNEL,
    &layer_norm_backward_parameters::KERNEL,
    &scale::KERNEL,
    &sum_of_squares::KERNEL,
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

    piece!(LINEAR_INDEX, "linear_index.wgsl");
    piece!(SCALAR_VALUES, "scalar_values.wgsl");
    piece!(VEC4_VALUES, "vec4_values.wgsl");

    /// Every shared piece, so that a test can tell a shader file that nobody uses.
    pub static ALL: &[&Piece] = &[&LINEAR_INDEX, &SCALAR_VALUES, &VEC4_VALUES];
}
