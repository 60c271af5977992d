//! Every op of the source is in a case.

use std::collections::BTreeSet;
use std::path::Path;

use headlight::graph::{Domain, Node};

use super::case::Case;
use super::cases;

/// The types that implement `Op`, by the text of the source.
fn ops_of_the_source(folder: &Path, found: &mut BTreeSet<String>) -> Result<(), String> {
    for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            ops_of_the_source(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
            let names = text.lines().filter(|line| line.starts_with("impl")).filter_map(|line| {
                let (_, name) = line.split_once("Op for ")?;
                name.split(|character: char| !character.is_alphanumeric() && character != '_').next()
            });
            found.extend(names.map(str::to_string));
        }
    }
    Ok(())
}

/// The type of a node's op, which its debug output begins with.
fn type_of(node: &Node) -> String {
    let text = format!("{:?}", node.op);
    text.split([' ', '{', '(']).next().unwrap_or_default().into()
}

/// The ops that no case puts into its graph, or that no gradient does where they exist only backwards.
fn missing(ops: &BTreeSet<String>, cases: &[Case]) -> Result<Vec<String>, String> {
    let mut met = BTreeSet::new();
    for case in cases.iter().filter(|case| case.near) {
        let problem = case.problem()?;
        for (number, node) in problem.graph.nodes.iter().enumerate() {
            let backward = matches!(node.op.domain(), Domain::NotDifferentiable { .. });
            if number < problem.forward || backward {
                met.insert(type_of(node));
            }
        }
    }
    Ok(ops.difference(&met).cloned().collect())
}

pub fn every_op_is_in_a_case() -> Result<(), String> {
    let mut ops = BTreeSet::new();
    ops_of_the_source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut ops)?;
    let mut cases = cases::every();
    let uncovered = missing(&ops, &cases)?;
    if !uncovered.is_empty() {
        return Err(format!("no case for {uncovered:?}"));
    }
    // An op that loses its cases is found.
    cases.retain(|case| case.op() != "layer_norm" && case.op() != "chain");
    match missing(&ops, &cases)?.as_slice() {
        [forward, backward] if forward == "LayerNorm" && backward == "LayerNormBackward" => Ok(()),
        other => Err(format!("without cases of layer normalisation {other:?} are missing")),
    }
}
