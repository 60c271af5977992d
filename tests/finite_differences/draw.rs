//! Inputs, drawn from what ops state of their domain and from nothing else.

use headlight::graph::ops::{Concat, Permute, Reshape, Slice};
use headlight::graph::{Defined, Domain, Dtype, Graph, Kinks, Value};
use headlight::tape::{Contents, normal, words};

use super::problem::{Problem, WEIGHTS};

/// The step of a finite difference.
pub const STEP: f64 = 1e-5;
/// Close enough to a kink for a step to cross it, off its middle so that no symmetry hides it.
const NUDGE: f64 = 0.3 * STEP;

/// Which inputs to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Anything that the ops state to be well within their domain.
    Within,
    /// Elements that differ by less than a step, where no op states a kink at ties.
    NearlyEqual,
    /// Elements that are equal, where no op states a kink at ties.
    Equal,
    /// Elements that are 0 but for less than a step, where no op states a kink.
    NearlyZero,
    /// Operands of which one, the other, both or none are 0, where no op states a kink.
    SomeZero,
    /// On every kink that is stated.
    OnKinks,
    /// Within a step of every kink that is stated.
    NearKinks,
    /// Outside of what is stated to be defined.
    Outside,
}

/// An op that reads a value, as its input of that number.
struct Reader {
    domain: Domain,
    input: usize,
    node: usize,
}

impl Reader {
    /// The kinks that the value itself meets there.
    fn kinks(&self) -> Kinks {
        match self.domain.kinks() {
            Kinks::AtZeroIn(input) if input == self.input => Kinks::AtZero,
            Kinks::AtZeroIn(_) => Kinks::Nowhere,
            kinks => kinks,
        }
    }
}

/// The ops that compute with the elements of a value; views of it are followed to theirs.
fn readers(graph: &Graph, forward: usize, value: Value) -> Vec<Reader> {
    let mut found = Vec::new();
    for node in value.node + 1..forward {
        for (input, _) in graph.nodes[node].inputs.iter().enumerate().filter(|&(_, &input)| input == value) {
            let moves = graph.op::<Reshape>(node).is_some()
                || graph.op::<Permute>(node).is_some()
                || graph.op::<Slice>(node).is_some()
                || graph.op::<Concat>(node).is_some();
            match moves {
                true => found.extend(readers(graph, forward, Value { node, output: 0 })),
                false => found.push(Reader { domain: graph.nodes[node].op.domain(), input, node }),
            }
        }
    }
    found
}

/// The contents of every leaf; `None` where the statements leave nothing of this kind to draw.
pub fn draw(problem: &Problem, kind: Draw) -> Option<Vec<Contents>> {
    let graph = &problem.graph;
    let readers: Vec<Vec<Reader>> = problem.leaves.iter().map(|&leaf| readers(graph, problem.forward, leaf)).collect();
    let all = || readers.iter().flatten();
    let possible = match kind {
        Draw::Within => true,
        Draw::NearlyEqual | Draw::Equal => all().all(|reader| matches!(reader.kinks(), Kinks::Nowhere | Kinks::AtZero)),
        Draw::NearlyZero | Draw::SomeZero => all().all(|reader| {
            reader.kinks() == Kinks::Nowhere
                && !matches!(reader.domain.defined(reader.input), Some(Defined::Positive | Defined::NonZero))
        }),
        Draw::OnKinks | Draw::NearKinks => all().any(|reader| reader.kinks() != Kinks::Nowhere),
        Draw::Outside => all()
            .any(|reader| matches!(reader.domain.defined(reader.input), Some(Defined::Positive | Defined::NonZero))),
    };
    possible.then(|| {
        let leaf = |(index, readers): (usize, &Vec<Reader>)| {
            let value = problem.leaves[index];
            let count = graph.shape(value).iter().product();
            if graph.ty(value).dtype == Dtype::Words {
                return Contents::Words(tokens(graph, readers, index, count));
            }
            if graph.nodes[value.node].label == WEIGHTS {
                return Contents::Real(wide(normal(9, index as u64, count, 1.0)));
            }
            Contents::Real(numbers(kind, readers, index, count))
        };
        readers.iter().enumerate().map(leaf).collect()
    })
}

fn wide(values: Vec<f32>) -> Vec<f64> {
    values.into_iter().map(f64::from).collect()
}

/// Ids below the vocabulary of the op that reads them; some targets are ignored.
fn tokens(graph: &Graph, readers: &[Reader], index: usize, count: usize) -> Vec<u32> {
    let reader = readers.first().expect("some op reads the words");
    let shape = graph.shape(graph.nodes[reader.node].inputs[0]);
    let defined = reader.domain.defined(reader.input);
    let vocabulary = match defined {
        Some(Defined::Tokens) => shape[0],
        Some(Defined::Targets) => shape[shape.len() - 1],
        other => panic!("words go to an input that is defined for {other:?}"),
    };
    let mut ids = words(6, index as u64, count, vocabulary as u32);
    if defined == Some(Defined::Targets) {
        ids.iter_mut().skip(1).step_by(3).for_each(|id| *id = u32::MAX);
    }
    ids
}

fn numbers(kind: Draw, readers: &[Reader], index: usize, count: usize) -> Vec<f64> {
    let mut values = wide(normal(5, index as u64, count, 1.0));
    let nudges: Vec<f64> = values.iter().map(|&value| if value > 0.0 { NUDGE } else { 0.0 }).collect();
    let around = |middle: f64| nudges.iter().map(|nudge| middle + nudge).collect();
    match kind {
        Draw::Within => readers.iter().for_each(|reader| move_within(&mut values, reader)),
        Draw::NearlyEqual => values = around(0.8),
        Draw::Equal => values.fill(0.8),
        Draw::NearlyZero => values = around(0.0),
        Draw::SomeZero => {
            let input = readers.first().map_or(0, |reader| reader.input);
            values = (0..count).map(|at| if is_zero(at, input) { 0.0 } else { 0.7 }).collect();
        }
        Draw::OnKinks | Draw::NearKinks => {
            let nudge = |at: usize| if kind == Draw::NearKinks { nudges[at] } else { 0.0 };
            for reader in readers {
                for (at, value) in values.iter_mut().enumerate() {
                    match reader.kinks() {
                        Kinks::Nowhere | Kinks::AtZeroIn(_) => {}
                        Kinks::AtZero if is_zero(at, reader.input) => *value = nudge(at),
                        Kinks::AtZero => *value = 0.7,
                        Kinks::AtTies | Kinks::AtTiesAlong(_) => *value = 0.8 + nudge(at),
                    }
                }
            }
        }
        Draw::Outside => {
            for reader in readers {
                match reader.domain.defined(reader.input) {
                    Some(Defined::Positive) => values.fill(-0.7),
                    Some(Defined::NonZero) => values.fill(0.0),
                    _ => {}
                }
            }
        }
    }
    values
}

/// Which elements of an op's operands are 0, so that every combination of zero and non-zero operands is met.
fn is_zero(element: usize, input: usize) -> bool {
    (element >> input) & 1 == 0
}

/// Moves numbers to where an op is defined, and away from its kinks.
fn move_within(values: &mut [f64], reader: &Reader) {
    for value in values.iter_mut() {
        match reader.domain.defined(reader.input) {
            Some(Defined::Positive) => *value = 0.3 + value.abs(),
            Some(Defined::NonZero) => *value += 0.3f64.copysign(*value),
            _ => {}
        }
    }
    match reader.kinks() {
        Kinks::Nowhere | Kinks::AtZeroIn(_) => {}
        Kinks::AtZero => values.iter_mut().for_each(|value| *value += 0.1f64.copysign(*value)),
        // Each operand on a grid of its own, half a step from the other's.
        Kinks::AtTies => {
            values.iter_mut().for_each(|value| *value = 0.2 * (*value / 0.2).round() + 0.1 * reader.input as f64);
        }
        // No two alike: by rank.
        Kinks::AtTiesAlong(_) => {
            let mut order: Vec<usize> = (0..values.len()).collect();
            order.sort_by(|&left, &right| values[left].total_cmp(&values[right]));
            for (rank, at) in order.into_iter().enumerate() {
                values[at] = 0.11 * rank as f64 - 1.3;
            }
        }
    }
}
