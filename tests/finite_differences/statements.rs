//! What ops state of their domain, taken at its word from the other side: where a kink is stated there is one, and
//! where an op is not defined it gives no number.

use std::collections::BTreeMap;

use headlight::graph::ops::{
    AttentionSpec, add, attention, binary, cross_entropy, embedding, input, layer_norm, multiply, permute, reshape,
    scaled_masked_softmax, select, slice, softmax,
};
use headlight::graph::{Domain, Graph, GraphError, Kinks, Reuse, TensorType, Value, differentiate, print_graph};
use headlight::kernel::elementwise::Binary;
use headlight::tape::Contents;

use super::case::{Case, real};
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

/// Outputs that nothing can be differentiated through.
const OUTPUTS: [(&str, Trace); 3] = [
    ("its log-sum-exp", |g, x, _| Ok(Value { output: 1, ..of_heads(g, x)? })),
    ("its statistics", |g, x, _| Ok(Value { output: 1, ..normalised(g, x)? })),
    ("anything but its mean", |g, x, ids| Ok(cross_entropy(g, x, ids)?.rows)),
];

/// Ops whose gradients are ops of their own.
const TWICE: [Trace; 6] = [
    |g, x, _| softmax(g, x, 1),
    |g, x, _| scaled_masked_softmax(g, x, 0.7, true),
    |g, x, _| of_heads(g, x),
    |g, x, _| normalised(g, x),
    embedding,
    |g, x, ids| Ok(cross_entropy(g, x, ids)?.mean),
];

fn of_heads(g: &mut Graph, x: Value) -> Result<Value, GraphError> {
    let x = reshape(g, x, &[1, 1, 2, 2])?;
    attention(g, x, x, x, AttentionSpec { scale: 1.0, causal: false })
}

fn normalised(g: &mut Graph, x: Value) -> Result<Value, GraphError> {
    let parameter = first(g, x, 2)?;
    layer_norm(g, x, parameter, parameter, 0.1)
}

/// What has no gradient says so, with the reason that its op states or that stands beside its output.
pub fn what_has_no_gradient_says_why() -> Result<(), String> {
    for (reason, trace) in OUTPUTS {
        let (message, _) = refusal(|g, x, ids| {
            let y = trace(g, x, ids)?;
            first(g, y, 1)
        })?;
        if !message.contains(reason) {
            return Err(format!("'{message}' does not say {reason}"));
        }
    }
    let mut refused = Vec::new();
    for &operation in Binary::ALL {
        if let Domain::NotDifferentiable { .. } = operation.row().domain {
            refused.push(refusal(|g, x, _| {
                let y = binary(g, x, x, operation)?;
                first(g, y, 1)
            })?);
        }
    }
    for trace in TWICE {
        refused.push(refusal(|g, x, ids| {
            let y = trace(g, x, ids)?;
            let square = multiply(g, y, y)?;
            let loss = first(g, square, 1)?;
            let gradient = differentiate(g, loss, &[x])?[0];
            first(g, gradient, 1)
        })?);
    }
    for (message, stated) in refused {
        if !stated.iter().any(|what| message.contains(what)) {
            return Err(format!("'{message}' is none of {stated:?}"));
        }
    }
    Ok(())
}

/// The first elements.
fn first(g: &mut Graph, x: Value, count: usize) -> Result<Value, GraphError> {
    let all = g.shape(x).iter().product();
    let flat = reshape(g, x, &[all])?;
    slice(g, flat, 0, 0, count)
}

/// Why a value of `x [2, 2]` and two ids has no gradient, and what the ops without one state.
fn refusal(
    trace: impl Fn(&mut Graph, Value, Value) -> Result<Value, GraphError>,
) -> Result<(String, Vec<&'static str>), String> {
    let mut graph = Graph::new();
    let x = input(&mut graph, "x", TensorType::real([2, 2])).map_err(|error| error.to_string())?;
    let ids = input(&mut graph, "ids", TensorType::words([2])).map_err(|error| error.to_string())?;
    let loss = trace(&mut graph, x, ids).map_err(|error| error.to_string())?;
    match differentiate(&mut graph, loss, &[x]) {
        Err(error @ GraphError::NoGradient { .. }) => {
            let stated = graph.nodes.iter().filter_map(|node| match node.op.domain() {
                Domain::NotDifferentiable { what } => Some(what),
                Domain::Differentiable { .. } => None,
            });
            Ok((error.to_string(), stated.collect()))
        }
        other => Err(format!("{other:?} where no gradient was expected of\n{}", print_graph(&graph, &[loss]))),
    }
}

/// The side that `where` does not take may be NaN or infinite, and so may the gradient of the side that it takes.
pub fn what_is_not_taken_reaches_neither_result_nor_gradient() -> Result<(), String> {
    let case = Case {
        name: "where".into(),
        leaves: real(&[&[2, 2], &[3, 2, 2], &[2]]),
        near: false,
        build: Box::new(|g, x| select(g, x[0], x[1], x[2])),
    };
    let problem = case.problem()?;
    let planned = Planned::new(&problem, Reuse::Pooled)?;
    let (taken, not) = (1.5, f64::NAN);
    let condition = vec![1.0, 0.0, -2.0, 0.0];
    // The second column is never taken from a, the first never from b.
    let a = [taken, not].repeat(6);
    let mut weights = vec![1.0; 12];
    let run = |weights: &[f64]| {
        let given = [condition.clone(), a.clone(), vec![f64::INFINITY, 0.5], weights.to_vec()];
        planned.write(&given.map(Contents::Real));
        planned.run()
    };
    let finite = run(&weights);
    let expected = [vec![6.0 * taken + 6.0 * 0.5], vec![0.0; 4], [1.0, 0.0].repeat(6), vec![0.0, 6.0]];
    if finite != expected {
        return Err(format!("{finite:?} where {expected:?} was expected"));
    }
    weights[0] = f64::INFINITY;
    let gradient_of_b = run(&weights).remove(3);
    match gradient_of_b == [0.0, 6.0] {
        true => Ok(()),
        false => Err(format!("an infinite gradient of a makes {gradient_of_b:?} of that of b")),
    }
}

/// Ids are read from the start of their buffer, so a view of them that lies elsewhere is refused.
pub fn ids_that_lie_in_no_order_are_refused() -> Result<(), String> {
    let views: [Trace; 3] = [
        |g, _, ids| slice(g, ids, 0, 1, 2),
        |g, _, ids| permute(g, ids, &[1, 0]),
        |g, _, ids| {
            let exchanged = permute(g, ids, &[1, 0])?;
            reshape(g, exchanged, &[8])
        },
    ];
    for view in views {
        let mut graph = Graph::new();
        let g = &mut graph;
        let table = input(g, "table", TensorType::real([5, 3])).map_err(|error| error.to_string())?;
        let ids = input(g, "ids", TensorType::words([2, 4])).map_err(|error| error.to_string())?;
        let ids = view(g, table, ids).map_err(|error| error.to_string())?;
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
