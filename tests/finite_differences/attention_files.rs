//! Attention files: the gradients of x, q, k, v and of every learned parameter, as written and after each rewrite.

use std::collections::{BTreeMap, BTreeSet};

use headlight::graph::{Reuse, Rewrites, rewrite};
use headlight::tape::{Contents, normal};

use super::attention_functions::{Built, Function, SMALL, Sizes, every};
use super::case::weighted_sum;
use super::compare::{Difference, compare};
use super::problem::{Planned, Problem, equal_bits};

/// Files that a rewrite must recognise, of those that come with the program.
const FUSED: [&str; 5] =
    ["reference.star", "no_projection.star", "shared_qk.star", "no_scale.star", "scale_too_small.star"];

/// The loss made of a function's output, differentiated, with the contents of its leaves.
fn problem(built: Built) -> Result<(Problem, Vec<Contents>), String> {
    let Built { mut graph, leaves, output } = built;
    let loss = weighted_sum(&mut graph, output).map_err(|error| error.to_string())?;
    let problem = Problem::new(graph, loss)?;
    let contents = problem.leaves.iter().map(|&value| match leaves.iter().find(|leaf| leaf.value == value) {
        Some(leaf) => Contents::Real(leaf.contents.clone()),
        None => {
            let count = problem.graph.shape(value).iter().product();
            Contents::Real(normal(9, 0, count, 1.0).into_iter().map(f64::from).collect())
        }
    });
    let contents = contents.collect();
    Ok((problem, contents))
}

/// Every function with every size that it accepts.
fn each(mut check: impl FnMut(&Function, &Sizes) -> Result<(), String>) -> Result<(), String> {
    for function in every() {
        for sizes in SMALL.iter().filter(|sizes| function.accepts(sizes)) {
            check(&function, sizes).map_err(|fault| format!("{} at {sizes:?}: {fault}", function.script.file))?;
        }
    }
    Ok(())
}

pub fn gradients_of_every_attention_file_equal_central_differences() -> Result<(), String> {
    // By file and leaf, the largest slope in any of the sizes: a difference of nothing would agree with anything.
    let mut slopes: BTreeMap<(String, String), f64> = BTreeMap::new();
    each(|function, sizes| {
        let built = function.build(sizes)?;
        let read = built.graph.needed(&[built.output]);
        let names: Vec<(String, bool)> =
            built.leaves.iter().map(|leaf| (leaf.name.clone(), read[leaf.value.node])).collect();
        let (problem, contents) = problem(built)?;
        let (pooled, separate) = (Planned::new(&problem, Reuse::Pooled)?, Planned::new(&problem, Reuse::Never)?);
        pooled.write(&contents);
        separate.write(&contents);
        let gradients = equal_bits(&pooled, &separate)?.split_off(1);
        compare(&problem, &pooled, &contents, &gradients, Difference::Central)?;
        if gradients.len() != names.len() {
            return Err(format!("{} gradients of {names:?}", gradients.len()));
        }
        for ((name, _), gradient) in names.into_iter().zip(gradients).filter(|((_, read), _)| *read) {
            let slope = slopes.entry((function.script.file.clone(), name)).or_default();
            *slope = gradient.iter().fold(*slope, |largest, element| largest.max(element.abs()));
        }
        Ok(())
    })?;
    let flat: Vec<_> = slopes.iter().filter(|&(_, &slope)| slope < 1e-3).map(|(leaf, _)| leaf).collect();
    if flat.is_empty() { Ok(()) } else { Err(format!("the output reads {flat:?} and has no slope there")) }
}

pub fn fused_and_naive_gradients_of_every_attention_file_agree() -> Result<(), String> {
    let mut recognised = BTreeSet::new();
    each(|function, sizes| {
        let run = |rewrites: Option<Rewrites>| -> Result<(Vec<Vec<f64>>, bool), String> {
            let mut built = function.build(sizes)?;
            let reports = rewrites.map_or_else(Vec::new, |rewrites| rewrite(&mut built.graph, rewrites, &[]));
            let (problem, contents) = problem(built)?;
            let planned = Planned::new(&problem, Reuse::Pooled)?;
            planned.write(&contents);
            Ok((planned.run(), reports.iter().any(|report| report.outcome.is_ok())))
        };
        let (written, _) = run(None)?;
        for rewrites in [Rewrites::Naive, Rewrites::Fused] {
            let (found, rewritten) = run(Some(rewrites))?;
            for (result, (found, expected)) in found.iter().zip(&written).enumerate() {
                let largest = expected.iter().fold(1.0f64, |largest, element| largest.max(element.abs()));
                for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
                    // Written so that NaN fails.
                    let close = (found - expected).abs() <= 1e-12 * largest;
                    if !close {
                        return Err(format!("{rewrites:?}: result {result}[{index}]: {found} against {expected}"));
                    }
                }
            }
            if rewritten && rewrites == Rewrites::Fused {
                recognised.insert(function.script.file.clone());
            }
        }
        Ok(())
    })?;
    let missing: Vec<_> = FUSED.iter().filter(|&&file| !recognised.contains(file)).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?} were not fused")) }
}

pub fn every_op_of_scripts_is_in_an_attention_file() -> Result<(), String> {
    let mut called = BTreeSet::new();
    each(|function, sizes| {
        let calls = function.trace(sizes)?.into_iter().flat_map(|recording| recording.calls);
        called.extend(calls.map(|call| call.op));
        Ok(())
    })?;
    let missing: Vec<&str> =
        headlight::script::ops::table().map(|op| op.name).filter(|&name| !called.contains(name)).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("no file calls {missing:?}")) }
}
