//! The kernels: one file each, with the typed parameters, the CPU twin, the WGSL designs and the parity cases.
//!
//! Adding a kernel is one WGSL file, one file here and one line in [`KERNELS`].

pub mod matmul;
pub mod scale;

use crate::gpu::Piece;
use crate::tape::Kernel;

/// Every kernel there is. Tests, `headlight parity` and the benches go by this list.
pub static KERNELS: &[&Kernel] = &[&matmul::KERNEL, &scale::KERNEL];

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
    piece!(MATMUL, "matmul.wgsl");
    piece!(MATMUL_SCALAR, "matmul_scalar.wgsl");
    piece!(MATMUL_VEC4, "matmul_vec4.wgsl");

    /// Every shared piece, so that a test can tell a shader file that nobody uses.
    pub static ALL: &[&Piece] = &[&LINEAR_INDEX, &MATMUL, &MATMUL_SCALAR, &MATMUL_VEC4];
}
