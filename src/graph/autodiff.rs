//! Reverse-mode differentiation: the gradient of a loss as more nodes of the same graph.

use std::collections::HashMap;

use super::ops::{add, constant};
use super::{Graph, GraphError, NodeId, Place, Value};
use crate::tape::Category;

/// Adds the nodes that compute the gradient of `loss` (a single number) for each of `wanted`, and returns them in that
/// order. A value that the loss does not depend on has gradient zero.
///
/// # Errors
/// [`GraphError::LossShape`] where the loss is no single number, [`GraphError::NoGradient`] where an op on the way
/// cannot be differentiated.
pub fn differentiate(graph: &mut Graph, loss: Value, wanted: &[Value]) -> Result<Vec<Value>, GraphError> {
    if graph.ty(loss).elements() != Some(1) {
        return Err(GraphError::LossShape { shape: graph.ty(loss).to_string() });
    }
    let shape = graph.shape(loss).to_vec();
    let seed = added(graph, |graph| constant(graph, &shape, 1.0))?;
    differentiate_from(graph, &[(loss, seed)], wanted)
}

/// As [`differentiate`], from given gradients of several values.
///
/// # Errors
/// As [`differentiate`].
pub fn differentiate_from(
    graph: &mut Graph,
    seeds: &[(Value, Value)],
    wanted: &[Value],
) -> Result<Vec<Value>, GraphError> {
    added(graph, |graph| add_gradients(graph, seeds, wanted))
}

/// Lets `add` add nodes that nobody wrote.
fn added<T>(graph: &mut Graph, add: impl FnOnce(&mut Graph) -> Result<T, GraphError>) -> Result<T, GraphError> {
    let span = graph.span.take();
    let place = std::mem::replace(&mut graph.place, Place { backward: true, ..Place::default() });
    let result = add(graph);
    (graph.span, graph.place) = (span, place);
    result
}

fn add_gradients(graph: &mut Graph, seeds: &[(Value, Value)], wanted: &[Value]) -> Result<Vec<Value>, GraphError> {
    // Only nodes between what is wanted and the seeds need a gradient.
    let roots: Vec<Value> = seeds.iter().map(|&(value, _)| value).collect();
    let needed = graph.needed(&roots);
    let mut depends = vec![false; graph.nodes.len()];
    for value in wanted {
        depends[value.node] = true;
    }
    for node in 0..graph.nodes.len() {
        depends[node] = depends[node] || graph.nodes[node].inputs.iter().any(|input| depends[input.node]);
    }

    let mut gradients: HashMap<Value, Value> = HashMap::new();
    for &(value, seed) in seeds {
        accumulate(graph, &mut gradients, value, seed)?;
    }
    for node in (0..needed.len()).rev() {
        if !needed[node] || !depends[node] || graph.nodes[node].inputs.is_empty() {
            continue;
        }
        let upstream: Vec<Option<Value>> = (0..graph.nodes[node].outputs.len())
            .map(|output| gradients.get(&Value { node, output }).copied())
            .collect();
        if upstream.iter().all(Option::is_none) {
            continue;
        }
        let scope = graph.nodes[node].label.clone();
        graph.set_scope(format!("d.{scope}"));
        let op = graph.nodes[node].op.clone();
        let first = graph.nodes.len();
        let of_inputs = op.gradient(graph, node, &upstream)?;
        let inputs = graph.nodes[node].inputs.clone();
        book(graph, node, first, &of_inputs);
        for (input, gradient) in inputs.into_iter().zip(of_inputs) {
            if let Some(gradient) = gradient.filter(|_| depends[input.node]) {
                accumulate(graph, &mut gradients, input, gradient)?;
            }
        }
    }
    graph.set_scope("");
    wanted
        .iter()
        .map(|value| match gradients.get(value) {
            Some(&gradient) => Ok(gradient),
            None => {
                let shape = graph.shape(*value).to_vec();
                constant(graph, &shape, 0.0)
            }
        })
        .collect()
}

/// Books what a gradient rule added from `first` on: gradients of scores with the scores, and of logits with the logits,
/// and with them whatever else of their shape the rule needed on the way.
fn book(graph: &mut Graph, node: NodeId, first: NodeId, of_inputs: &[Option<Value>]) {
    let inputs = graph.nodes[node].inputs.clone();
    for (&input, gradient) in inputs.iter().zip(of_inputs) {
        let category = graph.nodes[input.node].category;
        if !is_booked(category) {
            continue;
        }
        let shape = graph.shape(input).to_vec();
        let own = graph.nodes[node].category == category;
        for (added, described) in graph.nodes.iter_mut().enumerate().skip(first) {
            let is_gradient = gradient.is_some_and(|gradient| gradient.node == added);
            let is_scores = described.outputs.iter().all(|output| output.shape == shape);
            if is_scores && (is_gradient || own) {
                described.category = category;
            }
        }
    }
}

/// Whether gradients are kept for what the value is kept for.
fn is_booked(category: Category) -> bool {
    matches!(category, Category::AttentionScores | Category::Logits)
}

fn accumulate(
    graph: &mut Graph,
    gradients: &mut HashMap<Value, Value>,
    value: Value,
    gradient: Value,
) -> Result<(), GraphError> {
    let total = match gradients.get(&value) {
        Some(&earlier) => {
            let total = add(graph, earlier, gradient)?;
            let category = graph.nodes[value.node].category;
            if is_booked(category) {
                graph.nodes[total.node].category = category;
            }
            total
        }
        None => gradient,
    };
    gradients.insert(value, total);
    Ok(())
}
