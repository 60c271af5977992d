//! Every op of the source is in a case.

use std::collections::BTreeSet;
use std::path::Path;

use headlight::graph::{Domain, Node};

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

pub fn every_op_is_in_a_case() -> Result<(), String> {
    let (mut forward, mut backward) = (BTreeSet::new(), BTreeSet::new());
    for case in cases::every().iter().filter(|case| case.near) {
        let problem = case.problem()?;
        for (number, node) in problem.graph.nodes.iter().enumerate() {
            let differentiable = matches!(node.op.domain(), Domain::Differentiable { .. });
            if number < problem.forward {
                forward.insert(type_of(node));
            } else if !differentiable {
                backward.insert(type_of(node));
            }
        }
    }
    let mut ops = BTreeSet::new();
    ops_of_the_source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut ops)?;
    let missing: Vec<&String> = ops.iter().filter(|&op| !forward.contains(op) && !backward.contains(op)).collect();
    match missing.is_empty() && ops.len() > 15 {
        true => Ok(()),
        false => Err(format!("no case for {missing:?}, of {} ops", ops.len())),
    }
}
