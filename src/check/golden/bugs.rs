//! Attention and the mistakes that people make in it: the files of `assets/attention` against PyTorch's numbers.

use std::collections::BTreeSet;

use super::{Findings, Found, GoldenError, GoldenFile, Runs};
use crate::graph::ops::{input, permute, reshape};
use crate::graph::{Graph, GraphError, Rewrites, TensorType, Value, evaluate, rewrite};
use crate::script::{Argument, Inputs, Recording, ScriptError, TraceHere, TraceSizes, Tracer, builtin, replay};
use crate::tape::Tensor;

/// The names in the reference files, and the files that compute the same.
const FILES: [(&str, &str); 6] = [
    ("correct", "reference"),
    ("mask_after_softmax", "bugs/mask_after_softmax"),
    ("no_transpose", "bugs/missing_transpose"),
    ("no_scale", "bugs/no_scale"),
    ("scale_inv_d2", "bugs/scale_too_small"),
    ("wrong_axis", "bugs/wrong_axis"),
];

/// A recording with every query seeing every key.
fn without_mask(mut recording: Recording) -> Recording {
    for call in recording.calls.iter_mut().filter(|call| call.op == "causal_mask") {
        let scores = call.arguments.swap_remove(0);
        call.op = "observe".into();
        call.arguments = vec![Argument::Text("unmasked".into()), scores];
    }
    recording
}

/// A function on `[B, H, T, D]` queries, keys and values: output and weights.
struct Attention {
    graph: Graph,
    leaves: [Value; 3],
    output: Value,
    weights: Option<Value>,
}

#[derive(Debug, thiserror::Error)]
enum BugError {
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Script(#[from] ScriptError),
    #[error("there is no {0}.star")]
    NoFile(&'static str),
}

fn attention(file: &'static str, shape: [usize; 4], masked: bool) -> Result<Attention, BugError> {
    let [batch, heads, length, head_width] = shape;
    let width = heads * head_width;
    let script = builtin(file).ok_or(BugError::NoFile(file))?.script();
    let sizes = TraceSizes { batch, length, width, heads, context_length: length, layers: 1 };
    let mut graph = Graph::new();
    let g = &mut graph;
    let mut leaves = [Value { node: 0, output: 0 }; 3];
    let mut joined = leaves;
    for (index, name) in ["q", "k", "v"].into_iter().enumerate() {
        leaves[index] = input(g, name, TensorType::real(shape))?;
        let together = permute(g, leaves[index], &[0, 2, 1, 3])?;
        joined[index] = reshape(g, together, &[batch, length, width])?;
    }
    let [query, key, value] = joined;
    let inputs = Inputs { x: query, query, key, value };
    let recording = TraceHere.trace(&script, &sizes)?.swap_remove(0);
    let recording = if masked { recording } else { without_mask(recording) };
    let replayed = replay(g, &script, &recording, &inputs, &[])?;
    let apart = reshape(g, replayed.output, &[batch, length, heads, head_width])?;
    let output = permute(g, apart, &[0, 2, 1, 3])?;
    let weights = replayed.observed("weights");
    Ok(Attention { graph, leaves, output, weights })
}

pub(super) async fn compute(file: &mut GoldenFile, runs: &Runs) -> Result<Findings, GoldenError> {
    let mut findings = Findings::default();
    let path = file.path.clone();
    let malformed = |reason: String| GoldenError::Malformed { path: path.clone(), reason };
    let tensors = ["q", "k", "v"].map(|name| file.input(name));
    let [query, key, value] = tensors;
    let tensors: [Tensor; 3] = [query?, key?, value?];
    findings.used.extend(["q", "k", "v"].map(String::from));
    let shape: [usize; 4] = (tensors[0].shape.clone().try_into())
        .map_err(|shape| malformed(format!("q has shape {shape:?} where [B, H, T, D] is needed")))?;
    // `causal.o.correct`, `full.p.wrong_axis`, ..
    let wanted: BTreeSet<(String, String)> = file
        .outputs
        .keys()
        .filter_map(|name| {
            let (case, rest) = name.split_once('.')?;
            let (_, variant) = rest.split_once('.')?;
            Some((case.to_string(), variant.to_string()))
        })
        .collect();
    for (case, variant) in wanted {
        let failed = |reason: String| GoldenError::Failed { path: path.clone(), case: variant.clone(), reason };
        let Some((_, star)) = FILES.iter().find(|(name, _)| *name == variant) else {
            findings.missing_ops.push(format!("attention_bugs ({variant})"));
            continue;
        };
        for (form, rewrites) in [("fused", Rewrites::Fused), ("naive", Rewrites::Naive)] {
            let mut built = attention(star, shape, case == "causal").map_err(|error| failed(error.to_string()))?;
            let with_weights = file.outputs.contains_key(&format!("{case}.p.{variant}"));
            let weights = built.weights.filter(|_| with_weights);
            rewrite(&mut built.graph, rewrites, weights.as_slice());
            let bound: Vec<(Value, &Tensor)> = built.leaves.iter().copied().zip(&tensors).collect();
            let values: Vec<Value> = std::iter::once(built.output).chain(weights).collect();
            for (run, on) in &runs.0 {
                let results = evaluate(&built.graph, &bound, &values, on).await;
                let results = results.map_err(|error| failed(error.to_string()))?;
                let names = ["o", "p"].map(|kind| format!("{case}.{kind}.{variant}"));
                findings.found.push(Found {
                    run: format!("{run} {form}"),
                    factor: Runs::factor(on),
                    case: case.clone(),
                    outputs: names.into_iter().zip(results).collect(),
                });
            }
        }
    }
    Ok(findings)
}
