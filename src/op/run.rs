//! Running an op that is a graph: tensors are checked and bound, gradients are added, outputs are named.

use std::collections::BTreeMap;

use super::traced::Traced;
use super::{NamedOp, NamedTensor, OpError, OpOptions, Tensors};
use crate::graph::ops::{constant, input};
use crate::graph::{Graph, TensorType, Value, differentiate_from, evaluate};
use crate::kernel::attention_shape::INVISIBLE_SCORE;
use crate::tape::{Contents, RunOn, stray_id};

/// Names every tensor that is missing, extra, empty or of the wrong kind.
fn check_tensors(op: &NamedOp, inputs: &Tensors) -> Result<(), OpError> {
    let mut faults = Vec::new();
    for tensor in op.tensors {
        let name = tensor.name();
        match (inputs.get(name).map(|given| (given, &given.contents)), tensor) {
            (None, NamedTensor::Real(_) | NamedTensor::Ids { .. }) => faults.push(format!("{name} is missing")),
            (None, _) => {}
            (Some((given, _)), _) if given.is_empty() => {
                faults.push(format!("{name} has shape {:?}, which holds nothing", given.shape))
            }
            (Some((_, Contents::Real(_))), NamedTensor::Ids { .. }) => {
                faults.push(format!("{name} holds numbers where integers are needed (I32, I64 or U32)"))
            }
            (Some((_, Contents::Words(_))), NamedTensor::Ids { .. }) => {}
            (Some((_, Contents::Words(_))), _) => {
                faults.push(format!("{name} holds integers where numbers are needed (F16, BF16, F32 or F64)"))
            }
            (Some((_, Contents::Real(_))), _) => {}
        }
    }
    for name in inputs.keys().filter(|name| op.tensors.iter().all(|tensor| tensor.name() != name.as_str())) {
        let known = op.tensors.iter().map(NamedTensor::name).collect::<Vec<_>>().join(", ");
        faults.push(format!("{} is none of its tensors ({known})", name.escape_debug()));
    }
    if faults.is_empty() { Ok(()) } else { Err(OpError::Tensors { op: op.name, faults: faults.join("; ") }) }
}

/// Refuses ids that lie outside of what they are counted in.
fn check_ids(op: &NamedOp, inputs: &Tensors) -> Result<(), OpError> {
    for tensor in op.tensors {
        let NamedTensor::Ids { name, table, axis, may_ignore } = *tensor else { continue };
        let (Some(ids), Some(table)) = (inputs.get(name), inputs.get(table)) else { continue };
        let (Contents::Words(words), Some(&bound)) = (&ids.contents, table.shape.get(axis)) else { continue };
        if let Some((index, found)) = stray_id(words, bound, may_ignore) {
            let rest = if may_ignore { ", or -1 where there is none" } else { " and not negative" };
            let wanted = format!("below {bound}{rest}");
            return Err(OpError::Element { op: op.name, name: name.into(), index, found, wanted });
        }
    }
    Ok(())
}

/// Refuses numbers that are not finite as they are stored.
pub(super) fn check_numbers(op: &NamedOp, inputs: &Tensors, stored_as_f32: bool) -> Result<(), OpError> {
    let stored = |value: f64| if stored_as_f32 { f64::from(value as f32) } else { value };
    let mut faults = Vec::new();
    for (name, tensor) in inputs {
        if let Some(index) = tensor.values().iter().position(|&value| !stored(value).is_finite()) {
            let (name, value) = (name.escape_debug(), tensor.values()[index]);
            let form = if value.is_finite() { " in f32 (--dtype f64 holds it)" } else { "" };
            faults.push(format!("{name} has {value:e} at element {index}, and must be finite{form}"));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(OpError::Tensors { op: op.name, faults: faults.join("; ") }) }
}

pub(super) async fn run_graph(
    op: &NamedOp,
    trace: fn(&mut Traced<'_>, &OpOptions) -> Result<(), OpError>,
    inputs: &Tensors,
    options: &OpOptions,
    on: &RunOn,
) -> Result<Tensors, OpError> {
    check_tensors(op, inputs)?;
    check_ids(op, inputs)?;
    let failed = |source| OpError::Graph { op: op.name, source };
    let mut graph = Graph::new();
    let mut leaves = BTreeMap::new();
    let mut bound = Vec::new();
    for tensor in op.tensors {
        if let Some(given) = inputs.get(tensor.name()) {
            let ty = match given.contents {
                Contents::Real(_) => TensorType::real(given.shape.clone()),
                Contents::Words(_) => TensorType::words(given.shape.clone()),
            };
            let leaf = input(&mut graph, tensor.name(), ty).map_err(failed)?;
            leaves.insert(tensor.name(), leaf);
            bound.push((leaf, given));
        }
    }
    let mut traced = Traced { op: op.name, graph: &mut graph, leaves, outputs: Vec::new(), backward: Vec::new() };
    trace(&mut traced, options)?;
    let Traced { leaves, mut outputs, backward, .. } = traced;
    for pass in backward {
        let seed = match pass.gradient {
            Some(name) => leaves[name],
            None => constant(&mut graph, &[1], 1.0).map_err(failed)?,
        };
        let (given, output) = (graph.shape(seed), graph.shape(pass.output));
        if given != output {
            let name = pass.gradient.unwrap_or("the loss's gradient");
            let faults = format!("{name} has shape {given:?} where its output has {output:?}");
            return Err(OpError::Tensors { op: op.name, faults });
        }
        let wanted: Vec<Value> = pass.wanted.iter().map(|(leaf, _)| leaves[leaf]).collect();
        let gradients = differentiate_from(&mut graph, &[(pass.output, seed)], &wanted).map_err(failed)?;
        outputs.extend(pass.wanted.iter().map(|&(_, name)| name).zip(gradients));
    }
    let values: Vec<Value> = outputs.iter().map(|&(_, value)| value).collect();
    // Leaves that no result needs are not bound: a gradient that was given for nothing would have no buffer to go to.
    let needed = graph.needed(&values);
    bound.retain(|(leaf, _)| needed[leaf.node]);
    let mut results = evaluate(&graph, &bound, &values, on).await?;
    for ((name, _), tensor) in outputs.iter().zip(&mut results) {
        // Where a query sees nothing, kernels write a number that no score has.
        if let ("lse", Contents::Real(values)) = (*name, &mut tensor.contents) {
            for value in values.iter_mut().filter(|value| **value <= INVISIBLE_SCORE) {
                *value = f64::NEG_INFINITY;
            }
        }
    }
    Ok(outputs.into_iter().map(|(name, _)| name.to_string()).zip(results).collect())
}
