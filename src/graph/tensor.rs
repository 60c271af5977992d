//! Shapes and element types of values.

/// What a tensor's elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    Real,
    /// Token ids and targets.
    Words,
}

/// A tensor's element type and shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
}

impl TensorType {
    pub fn real(shape: impl Into<Vec<usize>>) -> Self {
        Self { dtype: Dtype::Real, shape: shape.into() }
    }

    pub fn words(shape: impl Into<Vec<usize>>) -> Self {
        Self { dtype: Dtype::Words, shape: shape.into() }
    }

    /// Number of elements; `None` on overflow of u64.
    pub fn elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size as u64))
    }
}

impl std::fmt::Display for TensorType {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sizes: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        let suffix = if self.dtype == Dtype::Words { " words" } else { "" };
        write!(formatter, "[{}]{suffix}", sizes.join(","))
    }
}
