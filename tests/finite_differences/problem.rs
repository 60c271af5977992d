//! A loss with its gradients: built as one graph, planned into one tape, run again and again on other inputs.

use std::collections::HashMap;

use headlight::gpu::Profile;
use headlight::graph::ops::Input;
use headlight::graph::{Dtype, Graph, Reuse, TapeBuilder, Value, differentiate, print_graph};
use headlight::tape::{BufferId, Category, Contents, CpuExecutor, ElementKind, Tape};

/// The segment that computes the loss alone.
const LOSS: usize = 0;
/// The segment that computes the loss and its gradients.
pub const GRADIENTS: usize = 1;

/// A graph whose loss has been differentiated.
pub struct Problem {
    pub graph: Graph,
    /// Nodes from here on were added by differentiation.
    pub forward: usize,
    pub loss: Value,
    /// Every leaf, in the order of the graph.
    pub leaves: Vec<Value>,
    /// Places in `leaves` of those that the loss is differentiated for.
    pub wanted: Vec<usize>,
    /// Their gradients.
    pub gradients: Vec<Value>,
}

impl Problem {
    /// Differentiates a loss for every real leaf, but for those that only weigh its parts.
    pub fn new(mut graph: Graph, loss: Value) -> Result<Self, String> {
        let forward = graph.nodes.len();
        let leaves: Vec<Value> = (0..forward)
            .filter(|&node| graph.op::<Input>(node).is_some())
            .map(|node| Value { node, output: 0 })
            .collect();
        let wanted: Vec<usize> = (0..leaves.len())
            .filter(|&at| graph.ty(leaves[at]).dtype == Dtype::Real && graph.nodes[leaves[at].node].label != WEIGHTS)
            .collect();
        let values: Vec<Value> = wanted.iter().map(|&at| leaves[at]).collect();
        let gradients = differentiate(&mut graph, loss, &values).map_err(|error| error.to_string())?;
        Ok(Self { graph, forward, loss, leaves, wanted, gradients })
    }

    /// The forward part in words.
    pub fn print(&self) -> String {
        print_graph(&self.graph, &[self.loss])
    }

    pub fn plan(&self, profile: Option<Profile>, reuse: Reuse) -> Result<Plan, String> {
        let mut builder = TapeBuilder::new(profile, reuse);
        let mut place = |value: Value, name: &str| {
            let ty = self.graph.ty(value);
            let kind = if ty.dtype == Dtype::Words { ElementKind::Words } else { ElementKind::Real };
            builder.persistent(name, ty.elements().unwrap(), kind, Category::Input)
        };
        let leaves: Vec<BufferId> = self.leaves.iter().map(|&leaf| place(leaf, "leaf")).collect();
        let loss = place(self.loss, "loss");
        let gradients: Vec<BufferId> = self.gradients.iter().map(|&gradient| place(gradient, "gradient")).collect();
        let bound: HashMap<Value, BufferId> = self.leaves.iter().copied().zip(leaves.iter().copied()).collect();
        let mut roots = vec![(self.loss, Some(loss))];
        builder.begin_segment("loss");
        builder.lower(&self.graph, &bound, &roots).map_err(|error| error.to_string())?;
        roots.extend(self.gradients.iter().copied().zip(gradients.iter().copied().map(Some)));
        builder.begin_segment("gradients");
        builder.lower(&self.graph, &bound, &roots).map_err(|error| error.to_string())?;
        let tape = builder.finish().map_err(|error| error.to_string())?;
        Ok(Plan { tape, leaves, loss, gradients })
    }
}

/// The label of leaves that weigh the parts of a loss.
pub const WEIGHTS: &str = "weights";

/// A planned problem and where its tensors lie.
pub struct Plan {
    pub tape: Tape,
    pub leaves: Vec<BufferId>,
    loss: BufferId,
    pub gradients: Vec<BufferId>,
}

/// A planned problem on the f64 executor.
pub struct Planned {
    executor: CpuExecutor<f64>,
    leaves: Vec<BufferId>,
    loss: BufferId,
    gradients: Vec<BufferId>,
}

impl Planned {
    pub fn new(problem: &Problem, reuse: Reuse) -> Result<Self, String> {
        let Plan { tape, leaves, loss, gradients } = problem.plan(None, reuse)?;
        let executor = CpuExecutor::new(tape).map_err(|error| error.to_string())?;
        Ok(Self { executor, leaves, loss, gradients })
    }

    pub fn write(&self, contents: &[Contents]) {
        for (leaf, contents) in contents.iter().enumerate() {
            match contents {
                Contents::Real(values) => self.write_real(leaf, values),
                Contents::Words(words) => self.executor.write_words(self.leaves[leaf], words).unwrap(),
            }
        }
    }

    pub fn write_real(&self, leaf: usize, values: &[f64]) {
        self.executor.write(self.leaves[leaf], values).unwrap();
    }

    pub fn loss(&self) -> f64 {
        self.executor.run(LOSS);
        self.executor.read(self.loss).unwrap()[0]
    }

    /// The loss, then the gradient of each wanted leaf.
    pub fn run(&self) -> Vec<Vec<f64>> {
        self.executor.run(GRADIENTS);
        std::iter::once(&self.loss).chain(&self.gradients).map(|&buffer| self.executor.read(buffer).unwrap()).collect()
    }
}

/// The numbers of a leaf.
pub fn real(contents: &Contents) -> &[f64] {
    match contents {
        Contents::Real(values) => values,
        Contents::Words(_) => panic!("the leaf holds words"),
    }
}

/// A plan that shares buffers gives the bits of one that shares none, in a first run and in a second.
pub fn equal_bits(pooled: &Planned, separate: &Planned) -> Result<Vec<Vec<f64>>, String> {
    let bits = |results: &[Vec<f64>]| -> Vec<Vec<u64>> {
        results.iter().map(|values| values.iter().map(|value| value.to_bits()).collect()).collect()
    };
    let expected = separate.run();
    for run in ["first", "second"] {
        if bits(&pooled.run()) != bits(&expected) {
            return Err(format!("the {run} run with shared buffers has other bits than one without"));
        }
    }
    Ok(expected)
}
