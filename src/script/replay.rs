//! A recording becomes a part of a graph.

use super::ops::{self, OpError};
use super::{Argument, Call, Recording, Script, ScriptError};
use crate::graph::{Graph, SourceSpan, Value};
use crate::tape::Category;

/// What a recorded function is called with, all `[B, T, d]`.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    pub x: Value,
    pub query: Value,
    pub key: Value,
    pub value: Value,
}

/// The function's part of a graph.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// `[B, T, d]`
    pub output: Value,
    /// What `observe` named, in order.
    pub observed: Vec<(String, Value)>,
    /// The tensor of each call, with the line that made it.
    pub lines: Vec<(u32, Value)>,
}

impl Replayed {
    /// The tensor of a name.
    pub fn observed(&self, name: &str) -> Option<Value> {
        self.observed.iter().find(|(observed, _)| observed == name).map(|&(_, value)| value)
    }
}

/// Adds a recording's ops to a graph. `parameters` are the graph's values for [`Recording::parameters`], in order.
///
/// # Errors
/// An op that refuses its inputs: of a recording made for other sizes, or a broken one.
pub fn replay(
    graph: &mut Graph,
    script: &Script,
    recording: &Recording,
    inputs: &Inputs,
    parameters: &[Value],
) -> Result<Replayed, ScriptError> {
    let mut tensors = vec![inputs.x, inputs.query, inputs.key, inputs.value];
    let mut lines = Vec::with_capacity(recording.calls.len());
    let length = graph.shape(inputs.query).get(1).copied().unwrap_or(1);
    let mut are_scores = vec![false; tensors.len()];
    for call in &recording.calls {
        let failed = |error: OpError| error.at(&script.file, call.line, call.column);
        graph.set_span(Some(SourceSpan { file: script.file.clone(), line: call.line, column: call.column }));
        let id = tensors.len();
        let declared = recording.parameters.iter().position(|parameter| parameter.tensor as usize == id);
        let value = match declared {
            Some(index) => *parameters.get(index).ok_or_else(|| failed(ops::malformed(&call.op)))?,
            None => {
                let scores = makes_scores(call, &are_scores);
                graph.set_category(scores.then_some(Category::AttentionScores));
                let first = graph.nodes.len();
                let value = apply(graph, call, &tensors).map_err(failed)?;
                let square = matches!(graph.shape(value), [.., rows, columns] if (*rows, *columns) == (length, length));
                if scores && !square {
                    graph.nodes[first..].iter_mut().for_each(|node| node.category = Category::Activation);
                }
                are_scores.push(scores && square);
                value
            }
        };
        are_scores.resize(tensors.len() + 1, false);
        lines.push((call.line, value));
        tensors.push(value);
    }
    graph.set_span(None);
    graph.set_category(None);
    let find = |id: u32| {
        let missing = || ScriptError::whole(&script.file, format!("its recording has no tensor {id}"));
        tensors.get(id as usize).copied().ok_or_else(missing)
    };
    let observed =
        recording.observed.iter().map(|(name, id)| Ok((name.clone(), find(*id)?))).collect::<Result<_, _>>()?;
    Ok(Replayed { output: find(recording.result)?, observed, lines })
}

/// Whether a call's result, if it is `[.., T, T]`, is one of scores or weights: a product of two that are none, or what is
/// computed from one that is. A product with one that is, is what attention returns.
fn makes_scores(call: &Call, are_scores: &[bool]) -> bool {
    let known = |id: &u32| are_scores.get(*id as usize).copied().unwrap_or(false);
    let from_scores = call.arguments.iter().any(|argument| match argument {
        Argument::Tensor(id) => known(id),
        Argument::Tensors(ids) => ids.iter().any(known),
        _ => false,
    });
    let is_product = matches!(call.op.as_str(), "bmm" | "matmul");
    is_product != from_scores
}

fn apply(graph: &mut Graph, call: &Call, tensors: &[Value]) -> Result<Value, OpError> {
    let op = ops::find(&call.op)?;
    let find = |id: &u32| tensors.get(*id as usize).copied();
    let arguments = call.arguments.iter().map(|argument| argument.look_up(find)).collect::<Option<Vec<_>>>();
    let arguments = arguments.ok_or_else(|| ops::malformed(&call.op))?;
    op.build(graph, &arguments)
}
