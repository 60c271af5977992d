//! A learner's function, traced for one shape and put into a graph between leaves.

use super::CheckError;
use super::case::{CaseInputs, Shape};
use crate::gpu::Pipelines;
use crate::graph::ops::input;
use crate::graph::{Evaluation, Graph, RewriteReport, Rewrites, TensorType, Value, differentiate_from, rewrite};
use crate::model::initialisation::Normal;
use crate::random::{Stream, generator};
use crate::script::{
    Initial, Inputs, ParameterDeclaration, Recording, Replayed, Script, ScriptError, TensorId, Tracer, replay,
};
use crate::tape::{RunOn, Tensor};

/// A function of one shape.
#[derive(Clone, Debug)]
pub struct TracedFunction {
    pub shape: Shape,
    pub recording: Recording,
    pub replayed: Replayed,
    graph: Graph,
    /// x, query, key, value, the output's gradient.
    leaves: [Value; 5],
    /// Learned parameters with their initial values.
    parameters: Vec<(Value, Tensor)>,
}

/// Calls `tracer` for a shape.
///
/// # Errors
/// What the script, or an op in it, refuses about the shape.
pub fn trace(tracer: &dyn Tracer, script: &Script, shape: Shape, seed: u64) -> Result<TracedFunction, ScriptError> {
    let mut layers = tracer.trace(script, &shape.sizes())?;
    if shape.layer >= layers.len() {
        return Err(ScriptError::whole(&script.file, format!("it was not traced for layer {}", shape.layer)));
    }
    let recording = layers.swap_remove(shape.layer);
    let failed = |error| ScriptError::whole(&script.file, format!("{error}"));
    let mut graph = Graph::new();
    let mut leaf = |name: &str, shape: &[usize]| input(&mut graph, name, TensorType::real(shape)).map_err(failed);
    let whole = [shape.batch, shape.length, shape.width()];
    let leaves =
        [leaf("x", &whole)?, leaf("q", &whole)?, leaf("k", &whole)?, leaf("v", &whole)?, leaf("d.output", &whole)?];
    let mut parameters = Vec::new();
    for (index, declared) in recording.parameters.iter().enumerate() {
        parameters.push((leaf(&declared.name, &declared.shape)?, initial_value(declared, seed, index)));
    }
    let [x, query, key, value, _] = leaves;
    let values: Vec<Value> = parameters.iter().map(|&(value, _)| value).collect();
    let replayed = replay(&mut graph, script, &recording, &Inputs { x, query, key, value }, &values)?;
    Ok(TracedFunction { shape, recording, replayed, graph, leaves, parameters })
}

/// A learned parameter as training begins with it, in numbers that f32 holds.
fn initial_value(declared: &ParameterDeclaration, seed: u64, index: usize) -> Tensor {
    let count = declared.shape.iter().product();
    let values = match declared.initial {
        Initial::Constant(value) => vec![f64::from(value as f32); count],
        Initial::Normal(deviation) => {
            let mut normal = Normal::new(generator(seed, Stream::Initialisation, 0, index as u64));
            (0..count).map(|_| f64::from((deviation * normal.next()) as f32)).collect()
        }
    };
    Tensor::real(declared.shape.clone(), values)
}

impl TracedFunction {
    /// The graph's value of a recording's tensor.
    pub fn tensor(&self, id: TensorId) -> Option<Value> {
        let id = id as usize;
        match id.checked_sub(4) {
            None => self.leaves.get(id).copied(),
            Some(call) => self.replayed.lines.get(call).map(|&(_, value)| value),
        }
    }

    /// x, query, key and value.
    pub fn arguments(&self) -> [Value; 4] {
        let [x, query, key, value, _] = self.leaves;
        [x, query, key, value]
    }

    /// Rewrites attention as training does.
    pub fn rewrite(&mut self) -> Vec<RewriteReport> {
        rewrite(&mut self.graph, Rewrites::Fused, &[])
    }

    /// Adds the gradients of the loss, the sum of the output times its given gradient, for some values.
    ///
    /// # Errors
    /// An op on the way that has no gradient.
    pub fn differentiate(&mut self, wanted: &[Value]) -> Result<Vec<Value>, CheckError> {
        Ok(differentiate_from(&mut self.graph, &[(self.replayed.output, self.leaves[4])], wanted)?)
    }

    /// Sets up what computes some values.
    ///
    /// # Errors
    /// A graph that cannot be lowered, a device that fails.
    pub async fn runner(&self, outputs: &[Value], on: &RunOn, pipelines: &mut Pipelines) -> Result<Runner, CheckError> {
        let mut leaves = self.leaves.to_vec();
        leaves.extend(self.parameters.iter().map(|&(value, _)| value));
        let evaluation = Evaluation::new(&self.graph, &leaves, outputs, on, pipelines).await?;
        let parameters = self.parameters.iter().map(|(_, tensor)| tensor.clone()).collect();
        Ok(Runner { shape: self.shape, evaluation, parameters })
    }
}

/// A function that is ready to be run on one set of inputs after the other.
pub struct Runner {
    shape: Shape,
    evaluation: Evaluation,
    parameters: Vec<Tensor>,
}

impl Runner {
    /// The values that the runner was made for.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn run(&self, inputs: &CaseInputs) -> Result<Vec<Tensor>, CheckError> {
        let whole = [self.shape.batch, self.shape.length, self.shape.width()];
        let leaves = inputs.tensors().map(|values| Tensor::real(whole, values.to_vec()));
        let tensors: Vec<&Tensor> = leaves.iter().chain(&self.parameters).collect();
        Ok(self.evaluation.run(&tensors).await?)
    }

    /// The numbers of the first of those values.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub async fn first(&self, inputs: &CaseInputs) -> Result<Vec<f64>, CheckError> {
        let results = self.run(inputs).await?;
        Ok(results.first().map(|tensor| tensor.values().to_vec()).unwrap_or_default())
    }
}
