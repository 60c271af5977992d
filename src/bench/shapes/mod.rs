//! The shapes that kernels are timed on: those of one training step of a small model (4 layers, 4 heads, 128 wide, 12
//! sequences of 64 tokens, 65 characters), and what measures an adapter's own ceilings.

mod attention;
mod ceiling;
mod matmul;

use std::sync::Arc;

use crate::gpu::Profile;
use crate::tape::{AnyParameters, Kernel, KernelParameters};

pub use ceiling::{copy, multiply_add};
pub use matmul::matmul;

/// One launch to be timed.
#[derive(Clone)]
pub struct Shape {
    pub kernel: &'static Kernel,
    /// What it is for and its sizes.
    pub name: String,
    pub parameters: Arc<dyn AnyParameters>,
    /// Elements of each operand, in the order of the shader's bindings from 1 on.
    pub operands: Vec<u64>,
}

impl Shape {
    fn new<P: KernelParameters>(
        kernel: &'static Kernel,
        name: impl Into<String>,
        parameters: P,
        operands: &[u64],
    ) -> Self {
        Self { kernel, name: name.into(), parameters: Arc::new(parameters), operands: operands.to_vec() }
    }
}

/// Every shape there is for an adapter; a kernel's are one function.
pub fn all(profile: &Profile) -> Vec<Shape> {
    let mut shapes = matmul();
    shapes.extend(attention::attention());
    shapes.extend([copy(profile), multiply_add(profile)]);
    shapes
}
