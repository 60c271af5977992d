//! Attention functions as graphs: every file that comes with the program, and files of these tests that use the ops which
//! those do not.

use headlight::graph::ops::input;
use headlight::graph::{Graph, TensorType, Value};
use headlight::script::{
    BUGS, Builtin, GALLERY, Initial, Inputs, REFERENCE, Recording, Script, TraceHere, TraceSizes, Tracer, replay,
};
use headlight::tape::normal;

/// A file, and what is known of it.
pub struct Function {
    pub script: Script,
    /// It multiplies `[T, d_head]` by `[T, d_head]`, which only squares allow.
    only_square: bool,
}

/// Whose numbers are not finite: nothing can be compared with them.
const NOT_FINITE: &str = "infinity_times_zero";
const ONLY_SQUARE: &str = "missing_transpose";

macro_rules! own {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!($name, ".star")))),+]
    };
}

/// Files of these tests.
const OWN: [(&str, &str); 10] = own![
    "called_fused",
    "clipped",
    "dilated",
    "folded",
    "layers_apart",
    "normed_heads",
    "not_taken",
    "pooled",
    "running_sums",
    "shifted",
];

/// Every function that can be compared.
pub fn every() -> Vec<Function> {
    let built_in = [REFERENCE].into_iter().chain(GALLERY).chain(BUGS).filter(|file| file.name != NOT_FINITE);
    let own = OWN.map(|(name, source)| Script { file: format!("{name}.star"), source: source.into() });
    let function = |script: Script| Function { only_square: script.file == format!("{ONLY_SQUARE}.star"), script };
    built_in.map(Builtin::script).chain(own).map(function).collect()
}

/// The sizes that a function is looked at with.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub batch: usize,
    pub length: usize,
    pub heads: usize,
    pub head_width: usize,
    /// How many layers run on top of each other.
    pub layers: usize,
}

const fn sizes(batch: usize, length: usize, heads: usize, head_width: usize, layers: usize) -> Sizes {
    Sizes { batch, length, heads, head_width, layers }
}

/// T = d_head among them, one head and several, one position, and more positions than the window of `window.star` holds.
pub const SMALL: [Sizes; 7] = [
    sizes(2, 4, 2, 4, 1),
    sizes(1, 5, 1, 5, 1),
    sizes(2, 7, 3, 2, 1),
    sizes(1, 18, 2, 2, 1),
    sizes(2, 1, 2, 3, 1),
    sizes(1, 1, 1, 1, 1),
    sizes(1, 4, 2, 4, 2),
];

impl Function {
    /// Whether the function accepts these sizes at all.
    pub fn accepts(&self, sizes: &Sizes) -> bool {
        !self.only_square || sizes.length == sizes.head_width
    }

    /// What the function does in each layer.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn trace(&self, sizes: &Sizes) -> Result<Vec<Recording>, String> {
        let &Sizes { batch, length, heads, head_width, layers } = sizes;
        let sizes = TraceSizes { batch, length, width: heads * head_width, heads, context_length: length, layers };
        TraceHere.trace(&self.script, &sizes).map_err(|error| error.to_string())
    }

    /// The function for sizes that it accepts.
    ///
    /// # Errors
    /// As [`Function::trace`].
    pub fn build(&self, sizes: &Sizes) -> Result<Built, String> {
        let recordings = self.trace(sizes)?;
        let shape = [sizes.batch, sizes.length, sizes.heads * sizes.head_width];
        let mut graph = Graph::new();
        let mut leaves = Vec::new();
        let mut leaf = |graph: &mut Graph, name: String, shape: &[usize], middle: f64, spread: f64| {
            let value = input(graph, &name, TensorType::real(shape)).map_err(|error| error.to_string())?;
            let drawn = normal(17, leaves.len() as u64, shape.iter().product(), spread);
            // Rounded to f32, so that every executor begins with the same numbers.
            let contents = drawn.iter().map(|&number| f64::from(middle as f32 + number)).collect();
            leaves.push(Leaf { name, value, contents });
            Ok::<Value, String>(value)
        };
        let mut tensors = Vec::new();
        for name in ["x", "q", "k", "v"] {
            tensors.push(leaf(&mut graph, name.into(), &shape, 0.0, 1.0)?);
        }
        let mut parameters = Vec::new();
        for (layer, recording) in recordings.iter().enumerate() {
            let mut of_layer = Vec::new();
            for declared in &recording.parameters {
                let middle = match declared.initial {
                    Initial::Constant(number) => number,
                    Initial::Normal(_) => 0.0,
                };
                let name = format!("{} of layer {layer}", declared.name);
                of_layer.push(leaf(&mut graph, name, &declared.shape, middle, 0.3)?);
            }
            parameters.push(of_layer);
        }
        let [x, query, key, value] = [tensors[0], tensors[1], tensors[2], tensors[3]];
        let mut inputs = Inputs { x, query, key, value };
        let mut output = x;
        for (recording, parameters) in recordings.iter().zip(&parameters) {
            let replayed = replay(&mut graph, &self.script, recording, &inputs, parameters);
            output = replayed.map_err(|error| error.to_string())?.output;
            inputs = Inputs { x: output, value: output, ..inputs };
        }
        Ok(Built { graph, leaves, output })
    }
}

/// A leaf of a function's graph.
pub struct Leaf {
    pub name: String,
    pub value: Value,
    pub contents: Vec<f64>,
}

/// A function, as a graph.
pub struct Built {
    pub graph: Graph,
    /// x, q, k, v and what each layer declared.
    pub leaves: Vec<Leaf>,
    pub output: Value,
}
