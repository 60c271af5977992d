//! Attention by itself against PyTorch in float64, where its scores are so large that a sum with them rounds: output,
//! log-sum-exp and gradients, fused and naive.

use std::collections::HashMap;
use std::sync::Arc;

use headlight::gpu::{Gpu, Pipelines};
use headlight::graph::ops::{causal_mask, input, matmul, scale, softmax, transpose};
use headlight::graph::{
    Graph, GraphError, Reuse, Rewrites, TapeBuilder, TensorType, Value, differentiate_from, rewrite,
};
use headlight::tape::{Category, ElementKind, Executor};
use libtest_mimic::{Failed, Trial};

use super::{DEVICE_FACTOR, open};

/// A file, the prefix of one case's results in it, and whether that case is causal.
const CASES: &[(&str, &str, bool)] = &[
    ("sdpa_large_exact", "causal.", true),
    ("sdpa_large_exact", "full.", false),
    ("sdpa_large_negative_rows", "", true),
    ("sdpa_large_random_causal", "", true),
];

/// One trial for each case, executor and kind of attention.
pub fn trials(gpu: Option<&Arc<Gpu>>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (executor, on_gpu) in [("the CPU executor", false), ("this adapter", true)] {
        for (kind, rewrites) in [("naive", Rewrites::Naive), ("fused", Rewrites::Fused)] {
            for &(file, case, causal) in CASES {
                let device = gpu.cloned().filter(|_| on_gpu);
                let missing = on_gpu && device.is_none();
                let name = format!("{kind} attention of {case}{file} on {executor} equals PyTorch's");
                let run = move || match missing {
                    true => Err("there is no adapter".into()),
                    false => check(device.as_ref(), file, case, causal, rewrites),
                };
                trials.push(Trial::test(name, run).with_ignored_flag(missing));
            }
        }
    }
    trials
}

/// `softmax(mask(factor * query key^T)) value`
fn attention(
    graph: &mut Graph,
    [query, key, value]: [Value; 3],
    factor: f64,
    causal: bool,
) -> Result<Value, GraphError> {
    let transposed = transpose(graph, key)?;
    let products = matmul(graph, query, transposed)?;
    let mut scores = scale(graph, products, factor)?;
    if causal {
        scores = causal_mask(graph, scores)?;
    }
    let weights = softmax(graph, scores, 3)?;
    matmul(graph, weights, value)
}

fn check(gpu: Option<&Arc<Gpu>>, file: &str, case: &str, causal: bool, rewrites: Rewrites) -> Result<(), Failed> {
    let golden = open(&format!("{file}.safetensors"));
    let size = |name: &str| golden.number(name) as usize;
    let query_shape = [size("B"), size("H"), size("Tq"), size("D")];
    let key_shape = [size("B"), size("Hkv"), size("Tk"), size("D")];

    let mut graph = Graph::new();
    let given = [("q", query_shape), ("k", key_shape), ("v", key_shape), ("do", query_shape)];
    let mut inputs = Vec::new();
    for (name, shape) in given {
        inputs.push(input(&mut graph, name, TensorType::real(shape))?);
    }
    let output = attention(&mut graph, [inputs[0], inputs[1], inputs[2]], golden.number("scale"), causal)?;
    for report in rewrite(&mut graph, rewrites, &[]) {
        report.outcome?;
    }
    let gradients = differentiate_from(&mut graph, &[(output, inputs[3])], &inputs[..3])?;
    let mut outputs = vec![("o", output), ("dq", gradients[0]), ("dk", gradients[1]), ("dv", gradients[2])];
    let fused = rewrites == Rewrites::Fused;
    if fused {
        outputs.push(("lse", Value { node: output.node, output: 1 }));
    }

    let mut tape = TapeBuilder::new(gpu.map(|gpu| gpu.profile.clone()), Reuse::Pooled);
    let mut persistent = |name: &str, value: Value| {
        let elements = graph.ty(value).elements().unwrap_or(u64::MAX);
        tape.persistent(name, elements, ElementKind::Real, Category::Input)
    };
    let leaves: HashMap<_, _> =
        given.iter().zip(&inputs).map(|(&(name, _), &value)| (value, persistent(name, value))).collect();
    let roots: Vec<_> = outputs.iter().map(|&(name, value)| (value, Some(persistent(name, value)))).collect();
    tape.begin_segment("attention");
    tape.lower(&graph, &leaves, &roots)?;

    let read = pollster::block_on(async {
        let executor = Executor::new(gpu, tape.finish()?, &mut Pipelines::default()).await?;
        for (&(name, _), value) in given.iter().zip(&inputs) {
            executor.write(leaves[value], &golden.real(name))?;
        }
        executor.run(0)?;
        let mut read = Vec::new();
        for (&(name, _), &(_, buffer)) in outputs.iter().zip(&roots) {
            read.push((format!("{case}{name}"), executor.read(buffer.unwrap_or_default()).await?));
        }
        Ok::<_, Box<dyn std::error::Error>>(read)
    })
    .map_err(|error| error.to_string())?;

    let factor = if gpu.is_some() { DEVICE_FACTOR } else { 1.0 };
    // Other cases of the file, and what no op gives away.
    let hidden = |name: &str| ["delta", "p"].contains(&name) || (!fused && name == "lse");
    golden.compare(read, factor, |name| name.strip_prefix(case).is_none_or(hidden))
}
