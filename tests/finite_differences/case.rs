//! A case: real inputs that reach a few ops in some memory order, and the loss made of the result.

use headlight::graph::ops::{Reduction, input, multiply, permute, reduce, reshape, slice};
use headlight::graph::{Graph, GraphError, TensorType, Value};

use super::problem::{Problem, WEIGHTS};

type Build = Box<dyn Fn(&mut Graph, &[Value]) -> Result<Value, GraphError> + Send + Sync>;

/// An input of a case.
#[derive(Clone)]
pub enum Leaf {
    Real(Vec<usize>),
    /// Drawn from what the op that reads them states.
    Words(Vec<usize>),
    /// These and no others.
    Given(Vec<u32>),
}

pub struct Case {
    /// The name of the op, then what tells this case apart.
    pub name: String,
    pub leaves: Vec<Leaf>,
    /// Also draw inputs that are all but equal, and all but zero.
    pub near: bool,
    pub build: Build,
}

impl Case {
    /// What the case is about.
    pub fn op(&self) -> &str {
        self.name.split(' ').next().unwrap_or_default()
    }

    /// The graph up to the result.
    pub fn trace(&self) -> Result<(Graph, Value), String> {
        let mut graph = Graph::new();
        let leaves: Result<Vec<Value>, GraphError> = self
            .leaves
            .iter()
            .map(|leaf| {
                let ty = match leaf {
                    Leaf::Real(shape) => TensorType::real(shape.clone()),
                    Leaf::Words(shape) => TensorType::words(shape.clone()),
                    Leaf::Given(words) => TensorType::words([words.len()]),
                };
                input(&mut graph, "x", ty)
            })
            .collect();
        let result = leaves.and_then(|leaves| (self.build)(&mut graph, &leaves));
        Ok((graph, result.map_err(|error| format!("{}: {error}", self.name))?))
    }

    pub fn problem(&self) -> Result<Problem, String> {
        let (mut graph, result) = self.trace()?;
        let loss = weighted_sum(&mut graph, result).map_err(|error| error.to_string())?;
        Problem::new(graph, loss)
    }
}

/// The sum of all elements, each with a weight of its own.
pub fn weighted_sum(graph: &mut Graph, x: Value) -> Result<Value, GraphError> {
    let ty = TensorType::real(graph.shape(x).to_vec());
    let weights = input(graph, WEIGHTS, ty)?;
    let product = multiply(graph, x, weights)?;
    let count = graph.shape(product).iter().product();
    let flat = reshape(graph, product, &[count])?;
    reduce(graph, flat, 0, Reduction::Sum)
}

/// How the elements of an input lie in memory when they reach an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Contiguous,
    /// Dimensions in reverse order: the last one is outermost.
    Reversed,
    /// The dimensions before the last in reverse order.
    LeadReversed,
    /// Part of a larger tensor, whose rows have gaps.
    Sliced,
    /// Both.
    SlicedReversed,
}

impl Layout {
    const ALL: [Self; 5] = [Self::Contiguous, Self::Reversed, Self::LeadReversed, Self::Sliced, Self::SlicedReversed];

    /// Dimension `d` of the view is dimension `order[d]` in memory.
    fn order(self, rank: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..rank).collect();
        match self {
            Self::Contiguous | Self::Sliced => {}
            Self::Reversed | Self::SlicedReversed => order.reverse(),
            Self::LeadReversed => order[..rank.saturating_sub(1)].reverse(),
        }
        order
    }

    /// Axes that are cut out of larger ones.
    fn sliced(self, rank: usize) -> Vec<usize> {
        match self {
            Self::Sliced | Self::SlicedReversed if rank > 1 => vec![0, rank - 1],
            Self::Sliced | Self::SlicedReversed => (0..rank).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it is more than another name for the one before.
    fn differs(self, rank: usize) -> bool {
        let moves = self.order(rank) != (0..rank).collect::<Vec<_>>();
        match self {
            Self::Contiguous => true,
            Self::Reversed | Self::LeadReversed => moves && (self == Self::Reversed || rank > 2),
            Self::Sliced => rank > 0,
            Self::SlicedReversed => moves,
        }
    }

    /// The shape in memory.
    fn memory(self, shape: &[usize]) -> Vec<usize> {
        let mut memory = shape.to_vec();
        for (dimension, &at) in self.order(shape.len()).iter().enumerate() {
            memory[at] = shape[dimension];
        }
        for axis in self.sliced(shape.len()) {
            memory[axis] += 2;
        }
        memory
    }

    /// The view of that memory.
    fn view(self, graph: &mut Graph, mut x: Value) -> Result<Value, GraphError> {
        let rank = graph.shape(x).len();
        for axis in self.sliced(rank) {
            let end = graph.shape(x)[axis] - 1;
            x = slice(graph, x, axis, 1, end)?;
        }
        permute(graph, x, &self.order(rank))
    }
}

/// A case for each layout of its real inputs.
pub fn in_all_layouts(
    name: impl Into<String>,
    leaves: &[Leaf],
    build: impl Fn(&mut Graph, &[Value]) -> Result<Value, GraphError> + Clone + Send + Sync + 'static,
) -> Vec<Case> {
    let name = name.into();
    let rank = |leaf: &Leaf| if let Leaf::Real(shape) = leaf { shape.len() } else { 0 };
    let largest = leaves.iter().map(rank).max().unwrap_or(0);
    Layout::ALL
        .into_iter()
        .filter(|layout| layout.differs(largest))
        .map(|layout| {
            let in_memory = |leaf: &Leaf| match leaf {
                Leaf::Real(shape) => Leaf::Real(layout.memory(shape)),
                other => other.clone(),
            };
            let real: Vec<bool> = leaves.iter().map(|leaf| matches!(leaf, Leaf::Real(_))).collect();
            let build = build.clone();
            Case {
                name: format!("{name} {layout:?}"),
                leaves: leaves.iter().map(in_memory).collect(),
                near: layout == Layout::Contiguous,
                build: Box::new(move |graph, leaves| {
                    let views: Result<Vec<Value>, GraphError> = leaves
                        .iter()
                        .zip(&real)
                        .map(|(&leaf, &real)| match real && layout != Layout::Contiguous {
                            true => layout.view(graph, leaf),
                            false => Ok(leaf),
                        })
                        .collect();
                    build(graph, &views?)
                }),
            }
        })
        .collect()
}

/// Real inputs of these shapes.
pub fn real(shapes: &[&[usize]]) -> Vec<Leaf> {
    shapes.iter().map(|shape| Leaf::Real(shape.to_vec())).collect()
}
