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

/// The first of some ids that counts nothing: its place, and its value with -1 for the word that means "ignored". Ids
/// below `bound` count, and "ignored" does where it `may_ignore`.
pub fn stray_id(ids: &[u32], bound: usize, may_ignore: bool) -> Option<(usize, i64)> {
    let stray = |&id: &u32| id as usize >= bound && !(may_ignore && id == u32::MAX);
    let index = ids.iter().position(stray)?;
    Some((index, if ids[index] == u32::MAX { -1 } else { i64::from(ids[index]) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_id_beyond_its_bound_is_found() {
        for (ids, bound, may_ignore, expected) in [
            (&[0, 4][..], 5, false, None),
            (&[0, 5, 6], 5, false, Some((1, 5))),
            (&[0, u32::MAX], 5, true, None),
            (&[0, u32::MAX], 5, false, Some((1, -1))),
            (&[u32::MAX, 9], 5, true, Some((1, 9))),
            (&[], 0, false, None),
        ] {
            assert_eq!(stray_id(ids, bound, may_ignore), expected, "{ids:?} below {bound}");
        }
    }
}
