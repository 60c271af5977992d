//! The shapes that kernels are timed on: those of one training step of a small model (4 layers, 4 heads, 128 wide, 12
//! sequences of 64 tokens, 65 characters), and what measures an adapter's own ceilings.

mod attention;
mod ceiling;
mod matmul;
mod training_step;

use std::sync::Arc;

use crate::gpu::Profile;
use crate::tape::{AnyParameters, ElementKind, Kernel, KernelParameters};

pub use ceiling::{copy, multiply_add};
pub use matmul::matmul;

/// One launch to be timed.
#[derive(Clone)]
pub struct Shape {
    pub kernel: &'static Kernel,
    /// What it is for and its sizes.
    pub name: String,
    pub parameters: Arc<dyn AnyParameters>,
    /// Elements of each operand and what they are, in the order of the shader's bindings from 1 on.
    pub operands: Vec<(u64, ElementKind)>,
}

impl Shape {
    fn new<P: KernelParameters>(
        kernel: &'static Kernel,
        name: impl Into<String>,
        parameters: P,
        operands: &[u64],
    ) -> Self {
        let operands = operands.iter().map(|&elements| (elements, ElementKind::Real)).collect();
        Self { kernel, name: name.into(), parameters: Arc::new(parameters), operands }
    }
}

/// Every shape there is for an adapter, of every kernel: those that take the most of a step have several.
pub fn all(profile: &Profile) -> Vec<Shape> {
    let mut shapes = matmul();
    shapes.extend(attention::attention());
    shapes.extend([copy(profile), multiply_add(profile)]);
    let mut rest = training_step::training_step(profile);
    rest.retain(|shape| shapes.iter().all(|known| known.kernel.name != shape.kernel.name));
    shapes.extend(rest);
    shapes
}
