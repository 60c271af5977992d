//! Graphs that grow op by op. The values are known at every moment, so that each op is given what its domain allows.

use std::collections::HashMap;
use std::sync::Arc;

use headlight::graph::ops::{BinaryOp, Reduction, Reshape, UnaryOp, add, input, reduce};
use headlight::graph::{Defined, Domain, Graph, Kinks, Op, Reuse, TapeBuilder, TensorType, Value};
use headlight::kernel::elementwise::{Binary, Unary};
use headlight::random::{Stream, generator};
use headlight::tape::{Category, Contents, CpuExecutor, ElementKind, normal, words};
use rand::Rng;

use super::case::weighted_sum;
use super::faults::FLAT;
use super::problem::{Problem, WEIGHTS, real};

/// Values keep this far from kinks and from the edge of what is defined. A step moves them by far less.
const MARGIN: f64 = 0.01;
/// Values beyond this, and tensors larger than that, are not woven in: differences of their loss would lose digits.
const LARGEST: f64 = 30.0;
const MOST_ELEMENTS: usize = 256;

pub struct Weaver {
    pub graph: Graph,
    seed: u64,
    random: rand_chacha::ChaCha8Rng,
    contents: HashMap<Value, Contents>,
    /// How many stages lie between a leaf and a value.
    depths: HashMap<Value, usize>,
    /// Operands are taken from values no deeper than this.
    depth: usize,
}

impl Weaver {
    pub fn new(seed: u64) -> Self {
        Self {
            graph: Graph::new(),
            seed,
            random: generator(seed, Stream::Cases, 1, 0),
            contents: HashMap::new(),
            depths: HashMap::new(),
            depth: 0,
        }
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound as u64) as usize
    }

    /// A shape of so many dimensions.
    pub fn sizes(&mut self, rank: usize) -> Vec<usize> {
        (0..rank).map(|_| [1, 2, 3, 5][self.below(4)]).collect()
    }

    pub fn shape(&self, value: Value) -> Vec<usize> {
        self.graph.shape(value).to_vec()
    }

    /// A new leaf, normal numbers.
    pub fn leaf(&mut self, shape: &[usize]) -> Value {
        let value = input(&mut self.graph, "x", TensorType::real(shape)).unwrap();
        let numbers = normal(self.seed, value.node as u64, shape.iter().product(), 1.0);
        self.contents.insert(value, Contents::Real(numbers.into_iter().map(f64::from).collect()));
        self.depths.insert(value, 0);
        value
    }

    /// A new leaf of ids below a vocabulary.
    pub fn words(&mut self, shape: &[usize], vocabulary: usize) -> Value {
        let value = input(&mut self.graph, "ids", TensorType::words(shape)).unwrap();
        let ids = words(self.seed, value.node as u64, shape.iter().product(), vocabulary as u32);
        self.contents.insert(value, Contents::Words(ids));
        value
    }

    /// An operand of that shape: half of the time a value or leaf that is there already.
    pub fn operand(&mut self, shape: &[usize]) -> Value {
        let found: Vec<Value> = self
            .values()
            .into_iter()
            .filter(|&value| self.graph.shape(value) == shape && self.depths[&value] <= self.depth)
            .collect();
        match self.below(2) == 0 && !found.is_empty() {
            true => found[self.below(found.len())],
            false => self.leaf(shape),
        }
    }

    /// Every number that is known, in the order of the graph.
    fn values(&self) -> Vec<Value> {
        let mut values: Vec<Value> = self.depths.keys().copied().collect();
        values.sort_unstable();
        values
    }

    /// `x` in so many dimensions: leading ones joined, or ones put before.
    pub fn in_rank(&mut self, x: Value, rank: usize) -> Option<Value> {
        let mut shape = self.shape(x);
        while shape.len() > rank {
            let first = shape.remove(0);
            match shape.first_mut() {
                Some(next) => *next *= first,
                None => shape.push(first),
            }
        }
        while shape.len() < rank {
            shape.insert(0, 1);
        }
        if shape == self.graph.shape(x) { Some(x) } else { self.put(Reshape { shape }, &[x]) }
    }

    /// Adds an op to the graph, its inputs moved into its domain where need be. `None`, and nothing added, where its
    /// values would be too large.
    pub fn put(&mut self, op: impl Op, inputs: &[Value]) -> Option<Value> {
        let start = self.graph.nodes.len();
        let op: Arc<dyn Op> = Arc::new(op);
        let added = self.moved_within(op.domain(), inputs).and_then(|inputs| self.compute(op, &inputs));
        if added.is_none() {
            self.forget(start);
        }
        added
    }

    /// One stage on top of `x`. Forgets all that a stage has added which comes to nothing.
    pub fn stage(&mut self, x: Value, add: impl Fn(&mut Self, Value) -> Option<Value>) -> Option<Value> {
        let start = self.graph.nodes.len();
        self.depth = self.depths[&x];
        let result = add(self, x);
        match result {
            Some(_) => {
                let depth = self.depth + 1;
                for value in self.values() {
                    if value.node >= start && !self.graph.nodes[value.node].inputs.is_empty() {
                        self.depths.insert(value, depth);
                    }
                }
            }
            None => self.forget(start),
        }
        result
    }

    fn forget(&mut self, start: usize) {
        self.graph.nodes.truncate(start);
        self.contents.retain(|value, _| value.node < start);
        self.depths.retain(|value, _| value.node < start);
    }

    /// Adds an op and computes it; the value is kept if it is of a size that a difference can follow.
    fn compute(&mut self, op: Arc<dyn Op>, inputs: &[Value]) -> Option<Value> {
        let (name, domain) = (op.name(), op.domain());
        let node = self.graph.add_node(op, inputs).unwrap_or_else(|error| panic!("{error}"));
        let value = Value { node, output: 0 };
        let count: usize = self.graph.shape(value).iter().product();
        if count > MOST_ELEMENTS {
            return None;
        }
        let mut builder = TapeBuilder::new(None, Reuse::Never);
        let bound: HashMap<Value, _> = self
            .contents
            .iter()
            .map(|(&known, contents)| {
                let (count, kind) = match contents {
                    Contents::Real(values) => (values.len(), ElementKind::Real),
                    Contents::Words(words) => (words.len(), ElementKind::Words),
                };
                (known, builder.persistent("known", count as u64, kind, Category::Input))
            })
            .collect();
        let result = builder.persistent("result", count as u64, ElementKind::Real, Category::Workspace);
        builder.begin_segment("node");
        builder.lower(&self.graph, &bound, &[(value, Some(result))]).unwrap();
        let executor = CpuExecutor::<f64>::new(builder.finish().unwrap()).unwrap();
        for (known, &buffer) in &bound {
            match &self.contents[known] {
                Contents::Real(values) => executor.write(buffer, values).unwrap(),
                Contents::Words(words) => executor.write_words(buffer, words).unwrap(),
            }
        }
        executor.run(0);
        let numbers = executor.read(result).unwrap();
        assert!(numbers.iter().all(|number| number.is_finite()), "{name} is {domain}, and yet gives {numbers:?}");
        let small = numbers.iter().all(|number| number.abs() <= LARGEST);
        small.then(|| {
            self.contents.insert(value, Contents::Real(numbers));
            self.depths.insert(value, self.depth + 1);
            value
        })
    }

    /// The inputs themselves where an op with this domain may have them, else something made of them that it may.
    fn moved_within(&mut self, domain: Domain, inputs: &[Value]) -> Option<Vec<Value>> {
        let mut inputs = inputs.to_vec();
        for (index, input) in inputs.iter_mut().enumerate() {
            let allowed: fn(f64) -> bool = match domain.defined(index) {
                Some(Defined::Positive) => |x| x >= 0.2,
                Some(Defined::NonZero) => |x| x.abs() >= 0.2,
                _ => continue,
            };
            if !real(&self.contents[input]).iter().all(|&x| allowed(x)) {
                let square = Arc::new(UnaryOp { operation: Unary::Square, constant: 0.0 });
                let square = self.compute(square, &[*input])?;
                let above = Arc::new(UnaryOp { operation: Unary::AddConstant, constant: 0.4 });
                *input = self.compute(above, &[square])?;
            }
        }
        let start = self.graph.nodes.len();
        let original = inputs.clone();
        for _ in 0..60 {
            if self.off_kinks(domain.kinks(), &inputs) {
                return Some(inputs);
            }
            self.forget(start);
            // Leaves are numbered by their place, so that without this the next draw would be the same.
            self.seed = self.seed.wrapping_add(1 << 32);
            for (moved, &value) in inputs.iter_mut().zip(&original) {
                let by = self.leaf(&self.shape(value));
                *moved = self.compute(Arc::new(BinaryOp { operation: Binary::Add }), &[value, by])?;
            }
        }
        None
    }

    fn off_kinks(&self, kinks: Kinks, inputs: &[Value]) -> bool {
        let numbers = |input: usize| real(&self.contents[&inputs[input]]);
        let off_zero = |input: usize| numbers(input).iter().all(|x| x.abs() >= MARGIN);
        match kinks {
            Kinks::Nowhere => true,
            Kinks::AtZero => (0..inputs.len()).all(off_zero),
            // What jumps only at kinks of its own does not move here.
            Kinks::AtZeroIn(input) => FLAT.contains(&self.graph.nodes[inputs[input].node].op.name()) || off_zero(input),
            Kinks::AtTies => {
                let (a, b) = (numbers(0), numbers(1));
                meeting(self.graph.shape(inputs[0]), self.graph.shape(inputs[1]))
                    .into_iter()
                    .all(|(left, right)| (a[left] - b[right]).abs() >= MARGIN)
            }
            Kinks::AtTiesAlong(axis) => {
                let shape = self.graph.shape(inputs[0]);
                let inner: usize = shape[axis + 1..].iter().product();
                let x = numbers(0);
                (0..x.len() / shape[axis]).all(|line| {
                    let first = line / inner * inner * shape[axis] + line % inner;
                    let mut line: Vec<f64> = (0..shape[axis]).map(|at| x[first + at * inner]).collect();
                    line.sort_by(f64::total_cmp);
                    line.len() < 2 || line[line.len() - 1] - line[line.len() - 2] >= MARGIN
                })
            }
        }
    }

    /// Real values that may still be built upon.
    pub fn open(&self, depth: usize) -> Vec<Value> {
        self.values().into_iter().filter(|value| self.depths[value] < depth).collect()
    }

    /// The sum of all that nothing else uses, each element with its own weight; and the contents of every leaf.
    pub fn finish(mut self) -> Result<(Problem, Vec<Contents>), String> {
        let mut used = vec![false; self.graph.nodes.len()];
        self.graph.nodes.iter().flat_map(|node| &node.inputs).for_each(|input| used[input.node] = true);
        let mut loss = None;
        for end in self.values().into_iter().filter(|value| !used[value.node]) {
            let weighted = weighted_sum(&mut self.graph, end);
            let total = weighted.and_then(|part| match loss {
                Some(earlier) => add(&mut self.graph, earlier, part),
                None => Ok(part),
            });
            loss = Some(total.map_err(|error| error.to_string())?);
        }
        let loss = loss.ok_or("nothing was woven")?;
        let loss = match self.graph.shape(loss).is_empty() {
            true => Ok(loss),
            false => reduce(&mut self.graph, loss, 0, Reduction::Sum),
        };
        let problem = Problem::new(self.graph, loss.map_err(|error| error.to_string())?)?;
        let contents = problem
            .leaves
            .iter()
            .map(|leaf| match self.contents.remove(leaf) {
                Some(contents) => contents,
                None => {
                    assert_eq!(problem.graph.nodes[leaf.node].label, WEIGHTS);
                    let count = problem.graph.shape(*leaf).iter().product();
                    let weights = normal(self.seed, leaf.node as u64, count, 1.0);
                    Contents::Real(weights.into_iter().map(f64::from).collect())
                }
            })
            .collect();
        Ok((problem, contents))
    }
}

/// Which elements of two shapes meet when they broadcast.
fn meeting(a: &[usize], b: &[usize]) -> Vec<(usize, usize)> {
    let rank = a.len().max(b.len());
    let size =
        |shape: &[usize], dimension: usize| (dimension + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
    let mut pairs = vec![(0, 0)];
    for dimension in 0..rank {
        let (left, right) = (size(a, dimension), size(b, dimension));
        pairs = pairs
            .into_iter()
            .flat_map(|(i, j)| {
                (0..left.max(right)).map(move |at| (i * left + at.min(left - 1), j * right + at.min(right - 1)))
            })
            .collect();
    }
    pairs
}
