//! Operands that are broadcast to a row-major result and read by whole vec4: the host's side of
//! `common/broadcast_position.wgsl`.

use super::strides::{self, Dimensions, Layout};
use crate::tape::Mutant;
use crate::tape::MutantKind::Index;

/// Mutants of the WGSL piece.
pub const MUTANTS: &[Mutant] = &[
    Mutant::new(
        Index,
        "a block that is repeated is read past its end",
        "return first - divide(first, kept) * kept;",
        "return first;",
    ),
    Mutant::new(
        Index,
        "an element that is repeated is taken from the wrong place",
        "return divide(first, product(",
        "return divide(first + 4u, product(",
    ),
    Mutant::new(Index, "an operand's place within a vec4 is forgotten", "loaded[at % 4u]", "loaded[0]"),
];

/// The number of an operand's layout in the shader.
///
/// # Errors
/// Why whole vec4 cannot be read from it.
pub fn layout(shape: &Dimensions, strides: &Dimensions, offset: u32) -> Result<u32, String> {
    let aligned = offset.is_multiple_of(4);
    match strides::layout(shape, strides) {
        Layout::Full if aligned => Ok(0),
        Layout::Block { kept } if aligned && kept.is_multiple_of(4) => Ok(1),
        Layout::Element { repeated } if repeated.is_multiple_of(4) => Ok(2),
        Layout::Scalar => Ok(3),
        other => Err(format!("cannot read whole vec4 of {other:?} from offset {offset}")),
    }
}
