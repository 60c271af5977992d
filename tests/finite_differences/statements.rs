//! What ops state of their domain, taken at its word from the other side: where a kink is stated there is one, and
//! where an op is not defined it gives no number.

use std::collections::BTreeMap;

use headlight::graph::ops::{
    AttentionSpec, add, attention, binary, cross_entropy, embedding, input, layer_norm, permute, reshape, slice,
};
use headlight::graph::{Domain, Graph, GraphError, Kinks, Reuse, TensorType, Value, differentiate};
use headlight::kernel::elementwise::Binary;

use super::case::Case;
use super::cases;
use super::compare::{Difference, compare, contents};
use super::draw::Draw;
use super::problem::{Planned, Problem};

/// The statements of the ops that a case has, but for those that ask for nothing.
fn statements(problem: &Problem, case: &Case) -> Option<Domain> {
    let nodes = problem.graph.nodes[..problem.forward].iter();
    let mut stated = nodes.filter(|node| node.op.name() == case.op()).map(|node| node.op.domain());
    stated.next().filter(|&domain| domain != Domain::SMOOTH)
}

/// Whether a gradient differs from its difference on or near the kinks that the ops of a case state.
pub fn is_kinked(case: &Case, problem: &Problem) -> Result<bool, String> {
    let planned = Planned::new(problem, Reuse::Pooled)?;
    for (kind, difference) in [(Draw::NearKinks, Difference::Central), (Draw::OnKinks, Difference::Forward)] {
        let Some(contents) = contents(case, problem, kind) else { return Ok(false) };
        planned.write(&contents);
        let gradients = planned.run().split_off(1);
        if compare(problem, &planned, &contents, &gradients, difference).is_err() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the loss or a gradient is no number outside of what the ops of a case state to be defined.
fn fails_outside(case: &Case, problem: &Problem) -> Result<bool, String> {
    let Some(contents) = contents(case, problem, Draw::Outside) else { return Ok(false) };
    let planned = Planned::new(problem, Reuse::Pooled)?;
    planned.write(&contents);
    Ok(planned.run().iter().flatten().any(|value| !value.is_finite()))
}

pub fn a_stated_edge_is_one() -> Result<(), String> {
    // By op and statement: whether some case bears it out.
    let mut kinks: BTreeMap<String, bool> = BTreeMap::new();
    let mut edges: BTreeMap<String, bool> = BTreeMap::new();
    for case in cases::every().iter().filter(|case| case.near) {
        let problem = case.problem()?;
        let Some(domain) = statements(&problem, case) else { continue };
        let key = format!("{}: {domain}", case.op());
        if domain.kinks() != Kinks::Nowhere {
            *kinks.entry(key).or_default() |= is_kinked(case, &problem)?;
        } else if contents(case, &problem, Draw::Outside).is_some() {
            *edges.entry(key).or_default() |= fails_outside(case, &problem)?;
        }
    }
    let unfounded: Vec<&String> =
        kinks.iter().chain(&edges).filter(|&(_, &borne_out)| !borne_out).map(|(key, _)| key).collect();
    match unfounded.is_empty() && kinks.len() > 10 && edges.len() > 5 {
        true => Ok(()),
        false => Err(format!("no case bears out {unfounded:?}, of {} kinks and {} edges", kinks.len(), edges.len())),
    }
}

type Trace = fn(&mut Graph, Value, Value) -> Result<Value, GraphError>;

/// What has no gradient says so with the reason that its op states, or that stands beside an output.
pub fn what_has_no_gradient_says_why() -> Result<(), String> {
    let second: fn(&Graph, Value) -> Value = |_, value| Value { output: 1, ..value };
    let outputs: [(&str, Trace); 3] = [
        ("its log-sum-exp", |g, x, _| {
            let x = reshape(g, x, &[1, 1, 2, 2])?;
            attention(g, x, x, x, AttentionSpec { scale: 1.0, causal: false })
        }),
        ("its statistics", |g, x, _| {
            let parameter = slice(g, x, 0, 0, 1)?;
            let parameter = reshape(g, parameter, &[2])?;
            layer_norm(g, x, parameter, parameter, 0.1)
        }),
        ("anything but its mean", |g, x, ids| Ok(cross_entropy(g, x, ids)?.mean)),
    ];
    let mut found = Vec::new();
    for (reason, trace) in outputs {
        found.push((
            reason.to_string(),
            refusal(|g, x, ids| {
                let value = trace(g, x, ids)?;
                let value = second(g, value);
                let count = g.shape(value).iter().product();
                let flat = reshape(g, value, &[count])?;
                slice(g, flat, 0, 0, 1)
            })?,
        ));
    }
    for operation in Binary::ALL {
        if let Domain::NotDifferentiable { what } = operation.row().domain {
            found.push((
                what.into(),
                refusal(|g, x, _| {
                    let y = binary(g, x, x, *operation)?;
                    first(g, y)
                })?,
            ));
        }
    }
    // An op that exists only backwards: the gradient of each that has one, differentiated again.
    let forward: [Trace; 4] = [
        |g, x, _| headlight::graph::ops::softmax(g, x, 1),
        |g, x, _| headlight::graph::ops::scaled_masked_softmax(g, x, 0.7, true),
        |g, x, ids| embedding(g, x, ids),
        |g, x, ids| Ok(cross_entropy(g, x, ids)?.mean),
    ];
    for trace in forward {
        let again = refusal(|g, x, ids| {
            let y = trace(g, x, ids)?;
            let y = headlight::graph::ops::multiply(g, y, y)?;
            let loss = first(g, y)?;
            let gradient = differentiate(g, loss, &[x])?[0];
            first(g, gradient)
        })?;
        found.push(("its inputs: second derivatives are not built".into(), again));
    }
    for (reason, message) in found {
        if !message.contains(&reason) {
            return Err(format!("'{message}' does not say {reason}"));
        }
    }
    Ok(())
}

/// The first element.
fn first(g: &mut Graph, x: Value) -> Result<Value, GraphError> {
    let count = g.shape(x).iter().product();
    let flat = reshape(g, x, &[count])?;
    slice(g, flat, 0, 0, 1)
}

/// Why a value of `x [2, 2]` and two ids has no gradient.
fn refusal(trace: impl Fn(&mut Graph, Value, Value) -> Result<Value, GraphError>) -> Result<String, String> {
    let mut graph = Graph::new();
    let x = input(&mut graph, "x", TensorType::real([2, 2])).map_err(|error| error.to_string())?;
    let ids = input(&mut graph, "ids", TensorType::words([2])).map_err(|error| error.to_string())?;
    let loss = trace(&mut graph, x, ids).map_err(|error| error.to_string())?;
    match differentiate(&mut graph, loss, &[x]) {
        Err(error @ GraphError::NoGradient { .. }) => Ok(error.to_string()),
        other => Err(format!("{other:?} where no gradient was expected of\n{}", loss.node)),
    }
}

/// Ids are read from the start of their buffer, so a view of them that lies elsewhere is refused.
pub fn ids_that_lie_in_no_order_are_refused() -> Result<(), String> {
    let views: [fn(&mut Graph, Value) -> Result<Value, GraphError>; 2] =
        [|g, ids| slice(g, ids, 0, 1, 2), |g, ids| permute(g, ids, &[1, 0])];
    for view in views {
        let mut graph = Graph::new();
        let g = &mut graph;
        let table = input(g, "table", TensorType::real([5, 3])).map_err(|error| error.to_string())?;
        let ids = input(g, "ids", TensorType::words([2, 4])).map_err(|error| error.to_string())?;
        let ids = view(g, ids).map_err(|error| error.to_string())?;
        let rows = embedding(g, table, ids).map_err(|error| error.to_string())?;
        let rows = add(g, rows, rows).map_err(|error| error.to_string())?;
        let loss = super::case::weighted_sum(g, rows).map_err(|error| error.to_string())?;
        match Problem::new(graph, loss)?.plan(None, Reuse::Pooled) {
            Err(message) if message.contains("token ids must be handed in whole") => {}
            other => return Err(format!("not refused: {:?}", other.err())),
        }
    }
    let mut graph = Graph::new();
    let logits = input(&mut graph, "logits", TensorType::real([3, 5])).map_err(|error| error.to_string())?;
    let targets = input(&mut graph, "targets", TensorType::real([3])).map_err(|error| error.to_string())?;
    match cross_entropy(&mut graph, logits, targets) {
        Err(error) if error.to_string().contains("needs token ids as targets, got numbers") => Ok(()),
        other => Err(format!("targets that are numbers: {other:?}")),
    }
}
