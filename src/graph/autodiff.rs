//! Reverse-mode differentiation: the gradient of a loss as more nodes of the same graph.

use std::collections::HashMap;

use super::ops::{add, constant};
use super::{Graph, GraphError, Value};

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
    let span = graph.span.take();
    let seed = constant(graph, &shape, 1.0);
    graph.span = span;
    differentiate_from(graph, &[(loss, seed?)], wanted)
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
    // What is added here was not written by anybody.
    let span = graph.span.take();
    let gradients = add_gradients(graph, seeds, wanted);
    graph.span = span;
    gradients
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
        let of_inputs = op.gradient(graph, node, &upstream)?;
        let inputs = graph.nodes[node].inputs.clone();
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

fn accumulate(
    graph: &mut Graph,
    gradients: &mut HashMap<Value, Value>,
    value: Value,
    gradient: Value,
) -> Result<(), GraphError> {
    let total = match gradients.get(&value) {
        Some(&earlier) => add(graph, earlier, gradient)?,
        None => gradient,
    };
    gradients.insert(value, total);
    Ok(())
}
