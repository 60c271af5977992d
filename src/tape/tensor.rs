//! Tensors in host memory, as they come from files and go to them.

/// What a tensor holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents {
    /// Numbers; an executor rounds them to what it stores.
    Real(Vec<f64>),
    /// Token ids and targets; all bits set stands for -1, "ignored".
    Words(Vec<u32>),
}

/// A shape and its elements, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub contents: Contents,
}

impl Tensor {
    pub fn real(shape: impl Into<Vec<usize>>, values: Vec<f64>) -> Self {
        Self { shape: shape.into(), contents: Contents::Real(values) }
    }

    pub fn words(shape: impl Into<Vec<usize>>, words: Vec<u32>) -> Self {
        Self { shape: shape.into(), contents: Contents::Words(words) }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match &self.contents {
            Contents::Real(values) => values.len(),
            Contents::Words(words) => words.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers; none where it holds words.
    pub fn values(&self) -> &[f64] {
        match &self.contents {
            Contents::Real(values) => values,
            Contents::Words(_) => &[],
        }
    }
}
