//! Ops by name, on tensors by name: for people who hold one op against NumPy or PyTorch, and for reference files.
//!
//! A [`NamedOp`] takes tensors under the names of `tests/golden/README.md` and gives its outputs under such names,
//! gradients included where the gradient of the output is among the inputs. One file an op.

mod activation;
mod adamw;
mod cross_entropy;
mod embedding;
mod error;
mod layer_norm;
mod linear;
mod matmul;
mod options;
mod run;
mod scaled_dot_product_attention;
mod softmax;
mod traced;

use std::collections::BTreeMap;

pub use error::OpError;
pub use options::{AttentionForm, OpOption, OpOptions};
pub use traced::{NamedTensor, Traced};

use crate::tape::{RunOn, Tensor};

/// Tensors by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// An op with the names of its tensors.
pub struct NamedOp {
    pub name: &'static str,
    /// The formula, with the shapes of the tensors in it.
    pub formula: &'static str,
    /// The outputs, and those that the gradient of the output adds.
    pub gives: &'static str,
    pub tensors: &'static [NamedTensor],
    pub options: &'static [OpOption],
    body: Body,
}

/// How an op is computed.
enum Body {
    /// As a graph, differentiated where gradients of outputs are given.
    Graph(fn(&mut Traced<'_>, &OpOptions) -> Result<(), OpError>),
    /// As a sequence of optimizer steps.
    Optimizer,
}

/// Every op that can be run by name.
pub static OPS: &[&NamedOp] = &[
    &scaled_dot_product_attention::OP,
    &matmul::NN,
    &matmul::NT,
    &matmul::TN,
    &linear::LINEAR,
    &linear::BIAS,
    &linear::RESIDUAL,
    &softmax::OP,
    &activation::GELU_TANH,
    &activation::RELU,
    &layer_norm::OP,
    &cross_entropy::OP,
    &embedding::OP,
    &adamw::OP,
];

/// The op of that name.
///
/// # Errors
/// [`OpError::Unknown`], listing those there are.
pub fn find(name: &str) -> Result<&'static NamedOp, OpError> {
    OPS.iter().copied().find(|op| op.name == name).ok_or_else(|| OpError::Unknown {
        name: name.into(),
        known: OPS.iter().map(|op| op.name).collect::<Vec<_>>().join(", "),
    })
}

impl NamedOp {
    /// Runs the op. The outputs come under their names; gradients are among them where the gradient of the output is
    /// among `inputs`.
    ///
    /// # Errors
    /// A missing, extra or misshapen tensor by name; an option that the op does not take; a device that fails.
    pub async fn run(&self, inputs: &Tensors, options: &OpOptions, on: &RunOn) -> Result<Tensors, OpError> {
        let stored_as_f32 = !matches!(on, RunOn::CpuWide);
        options.check(self, stored_as_f32)?;
        run::check_numbers(self, inputs, stored_as_f32)?;
        match self.body {
            Body::Graph(trace) => run::run_graph(self, trace, inputs, options, on).await,
            Body::Optimizer => adamw::run(inputs, options, on).await,
        }
    }
}
