//! What an attention is checked on: shapes, and random inputs for them.

use std::fmt;

use serde::Serialize;

use crate::model::initialisation::Normal;
use crate::random::{Stream, generator};
use crate::script::TraceSizes;

/// Layers that a function is traced for; shapes take turns between them.
const LAYERS: usize = 2;

/// The sizes of one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// B
    pub batch: usize,
    /// T
    pub length: usize,
    /// H
    pub heads: usize,
    /// d_head
    pub head_width: usize,
    /// What the function finds in `cfg.layer`.
    pub layer: usize,
}

impl Shape {
    /// d, the width of all heads together.
    pub fn width(&self) -> usize {
        self.heads * self.head_width
    }

    /// Elements of `[B, T, d]`.
    pub fn elements(&self) -> usize {
        self.batch * self.length * self.width()
    }

    /// Matrices `[T, T]`: one a head of each row of the batch.
    pub fn maps(&self) -> usize {
        self.batch * self.heads
    }

    /// The factor of the scores, `1 / sqrt(d_head)`.
    pub fn scale(&self) -> f64 {
        1.0 / (self.head_width as f64).sqrt()
    }

    /// Where element `column` of a head's position lies in `[B, T, d]`. `map` counts heads through the whole batch.
    pub fn place(&self, map: usize, position: usize, column: usize) -> usize {
        let (row, head) = (map / self.heads, map % self.heads);
        (row * self.length + position) * self.width() + head * self.head_width + column
    }

    /// What a script is traced for.
    pub fn sizes(&self) -> TraceSizes {
        TraceSizes {
            batch: self.batch,
            length: self.length,
            width: self.width(),
            heads: self.heads,
            context_length: self.length,
            layers: LAYERS,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, length, heads, head_width, .. } = self;
        write!(formatter, "B={batch} T={length} H={heads} d_head={head_width}")
    }
}

const fn shape(batch: usize, length: usize, heads: usize, head_width: usize, layer: usize) -> Shape {
    Shape { batch, length, heads, head_width, layer }
}

/// The shape that weights are measured on. T = d_head, so that a product that lacks its transpose runs, and so that
/// the values can be the unit vectors; 64 as in GPT-2, where a missing scale makes scores 8 times as large.
pub const MEASURED: Shape = shape(1, 64, 2, 64, 0);

/// The shape that positions are changed on, one after the other. T = d_head here too.
pub const PERTURBED: Shape = shape(1, 16, 2, 16, 1);

/// Every shape with the standard deviations of its queries and keys, one set of inputs each.
///
/// T = d_head and T that is not; T a prime, beyond a tile of 32, 1; one head and several; d_head of 2 (of 1 every cosine
/// is 1 or -1, and its gradient in f32 nothing but rounding); small scores, which hide a wrong scale or axis, beside unit
/// ones and large ones, which do not. The first two are traced first: what neither of them can run is not tried on the
/// rest.
pub const SHAPES: &[(Shape, &[f64])] = &[
    (MEASURED, &[1.0, 0.1]),
    (shape(1, 13, 3, 4, 1), &[1.0, 3.0]),
    (PERTURBED, &[1.0, 3.0]),
    (shape(2, 8, 1, 8, 0), &[0.1, 1.0]),
    (shape(1, 33, 1, 16, 0), &[1.0, 3.0]),
    (shape(2, 7, 5, 2, 1), &[1.0, 3.0]),
    (shape(2, 1, 2, 8, 0), &[1.0]),
];

/// One set of inputs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Case {
    #[serde(flatten)]
    pub shape: Shape,
    /// The standard deviation of queries and keys; that of x, values and the output's gradient is 1.
    pub spread: f64,
    pub seed: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, std {}, seed {}", self.shape, self.spread, self.seed)
    }
}

/// What a function is called with, and the gradient of its output: all `[B, T, d]`, of numbers that f32 holds.
#[derive(Clone, Debug)]
pub struct CaseInputs {
    pub x: Vec<f64>,
    pub query: Vec<f64>,
    pub key: Vec<f64>,
    pub value: Vec<f64>,
    /// The loss is the sum of the output times this.
    pub output_gradient: Vec<f64>,
}

impl CaseInputs {
    /// Independent normal numbers.
    pub fn draw(case: &Case) -> Self {
        let tensor = |index: u64, deviation: f64| -> Vec<f64> {
            let mut normal = Normal::new(generator(case.seed, Stream::Cases, 0, index));
            (0..case.shape.elements()).map(|_| f64::from((deviation * normal.next()) as f32)).collect()
        };
        Self {
            x: tensor(0, 1.0),
            query: tensor(1, case.spread),
            key: tensor(2, case.spread),
            value: tensor(3, 1.0),
            output_gradient: tensor(4, 1.0),
        }
    }

    /// x, query, key and value.
    pub fn arguments_mut(&mut self) -> [&mut Vec<f64>; 4] {
        [&mut self.x, &mut self.query, &mut self.key, &mut self.value]
    }

    /// In the order of a function's leaves.
    pub fn tensors(&self) -> [&[f64]; 5] {
        [&self.x, &self.query, &self.key, &self.value, &self.output_gradient]
    }
}
