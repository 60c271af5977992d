//! Every op on top of every other, and random graphs.

use headlight::graph::{Graph, Value};
use headlight::tape::Contents;

use super::directional;
use super::problem::Problem;
use super::stages::{Stage, stages};
use super::weave::Weaver;

/// Stages between a leaf and the end of a random graph.
const DEPTH: usize = 5;
/// Random graphs that are checked.
const DAGS: u64 = 300;

/// A random graph, its loss differentiated.
pub fn dag(seed: u64) -> Result<(Problem, Vec<Contents>), String> {
    let stages = stages();
    let mut weaver = Weaver::new(seed);
    for _ in 0..2 + weaver.below(2) {
        let rank = 1 + weaver.below(4);
        let shape = weaver.sizes(rank);
        weaver.leaf(&shape);
    }
    for _ in 0..5 + weaver.below(8) {
        let open = weaver.open(DEPTH);
        // The deeper of two, so that graphs do not stay flat.
        let x = open[weaver.below(open.len()).max(weaver.below(open.len()))];
        let stage = &stages[weaver.below(stages.len())];
        weaver.stage(x, &stage.add);
    }
    weaver.finish()
}

/// How many nodes read a value of the graph, by node.
pub fn uses(graph: &Graph, forward: usize) -> Vec<usize> {
    let mut uses = vec![0; forward];
    graph.nodes[..forward].iter().flat_map(|node| &node.inputs).for_each(|input| uses[input.node] += 1);
    uses
}

pub fn every_random_graph_has_its_gradient() -> Result<(), String> {
    let (mut fanned_out, mut shared) = (0, 0);
    for seed in 0..DAGS {
        let (problem, contents) = dag(seed)?;
        directional::check(&problem, &contents, seed)?;
        let uses = uses(&problem.graph, problem.forward);
        let is_leaf = |node: usize| problem.graph.nodes[node].inputs.is_empty();
        fanned_out += u64::from((0..problem.forward).any(|node| !is_leaf(node) && uses[node] > 1));
        shared += u64::from(problem.wanted.iter().any(|&leaf| uses[problem.leaves[leaf].node] > 1));
    }
    // The generator must not drift away from what it is for.
    match fanned_out.min(shared) * 2 >= DAGS {
        true => Ok(()),
        false => Err(format!("of {DAGS} graphs {fanned_out} use a value twice, {shared} a parameter")),
    }
}

/// A stage on top of `x`, through a function that bounds it where the result would be too large.
fn placed(weaver: &mut Weaver, x: Value, stages: &[Stage], stage: &Stage) -> Option<Value> {
    if let Some(placed) = weaver.stage(x, &stage.add) {
        return Some(placed);
    }
    let tanh = stages.iter().find(|stage| stage.name.starts_with("tanh"))?;
    let bounded = weaver.stage(x, &tanh.add)?;
    weaver.stage(bounded, &stage.add)
}

pub fn every_op_may_feed_every_other() -> Result<(), String> {
    let stages = stages();
    let mut faults = Vec::new();
    for (number, first) in stages.iter().enumerate() {
        for (other, second) in stages.iter().enumerate() {
            let seed = (1000 * number + other) as u64;
            let mut weaver = Weaver::new(seed);
            let x = weaver.leaf(&[2, 2, 1, 3]);
            let woven = placed(&mut weaver, x, &stages, first).and_then(|y| placed(&mut weaver, y, &stages, second));
            let checked = match woven {
                Some(_) => weaver
                    .finish()
                    .and_then(|(problem, contents)| directional::check(&problem, &contents, seed).map(drop)),
                None => Err("could not be built".into()),
            };
            faults.extend(checked.err().map(|fault| format!("{} feeds {}: {fault}", first.name, second.name)));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(format!("{} faults, first: {}", faults.len(), faults[0])) }
}
