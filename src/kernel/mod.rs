//! The kernels: one file each, with the typed parameters, the CPU twin, the WGSL designs and the parity cases.
//!
//! Adding a kernel is one WGSL file, one file here and one line in [`KERNELS`].

pub mod attention_backward_key_value;
pub mod attention_backward_query;
mod attention_cases;
pub mod attention_delta;
pub mod attention_forward;
mod attention_reference;
mod attention_rows;
mod attention_shape;
pub mod scale;

use crate::gpu::Piece;
use crate::tape::Kernel;

/// Every kernel there is. Tests, `headlight parity` and the benches go by this list.
pub static KERNELS: &[&Kernel] = &[
    &scale::KERNEL,
    &attention_forward::KERNEL,
    &attention_delta::KERNEL,
    &attention_backward_query::KERNEL,
    &attention_backward_key_value::KERNEL,
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
    piece!(LINEAR_INDEX, "linear_index.wgsl");
    piece!(SUBGROUP_EIGHT, "subgroup_eight.wgsl");

    /// Every shared piece, so that a test can tell a shader file that nobody uses.
    pub static ALL: &[&Piece] = &[&ATTENTION_MASK, &ATTENTION_TILE, &LINEAR_INDEX, &SUBGROUP_EIGHT];
}
