//! Strided views: where a value's elements lie in a buffer.

use crate::tape::BufferId;

/// A value's place: element `i` lies at `offset + sum(i[d] * strides[d])` of its buffer. Offsets and strides count
/// elements; a stride of 0 repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub buffer: BufferId,
    pub offset: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

/// Row-major strides of a shape.
pub fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for dimension in (0..shape.len().saturating_sub(1)).rev() {
        strides[dimension] = strides[dimension + 1] * shape[dimension + 1].max(1);
    }
    strides
}

impl View {
    /// A whole buffer, row-major.
    pub fn contiguous(buffer: BufferId, shape: &[usize]) -> Self {
        Self { buffer, offset: 0, shape: shape.to_vec(), strides: row_major(shape) }
    }

    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Row-major without gaps; the strides of dimensions of size 1 do not matter.
    pub fn is_contiguous(&self) -> bool {
        let expected = row_major(&self.shape);
        self.shape
            .iter()
            .zip(&self.strides)
            .zip(&expected)
            .all(|((&size, stride), wanted)| size == 1 || stride == wanted)
    }

    /// Dimensions in another order.
    pub fn permuted(&self, order: &[usize]) -> Self {
        Self {
            shape: order.iter().map(|&dimension| self.shape[dimension]).collect(),
            strides: order.iter().map(|&dimension| self.strides[dimension]).collect(),
            ..self.clone()
        }
    }

    /// The part `start..start + length` of an axis.
    pub fn sliced(&self, axis: usize, start: usize, length: usize) -> Self {
        let mut view = self.clone();
        view.offset += start * self.strides[axis];
        view.shape[axis] = length;
        view
    }

    /// The same elements in another shape, if strides can express that without a copy.
    ///
    /// Old and new dimensions are taken in groups of equal product; the old ones of a group must lie without gaps.
    pub fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        let old: Vec<(usize, usize)> =
            self.shape.iter().copied().zip(self.strides.iter().copied()).filter(|&(size, _)| size != 1).collect();
        let mut strides = vec![1; shape.len()];
        let (mut old_at, mut new_at) = (0, 0);
        while old_at < old.len() && new_at < shape.len() {
            let (old_first, new_first) = (old_at, new_at);
            let (mut old_product, mut new_product) = (old[old_at].0, shape[new_at]);
            (old_at, new_at) = (old_at + 1, new_at + 1);
            while old_product != new_product {
                if new_product < old_product {
                    new_product *= shape.get(new_at)?;
                    new_at += 1;
                } else {
                    old_product *= old.get(old_at)?.0;
                    old_at += 1;
                }
            }
            let group = &old[old_first..old_at];
            if group.windows(2).any(|pair| pair[0].1 != pair[1].1 * pair[1].0) {
                return None;
            }
            let mut stride = group.last().map_or(1, |&(_, stride)| stride);
            for new in (new_first..new_at).rev() {
                strides[new] = stride;
                stride *= shape[new];
            }
        }
        let same_count = old_at == old.len() && shape[new_at..].iter().all(|&size| size == 1);
        same_count.then(|| Self { shape: shape.to_vec(), strides, ..self.clone() })
    }

    /// Strides padded at the front to `rank` dimensions and broadcast to `shape`.
    pub fn broadcast(&self, shape: &[usize]) -> Self {
        let missing = shape.len() - self.shape.len();
        let strides = (0..shape.len())
            .map(|dimension| match dimension.checked_sub(missing) {
                Some(own) if self.shape[own] == shape[dimension] => self.strides[own],
                _ => 0,
            })
            .collect();
        Self { shape: shape.to_vec(), strides, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(shape: &[usize], strides: &[usize]) -> View {
        View { buffer: 0, offset: 0, shape: shape.to_vec(), strides: strides.to_vec() }
    }

    #[test]
    fn reshapes_that_strides_can_express_need_no_copy_and_others_are_refused() {
        for (shape, strides, wanted, expected) in [
            (vec![2, 3, 4], vec![12, 4, 1], vec![6, 4], Some(vec![4, 1])),
            (vec![2, 3, 4], vec![12, 4, 1], vec![24], Some(vec![1])),
            (vec![2, 3, 4], vec![36, 12, 1], vec![6, 4], Some(vec![12, 1])),
            (vec![2, 3, 4], vec![36, 12, 1], vec![2, 12], None),
            (vec![2, 3, 4], vec![4, 8, 1], vec![6, 4], None),
            (vec![6, 8], vec![24, 1], vec![2, 3, 2, 4], Some(vec![72, 24, 4, 1])),
            (vec![1, 5], vec![99, 3], vec![5, 1], Some(vec![3, 1])),
            (vec![5], vec![3], vec![1, 5, 1], Some(vec![15, 3, 1])),
            (vec![4, 1, 3], vec![3, 7, 1], vec![12], Some(vec![1])),
            (vec![1, 1], vec![5, 5], vec![1], Some(vec![1])),
        ] {
            let found = view(&shape, &strides).reshaped(&wanted).map(|view| view.strides);
            assert_eq!(found, expected, "{shape:?} {strides:?} to {wanted:?}");
        }
    }

    #[test]
    fn permuting_and_slicing_move_strides_and_offset_only() {
        let view = View::contiguous(3, &[2, 3, 4]).permuted(&[1, 0, 2]).sliced(0, 1, 2);
        assert_eq!((view.offset, view.shape, view.strides), (4, vec![2, 2, 4], vec![4, 12, 1]));
    }

    #[test]
    fn broadcasting_repeats_with_a_stride_of_zero() {
        let view = View::contiguous(0, &[3, 1]).broadcast(&[2, 3, 4]);
        assert_eq!(view.strides, [0, 1, 0]);
    }
}
