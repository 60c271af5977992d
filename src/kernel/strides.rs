//! Strided views of up to eight dimensions, on the host: the walk that twins take and the layouts that designs need.

/// Dimensions of a view, outermost first; unused ones lead with size 1.
pub type Dimensions = [u32; 8];

/// The two vec4 of a launch's parameters as one list.
pub fn dimensions(low: [u32; 4], high: [u32; 4]) -> Dimensions {
    let mut all = [0; 8];
    all[..4].copy_from_slice(&low);
    all[4..].copy_from_slice(&high);
    all
}

/// A list of up to eight sizes (or strides) as the two vec4 of a launch's parameters, leading dimensions filled with
/// `neutral` (1 for sizes, 0 for strides). `None` where there are more than eight.
pub fn split(values: &[u32], neutral: u32) -> Option<([u32; 4], [u32; 4])> {
    let first = 8_usize.checked_sub(values.len())?;
    let mut all = [neutral; 8];
    all[first..].copy_from_slice(values);
    let (mut low, mut high) = ([0; 4], [0; 4]);
    low.copy_from_slice(&all[..4]);
    high.copy_from_slice(&all[4..]);
    Some((low, high))
}

/// The strides of a row-major tensor.
pub fn row_major(shape: &Dimensions) -> Dimensions {
    let mut strides = [0; 8];
    let mut stride = 1_u32;
    for (dimension, size) in shape.iter().enumerate().rev() {
        strides[dimension] = stride;
        stride = stride.saturating_mul(*size);
    }
    strides
}

/// Elements of a shape.
pub fn elements(shape: &Dimensions) -> u64 {
    shape.iter().map(|&size| u64::from(size)).product()
}

/// Elements that a view reaches, counted from the start of its buffer: the least that the buffer must hold.
pub fn extent(shape: &[u32], strides: &[u32], offset: u32) -> usize {
    let last: usize =
        shape.iter().zip(strides).map(|(&size, &stride)| size.saturating_sub(1) as usize * stride as usize).sum();
    offset as usize + last + 1
}

/// Visits the elements of `N` views of one shape in row-major order, a run at a time: `visit(starts, length, steps)`
/// stands for `length` elements, `starts[n] + i * steps[n]` in view n. Dimensions that lie end to end in every view are
/// joined first, so that runs are as long as they can be.
pub fn for_each_run<const N: usize>(
    shape: &Dimensions,
    strides: [Dimensions; N],
    offsets: [u32; N],
    mut visit: impl FnMut([usize; N], usize, [usize; N]),
) {
    if elements(shape) == 0 {
        return;
    }
    // Innermost first: (size, stride in each view).
    let mut joined: Vec<(usize, [usize; N])> = Vec::with_capacity(8);
    for dimension in (0..8).rev() {
        let size = shape[dimension] as usize;
        if size == 1 {
            continue;
        }
        let steps = strides.map(|view| view[dimension] as usize);
        match joined.last_mut() {
            Some((inner, inner_steps)) if (0..N).all(|view| steps[view] == *inner * inner_steps[view]) => {
                *inner *= size
            }
            _ => joined.push((size, steps)),
        }
    }
    let (length, steps) = joined.first().copied().unwrap_or((1, [0; N]));
    let outer = joined.get(1..).unwrap_or_default();
    let mut coordinates = vec![0; outer.len()];
    let mut starts = offsets.map(|offset| offset as usize);
    loop {
        visit(starts, length, steps);
        let mut dimension = 0;
        loop {
            let Some((size, steps)) = outer.get(dimension) else { return };
            coordinates[dimension] += 1;
            if coordinates[dimension] < *size {
                (0..N).for_each(|view| starts[view] += steps[view]);
                break;
            }
            coordinates[dimension] = 0;
            (0..N).for_each(|view| starts[view] -= (size - 1) * steps[view]);
            dimension += 1;
        }
    }
}

/// How an operand is laid out under the row-major elements of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Element i is the operand's element i.
    Full,
    /// Leading dimensions are broadcast: element i is the operand's `i % kept`.
    Block { kept: u64 },
    /// Trailing dimensions are broadcast: element i is the operand's `i / repeated`.
    Element { repeated: u64 },
    /// All dimensions are broadcast.
    Scalar,
    /// Anything else.
    Strided,
}

/// The layout of an operand with these strides.
pub fn layout(shape: &Dimensions, strides: &Dimensions) -> Layout {
    let counted: Vec<(u64, u64)> = shape
        .iter()
        .zip(strides)
        .filter_map(|(&size, &stride)| (size != 1).then_some((u64::from(size), u64::from(stride))))
        .collect();
    let mut contiguous = 1;
    for (size, stride) in counted.iter().rev().filter(|(_, stride)| *stride != 0) {
        if *stride != contiguous {
            return Layout::Strided;
        }
        contiguous *= size;
    }
    let repeated: u64 = counted.iter().filter(|(_, stride)| *stride == 0).map(|(size, _)| size).product();
    let broadcasts: Vec<bool> = counted.iter().map(|(_, stride)| *stride == 0).collect();
    match (contiguous, repeated) {
        (_, 1) => Layout::Full,
        (1, _) => Layout::Scalar,
        _ if broadcasts.is_sorted_by(|earlier, later| earlier >= later) => Layout::Block { kept: contiguous },
        _ if broadcasts.is_sorted() => Layout::Element { repeated },
        _ => Layout::Strided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padded(values: &[u32], neutral: u32) -> Dimensions {
        let (low, high) = split(values, neutral).unwrap();
        dimensions(low, high)
    }

    #[test]
    fn lists_are_filled_up_at_the_front_and_nine_dimensions_are_too_many() {
        assert_eq!(split(&[2, 3], 1), Some(([1, 1, 1, 1], [1, 1, 2, 3])));
        assert_eq!(split(&[], 0), Some(([0; 4], [0; 4])));
        assert_eq!(split(&[1; 9], 1), None);
        assert_eq!(row_major(&padded(&[2, 3, 4], 1))[5..], [12, 4, 1]);
    }

    #[test]
    fn layouts_are_told_apart() {
        for (shape, strides, expected) in [
            (&[12, 64, 128][..], &[8192, 128, 1][..], Layout::Full),
            (&[12, 64, 128], &[0, 128, 1], Layout::Block { kept: 8192 }),
            (&[12, 64, 128], &[64, 1, 0], Layout::Element { repeated: 128 }),
            (&[12, 64, 128], &[0, 0, 0], Layout::Scalar),
            (&[12, 64, 128], &[128, 0, 1], Layout::Strided),
            (&[12, 64, 128], &[0, 1, 0], Layout::Strided),
            (&[12, 64, 128], &[8192, 1, 64], Layout::Strided),
            (&[12, 1, 128], &[128, 0, 1], Layout::Full),
            (&[1, 1], &[0, 0], Layout::Full),
        ] {
            assert_eq!(layout(&padded(shape, 1), &padded(strides, 0)), expected, "{shape:?} {strides:?}");
        }
    }

    #[test]
    fn a_walk_reaches_every_element_once_in_row_major_order() {
        let shape = padded(&[2, 3, 4], 1);
        for strides in [[12, 4, 1], [1, 2, 6], [0, 5, 1], [40, 0, 0]] {
            let view = padded(&strides, 0);
            let mut found = Vec::new();
            for_each_run(&shape, [row_major(&shape), view], [0, 7], |starts, length, steps| {
                found.extend((0..length).map(|i| (starts[0] + i * steps[0], starts[1] + i * steps[1])));
            });
            let mut expected = Vec::new();
            for (i, j, k) in (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).map(move |k| (i, j, k)))) {
                let at = 7 + i * strides[0] + j * strides[1] + k * strides[2];
                expected.push(((i * 12 + j * 4 + k) as usize, at as usize));
            }
            assert_eq!(found, expected, "{strides:?}");
        }
    }

    #[test]
    fn contiguous_views_are_one_run_and_empty_ones_none() {
        let shape = padded(&[2, 3, 4], 1);
        let mut runs = Vec::new();
        for_each_run(&shape, [row_major(&shape)], [5], |starts, length, steps| runs.push((starts, length, steps)));
        assert_eq!(runs, [([5], 24, [1])]);
        for_each_run(&padded(&[], 1), [padded(&[], 0)], [5], |starts, length, _| runs.push((starts, length, [0])));
        assert_eq!(runs[1], ([5], 1, [0]));
        for_each_run(&padded(&[2, 0], 1), [padded(&[0, 1], 0)], [5], |_, _, _| panic!("there is nothing to visit"));
    }
}
