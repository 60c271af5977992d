//! Gradients that are wrong on purpose: the checks must notice them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headlight::graph::ops::{Input, scale};
use headlight::graph::{
    Domain, Graph, GraphError, Kinks, Lowering, LoweringError, NodeId, Op, Reuse, ShapeError, TensorType, Value,
};
use headlight::tape::Contents;

use super::case::{Case, weighted_sum};
use super::cases;
use super::compare;
use super::dags::{dag, uses};
use super::directional;
use super::problem::{Planned, Problem, equal_bits};

/// What is wrong with an op.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Its gradients are too large by this factor.
    Scaled(f64),
    /// It gives nothing to this input.
    Drops(usize),
    /// It states a domain that it does not have.
    States(Domain),
}

/// An op with a fault.
#[derive(Clone, Debug)]
struct Faulty {
    op: Arc<dyn Op>,
    fault: Fault,
}

impl Op for Faulty {
    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn infer(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, ShapeError> {
        self.op.infer(inputs)
    }

    fn domain(&self) -> Domain {
        if let Fault::States(domain) = self.fault { domain } else { self.op.domain() }
    }

    fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        upstream: &[Option<Value>],
    ) -> Result<Vec<Option<Value>>, GraphError> {
        let mut gradients = self.op.gradient(graph, node, upstream)?;
        match self.fault {
            Fault::Scaled(factor) => {
                for gradient in gradients.iter_mut().flatten() {
                    *gradient = scale(graph, *gradient, factor)?;
                }
            }
            Fault::Drops(input) => gradients[input] = None,
            Fault::States(_) => {}
        }
        Ok(gradients)
    }

    fn lower(&self, lowering: &mut Lowering<'_>, node: NodeId) -> Result<(), LoweringError> {
        self.op.lower(lowering, node)
    }
}

fn plant(graph: &mut Graph, node: NodeId, fault: Fault) {
    let op = graph.nodes[node].op.clone();
    graph.nodes[node].op = Arc::new(Faulty { op, fault });
}

/// A case whose ops of one sort have a fault; `None` where it has none of that sort.
fn faulty(case: &Case, faults: impl Fn(&dyn Op) -> Option<Fault>) -> Option<Problem> {
    let (mut graph, result) = case.trace().ok()?;
    let mut planted = false;
    for node in 0..graph.nodes.len() {
        if graph.op::<Input>(node).is_none()
            && let Some(fault) = faults(&*graph.nodes[node].op)
        {
            plant(&mut graph, node, fault);
            planted = true;
        }
    }
    let loss = weighted_sum(&mut graph, result).ok()?;
    planted.then(|| Problem::new(graph, loss).ok())?
}

pub fn a_gradient_of_any_op_that_is_one_percent_off_is_noticed() -> Result<(), String> {
    let mut noticed: BTreeMap<&'static str, bool> = BTreeMap::new();
    for case in cases::every().iter().filter(|case| case.near) {
        let (graph, _) = case.trace()?;
        let names: BTreeSet<&'static str> =
            graph.nodes.iter().filter(|node| !node.inputs.is_empty()).map(|node| node.op.name()).collect();
        for name in names {
            if noticed.get(name) != Some(&true) {
                let problem = faulty(case, |op| (op.name() == name).then_some(Fault::Scaled(1.01)));
                let fails = problem.is_some_and(|problem| compare::check(case, &problem).is_err());
                *noticed.entry(name).or_default() |= fails;
            }
        }
    }
    let missed: Vec<&str> = noticed.into_iter().filter(|&(_, noticed)| !noticed).map(|(name, _)| name).collect();
    // Those that are flat wherever they have a slope; 1% of nothing is nothing.
    match missed == FLAT {
        true => Ok(()),
        false => Err(format!("not noticed: {missed:?}, where {FLAT:?} have no slope")),
    }
}

/// Ops that are constant between their kinks, in the order of their names.
pub const FLAT: [&str; 7] = ["and", "equal", "less", "less_equal", "or", "sign", "step"];

/// A fault in a random graph that changes a gradient by more than a ten-thousandth of its size must be noticed.
fn noticed_in_graphs(fault: impl Fn(&Problem) -> Vec<(NodeId, Fault)>) -> Result<(), String> {
    let (mut planted, mut seen) = (0, 0);
    for seed in 0..60 {
        let (right, contents) = dag(seed)?;
        let expected = directional::check(&right, &contents, seed)?;
        for (node, fault) in fault(&right) {
            let mut graph = right.graph.clone();
            graph.nodes.truncate(right.forward);
            plant(&mut graph, node, fault);
            let wrong = Problem::new(graph, right.loss)?;
            planted += 1;
            match directional::check(&wrong, &contents, seed) {
                Err(_) => seen += 1,
                Ok(found) => {
                    for (found, expected) in found.iter().zip(&expected) {
                        let size = expected.iter().map(|value| value.abs()).sum::<f64>();
                        let change: f64 = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).sum();
                        if change > 1e-4 * size + 1e-5 {
                            return Err(format!("seed {seed}: {fault:?} of %{node} passes\n{}", right.print()));
                        }
                    }
                }
            }
        }
    }
    match planted >= 60 && seen * 2 >= planted {
        true => Ok(()),
        false => Err(format!("of {planted} faults {seen} were noticed")),
    }
}

pub fn one_percent_too_much_anywhere_in_a_graph_is_noticed() -> Result<(), String> {
    noticed_in_graphs(|problem| {
        let inner = |&node: &usize| !problem.graph.nodes[node].inputs.is_empty();
        (0..problem.forward).filter(inner).step_by(3).map(|node| (node, Fault::Scaled(1.01))).collect()
    })
}

pub fn a_term_that_is_missing_where_a_value_is_used_twice_is_noticed() -> Result<(), String> {
    noticed_in_graphs(|problem| {
        let uses = uses(&problem.graph, problem.forward);
        let mut faults = Vec::new();
        for (node, described) in problem.graph.nodes[..problem.forward].iter().enumerate() {
            for (input, value) in described.inputs.iter().enumerate().filter(|(_, value)| uses[value.node] > 1) {
                if problem.graph.nodes[value.node].label == "x" || !problem.graph.nodes[value.node].inputs.is_empty() {
                    faults.push((node, Fault::Drops(input)));
                }
            }
        }
        faults
    })
}

/// One case of each name is enough here.
fn case_of<'a>(cases: &'a [Case], start: &str) -> Result<&'a Case, String> {
    cases.iter().find(|case| case.name.starts_with(start)).ok_or_else(|| format!("there is no case {start}"))
}

pub fn a_domain_that_an_op_does_not_have_is_noticed() -> Result<(), String> {
    let cases = cases::every();
    for name in ["log", "sqrt", "reciprocal", "power 1.7", "power -1.3", "absolute", "relu", "sign", "step", "max [7]"]
    {
        claims_too_much(case_of(&cases, &format!("{name} "))?)?;
    }
    for name in ["where", "power -1 ", "divide", "minimum", "maximum", "less", "less_equal", "equal", "and", "or"] {
        claims_too_much(case_of(&cases, name)?)?;
    }
    Ok(())
}

pub fn other_bits_are_noticed() -> Result<(), String> {
    let (problem, mut contents) = dag(0)?;
    let (pooled, separate) = (Planned::new(&problem, Reuse::Pooled)?, Planned::new(&problem, Reuse::Never)?);
    pooled.write(&contents);
    // The last digit of every number that goes in.
    for contents in &mut contents {
        if let Contents::Real(values) = contents {
            values.iter_mut().for_each(|value| *value = f64::from_bits(value.to_bits() ^ 1));
        }
    }
    separate.write(&contents);
    match equal_bits(&pooled, &separate) {
        Err(_) => Ok(()),
        Ok(_) => Err("plans of two inputs have the same bits".into()),
    }
}

/// Smooth everywhere, says an op that is not.
fn claims_too_much(case: &Case) -> Result<(), String> {
    let problem = faulty(case, |op| (op.name() == case.op()).then_some(Fault::States(Domain::SMOOTH)));
    match problem.map(|problem| compare::check(case, &problem)) {
        Some(Err(_)) => Ok(()),
        _ => Err(format!("{} passes as smooth everywhere", case.name)),
    }
}

pub fn a_kink_that_is_none_is_noticed() -> Result<(), String> {
    let cases = cases::every();
    let square = case_of(&cases, "square 1.7 [7]")?;
    for kinks in [Kinks::AtZero, Kinks::AtZeroIn(0), Kinks::AtTies, Kinks::AtTiesAlong(0)] {
        let problem = faulty(square, |op| (op.name() == "square").then_some(Fault::States(Domain::with_kinks(kinks))));
        let problem = problem.ok_or("square is in no case of its name")?;
        if super::statements::is_kinked(square, &problem)? {
            return Err(format!("square has no kinks {kinks:?}"));
        }
    }
    Ok(())
}
