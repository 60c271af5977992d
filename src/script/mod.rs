//! A learner's attention: a Starlark file with one function, traced into a graph of whitelisted ops.
//!
//! The interpreter runs the function once for each shape with stand-ins for tensors. What it calls is checked and written
//! down as a [`Recording`], which says everything about the computation and can do nothing but be replayed into a
//! [`Graph`](crate::graph::Graph). So a script may be traced in another process, one that may be stopped, and its
//! recording be handed over.

mod builtin;
mod error;
mod interpreter;
pub mod ops;
mod recording;
mod replay;
mod source;
#[cfg(test)]
mod tests;

pub use builtin::{BUGS, Builtin, GALLERY, REFERENCE, builtin};
pub use error::ScriptError;
pub use interpreter::trace_here;
pub use recording::{Argument, Call, Initial, ParameterDeclaration, Recording, TensorId};
pub use replay::{Inputs, Replayed, replay};
pub use source::{SOURCE_LIMIT, Script};

/// The sizes that a script is traced for.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TraceSizes {
    /// B
    pub batch: usize,
    /// T, the number of positions.
    pub length: usize,
    /// d, the width of queries, keys and values of all heads together.
    pub width: usize,
    /// H
    pub heads: usize,
    /// The largest T of the model.
    pub context_length: usize,
    /// Layers of the model: the function is traced for each, with its number in `cfg.layer`.
    pub layers: usize,
}

/// Something that traces scripts: here, or in a process of its own.
pub trait Tracer: std::fmt::Debug + Send + Sync {
    /// The recordings of all layers.
    ///
    /// # Errors
    /// What is wrong with the script, with its place; or that it was stopped.
    fn trace(&self, script: &Script, sizes: &TraceSizes) -> Result<Vec<Recording>, ScriptError>;
}

/// Traces in this process, where nothing can stop a script: for scripts that are trusted.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceHere;

impl Tracer for TraceHere {
    fn trace(&self, script: &Script, sizes: &TraceSizes) -> Result<Vec<Recording>, ScriptError> {
        trace_here(script, sizes)
    }
}
