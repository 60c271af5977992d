//! Launches over more than one binding holds: divided into parts, each of which reaches so little of every buffer that a
//! window of it can be bound.
//!
//! A launch is a nest of loops; each operand says where an element lies for given indices of the loops. A part is the same
//! nest with a range for each loop. As long as some operand of a part reaches further than a binding, the loop along which
//! it reaches furthest is halved.

use crate::gpu::BindingLimits;
use crate::tape::{BufferId, BufferWindow};

/// One loop of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    pub size: u64,
    /// Parts begin at multiples of it; `None` where the loop must not be divided.
    multiple: Option<u64>,
}

impl Dimension {
    /// May be divided at multiples of a number.
    pub fn at_multiples(size: usize, multiple: u64) -> Self {
        Self { size: size as u64, multiple: Some(multiple) }
    }

    /// May be divided anywhere.
    pub fn anywhere(size: usize) -> Self {
        Self::at_multiples(size, 1)
    }

    /// Is never divided.
    pub fn whole(size: usize) -> Self {
        Self { size: size as u64, multiple: None }
    }
}

/// How a kernel is told where an operand begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    /// By an offset and strides.
    Strided,
    /// By an offset; the elements of a part must lie one behind the other, in the order of the loops.
    Dense,
    /// Not at all: it begins with its binding.
    AtStart,
}

/// What an operand of a launch reaches.
#[derive(Clone, Debug)]
pub struct Access {
    pub buffer: BufferId,
    placement: Placement,
    /// The first element.
    offset: u64,
    /// Elements from one index of each loop to the next; 0 where the element does not depend on it.
    strides: Vec<u64>,
}

impl Access {
    fn new(buffer: BufferId, placement: Placement, offset: usize, strides: &[usize]) -> Self {
        let strides = strides.iter().map(|&stride| stride as u64).collect();
        Self { buffer, placement, offset: offset as u64, strides }
    }

    /// An operand whose kernel takes an offset and a stride for each loop.
    pub fn strided(buffer: BufferId, offset: usize, strides: &[usize]) -> Self {
        Self::new(buffer, Placement::Strided, offset, strides)
    }

    /// An operand whose kernel takes an offset, and walks on from there row by row without gaps.
    pub fn dense(buffer: BufferId, offset: usize, strides: &[usize]) -> Self {
        Self::new(buffer, Placement::Dense, offset, strides)
    }

    /// An operand that its kernel finds at the start of the binding.
    pub fn at_start(buffer: BufferId, strides: &[usize]) -> Self {
        Self::new(buffer, Placement::AtStart, 0, strides)
    }
}

/// The window of one operand, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    first: u64,
    elements: u64,
    /// Where the operand's first element lies in it.
    offset: u64,
}

/// A part of a launch: what its kernel's parameters are made of.
#[derive(Clone, Debug)]
pub struct Part {
    starts: Vec<u64>,
    sizes: Vec<u64>,
    /// By operand.
    windows: Vec<Window>,
    /// By operand; 0 for one that the part never takes and that a kernel could not count.
    strides: Vec<Vec<u64>>,
}

/// A number as kernels count. Windows are cut so that what a kernel reaches fits, and a launch that does not is refused
/// before it is made.
fn counted(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Part {
    /// The launch undivided, over whole buffers.
    pub fn whole(dimensions: &[Dimension], accesses: &[Access]) -> Self {
        let sizes = dimensions.iter().map(|dimension| dimension.size).collect();
        let window = |access: &Access| Window { first: 0, elements: u64::MAX, offset: access.offset };
        Self::new(vec![0; dimensions.len()], sizes, accesses.iter().map(window).collect(), accesses)
    }

    fn new(starts: Vec<u64>, sizes: Vec<u64>, windows: Vec<Window>, accesses: &[Access]) -> Self {
        let taken = |(&stride, &size): (&u64, &u64)| if size > 1 || u32::try_from(stride).is_ok() { stride } else { 0 };
        let strides = accesses.iter().map(|access| access.strides.iter().zip(&sizes).map(taken).collect()).collect();
        Self { starts, sizes, windows, strides }
    }

    /// The first index of a loop.
    pub fn start(&self, dimension: usize) -> u64 {
        self.starts[dimension]
    }

    /// The length of a loop.
    pub fn size(&self, dimension: usize) -> u32 {
        counted(self.sizes[dimension])
    }

    /// Turns of all loops together.
    pub fn count(&self) -> u32 {
        counted(self.sizes.iter().fold(1, |product: u64, &size| product.saturating_mul(size)))
    }

    /// Where an operand's first element lies in its binding.
    pub fn offset(&self, operand: usize) -> u32 {
        counted(self.windows[operand].offset)
    }

    /// The stride of an operand along a loop.
    pub fn stride(&self, operand: usize, dimension: usize) -> u32 {
        counted(self.strides[operand][dimension])
    }

    /// The lengths of up to eight loops as kernels take them: the last ones last, sizes of 1 before.
    pub fn shape(&self) -> ([u32; 4], [u32; 4]) {
        eight(&self.sizes, 1)
    }

    /// The strides of an operand as kernels take them.
    pub fn strides(&self, operand: usize) -> ([u32; 4], [u32; 4]) {
        eight(&self.strides[operand], 0)
    }

    /// What is bound for each operand.
    pub fn bindings(&self, accesses: &[Access]) -> Vec<BufferWindow> {
        let bound = |(access, window): (&Access, &Window)| BufferWindow {
            buffer: access.buffer,
            offset: window.first * 4,
            bytes: window.elements * 4,
        };
        accesses.iter().zip(&self.windows).map(bound).collect()
    }
}

/// The last eight numbers, the front filled up.
fn eight(values: &[u64], filler: u32) -> ([u32; 4], [u32; 4]) {
    let mut padded = [filler; 8];
    for (slot, &value) in padded.iter_mut().rev().zip(values.iter().rev()) {
        *slot = counted(value);
    }
    let [a, b, c, d, e, f, g, h] = padded;
    ([a, b, c, d], [e, f, g, h])
}

/// The most elements that one launch reaches in one operand: what fits a binding, and what a kernel counts.
pub fn window_elements(limits: &BindingLimits) -> u64 {
    // Bindings end on whole vec4.
    (limits.binding_bytes / 16 * 4).min(u64::from(u32::MAX) / 4 * 4)
}

/// Divides a launch until every operand of every part fits a window. Parts come in the order of the loops: of parts that
/// write the same elements, the first is the one in which the loops that they do not depend on begin at 0.
///
/// `None` where that cannot be done.
pub fn divide(dimensions: &[Dimension], accesses: &[Access], limits: &BindingLimits) -> Option<Vec<Part>> {
    let most = window_elements(limits);
    // In elements, whole vec4 at least, so that what lies at a multiple of 4 in the buffer also does in the window.
    let alignment = (limits.storage_alignment / 4).max(4);
    let multiples: Vec<Option<u64>> = dimensions
        .iter()
        .enumerate()
        .map(|(dimension, described)| {
            let at_start = accesses.iter().filter(|access| access.placement == Placement::AtStart);
            at_start.map(|access| access.strides[dimension]).filter(|&stride| stride > 0).fold(
                described.multiple,
                |multiple, stride| {
                    let wanted = alignment / greatest_common_divisor(alignment, stride);
                    multiple.and_then(|own| (own / greatest_common_divisor(own, wanted)).checked_mul(wanted))
                },
            )
        })
        .collect();
    let dense = accesses.iter().any(|access| access.placement == Placement::Dense);
    let mut parts = Vec::new();
    let mut rest =
        vec![(vec![0; dimensions.len()], dimensions.iter().map(|dimension| dimension.size).collect::<Vec<u64>>())];
    while let Some((starts, sizes)) = rest.pop() {
        let windows: Vec<Window> =
            accesses.iter().map(|access| window(access, &starts, &sizes, alignment)).collect::<Option<_>>()?;
        let Some(beyond) = windows.iter().position(|window| window.elements > most) else {
            parts.push(Part::new(starts, sizes, windows, accesses));
            continue;
        };
        let divisible = |&dimension: &usize| multiples[dimension].is_some_and(|multiple| sizes[dimension] > multiple);
        let chosen = if dense {
            // Only whole rows of the outermost loop that has several lie one behind the other.
            sizes.iter().position(|&size| size > 1).filter(divisible)
        } else {
            let reach = |&dimension: &usize| {
                accesses[beyond].strides[dimension].saturating_mul(sizes[dimension].saturating_sub(1))
            };
            (0..sizes.len()).rev().filter(divisible).filter(|dimension| reach(dimension) > 0).max_by_key(reach)
        }?;
        let half = sizes[chosen].div_ceil(2).next_multiple_of(multiples[chosen]?);
        let (mut lower, mut upper) = ((starts.clone(), sizes.clone()), (starts, sizes));
        lower.1[chosen] = half;
        upper.0[chosen] += half;
        upper.1[chosen] -= half;
        rest.extend([upper, lower]);
    }
    Some(parts)
}

/// The window that holds what an operand reaches; `None` beyond what can be counted.
fn window(access: &Access, starts: &[u64], sizes: &[u64], alignment: u64) -> Option<Window> {
    let (mut begin, mut last) = (access.offset, 0u64);
    for ((&stride, &start), &size) in access.strides.iter().zip(starts).zip(sizes) {
        begin = begin.checked_add(stride.checked_mul(start)?)?;
        last = last.checked_add(stride.checked_mul(size.saturating_sub(1))?)?;
    }
    let first = begin / alignment * alignment;
    let offset = begin - first;
    let elements = offset.checked_add(last)?.checked_add(1)?.checked_next_multiple_of(4)?;
    (access.placement != Placement::AtStart || offset == 0).then_some(Window { first, elements, offset })
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::gpu::Profile;
    use crate::random::{Stream, generator};

    fn limits(binding_bytes: u64, storage_alignment: u64) -> BindingLimits {
        BindingLimits { binding_bytes, storage_alignment, ..Profile::webgpu_defaults().limits }
    }

    /// Elements that an operand reaches for every turn of the given ranges, in the order of the loops.
    fn reached(access: &Access, starts: &[u64], sizes: &[u64]) -> Vec<u64> {
        let mut reached = vec![access.offset];
        for ((&start, &size), &stride) in starts.iter().zip(sizes).zip(&access.strides) {
            let indices = start..start + size;
            reached = reached
                .into_iter()
                .flat_map(|first| indices.clone().map(move |index| first + index * stride))
                .collect();
        }
        reached
    }

    /// Holds parts to what they promise.
    fn assert_sound(parts: &[Part], dimensions: &[Dimension], accesses: &[Access], limits: &BindingLimits) {
        let sizes: Vec<u64> = dimensions.iter().map(|dimension| dimension.size).collect();
        let counter = Access::strided(
            0,
            0,
            &crate::graph::view::row_major(&sizes.iter().map(|&size| size as usize).collect::<Vec<_>>()),
        );
        let mut turns: Vec<u64> = parts.iter().flat_map(|part| reached(&counter, &part.starts, &part.sizes)).collect();
        turns.sort_unstable();
        assert_eq!(turns, (0..sizes.iter().product()).collect::<Vec<_>>(), "each turn once");
        for part in parts {
            for (operand, (access, bound)) in accesses.iter().zip(part.bindings(accesses)).enumerate() {
                assert!(bound.bytes > 0 && bound.bytes <= limits.binding_bytes, "{bound:?} {limits:?}");
                assert!(
                    bound.bytes.is_multiple_of(16) && bound.offset.is_multiple_of(limits.storage_alignment),
                    "{bound:?}"
                );
                let found = reached(access, &part.starts, &part.sizes);
                // What the kernel makes of offset and strides, within the window.
                let strides = part.strides[operand].iter().map(|&stride| stride as usize).collect::<Vec<_>>();
                let of_kernel = Access::strided(0, part.offset(operand) as usize, &strides);
                let walked = reached(&of_kernel, &vec![0; sizes.len()], &part.sizes);
                let in_buffer: Vec<u64> = walked.iter().map(|at| at + bound.offset / 4).collect();
                assert_eq!(in_buffer, found);
                assert!(walked.iter().all(|at| at * 4 < bound.bytes), "{bound:?}");
                match access.placement {
                    Placement::Strided => {}
                    Placement::Dense => assert!(found.windows(2).all(|pair| pair[1] == pair[0] + 1), "{part:?}"),
                    Placement::AtStart => assert_eq!(part.offset(operand), 0, "{part:?}"),
                }
            }
            for (dimension, described) in dimensions.iter().enumerate() {
                match described.multiple {
                    Some(multiple) => assert!(part.starts[dimension].is_multiple_of(multiple), "{part:?}"),
                    None => assert_eq!((part.starts[dimension], part.sizes[dimension]), (0, described.size)),
                }
            }
        }
    }

    #[test]
    fn products_of_any_shape_are_divided_into_parts_that_fit_and_cover_every_turn_once() {
        let mut divided = 0;
        for round in 0..300 {
            let mut random = generator(23, Stream::Cases, 0, round);
            let mut size = |most: usize| random.random_range(1..=most);
            let (outer, inner, rows, columns, sum) = (size(3), size(3), size(30), size(30), size(30));
            let limits = limits(64 * size(30) as u64, [16, 64, 256][size(3) - 1]);
            let transposed = size(2) == 1;
            let dimensions = [
                Dimension::anywhere(outer),
                Dimension::anywhere(inner),
                Dimension::at_multiples(rows, 4),
                Dimension::at_multiples(columns, 4),
                Dimension::at_multiples(sum, 4),
            ];
            let (row, step) = if transposed { (1, rows) } else { (sum, 1) };
            let accesses = [
                Access::strided(0, size(9), &[inner * rows * sum, rows * sum, row, 0, step]),
                Access::strided(1, 0, &[0, sum * columns, 0, 1, columns]),
                Access::at_start(2, &[0, 0, 0, 1, 0]),
                Access::strided(3, 4, &[inner * rows * columns, rows * columns, columns, 1, 0]),
            ];
            let Some(parts) = divide(&dimensions, &accesses, &limits) else { continue };
            divided += usize::from(parts.len() > 1);
            assert_sound(&parts, &dimensions, &accesses, &limits);
            // Before a part adds to an element of C, one has begun it.
            let mut begun = std::collections::HashSet::new();
            for part in &parts {
                let (starts, sizes) = (&part.starts, &part.sizes);
                let of_c = reached(&accesses[3], starts, &[sizes[0], sizes[1], sizes[2], sizes[3], 1]);
                match part.start(4) {
                    0 => assert!(of_c.into_iter().all(|at| begun.insert(at))),
                    _ => assert!(of_c.iter().all(|at| begun.contains(at))),
                }
            }
        }
        assert!(divided > 100, "{divided}");
    }

    #[test]
    fn what_is_written_without_gaps_stays_so_in_every_part() {
        let mut divided = 0;
        for round in 0..300 {
            let mut random = generator(29, Stream::Cases, 0, round);
            let mut size = |most: usize| random.random_range(1..=most);
            let shape = [size(4), size(12), size(12)];
            let [_, rows, columns] = shape;
            let limits = limits(64 * size(12) as u64, [16, 64, 256][size(3) - 1]);
            let dimensions =
                [Dimension::anywhere(shape[0]), Dimension::anywhere(rows), Dimension::at_multiples(columns, 4)];
            let accesses = [
                Access::strided(0, size(7), &[rows * columns, 1, rows]),
                Access::strided(1, 0, &[0, columns, 1]),
                Access::dense(2, 0, &[rows * columns, columns, 1]),
            ];
            let Some(parts) = divide(&dimensions, &accesses, &limits) else { continue };
            divided += usize::from(parts.len() > 1);
            assert_sound(&parts, &dimensions, &accesses, &limits);
        }
        assert!(divided > 50, "{divided}");
    }

    #[test]
    fn rows_that_a_kernel_finds_at_the_start_of_its_binding_are_grouped_so_that_each_group_begins_aligned() {
        for (key_length, limit, expected) in [
            // 65 elements a row: every 64th row begins at a multiple of 64.
            (65, 4 * 65 * 100, Some(vec![64, 64, 64, 64, 44])),
            (64, 4 * 64 * 100, Some(vec![75, 75, 75, 75])),
            (96, 4 * 96 * 100, Some(vec![76, 74, 76, 74])),
            (300, 4 * 300, None),
            (65, 4 * 65 * 63, None),
        ] {
            let dimensions = [Dimension::anywhere(300), Dimension::whole(key_length)];
            let accesses = [Access::at_start(0, &[key_length, 1]), Access::at_start(1, &[key_length, 1])];
            let limits = limits(limit as u64, 256);
            let parts = divide(&dimensions, &accesses, &limits);
            let sizes = parts.as_ref().map(|parts| parts.iter().map(|part| part.sizes[0]).collect::<Vec<_>>());
            assert_eq!(sizes, expected, "{key_length}");
            parts.into_iter().for_each(|parts| assert_sound(&parts, &dimensions, &accesses, &limits));
        }
    }

    #[test]
    fn nothing_is_divided_that_fits_and_what_cannot_be_divided_is_not() {
        let flat = |elements| ([Dimension::anywhere(elements)], [Access::at_start(0, &[1])]);
        for (elements, limit, parts) in [(1024, 4096, 1), (1025, 4096, 2), (1, 16, 1), (1, 15, 0), (0, 16, 1)] {
            let (dimensions, accesses) = flat(elements);
            let found = divide(&dimensions, &accesses, &limits(limit, 256)).map_or(0, |parts| parts.len());
            assert_eq!(found, parts, "{elements} elements in {limit} bytes");
        }
        // A slice of a large buffer fits a window although the buffer does not.
        let slice = [Access::strided(0, 1_000_000, &[100, 1])];
        let parts = divide(&[Dimension::anywhere(10), Dimension::anywhere(8)], &slice, &limits(4096, 256)).unwrap();
        assert_eq!(parts[0].bindings(&slice), [BufferWindow { buffer: 0, offset: 4_000_000, bytes: 908 * 4 }]);
        assert_eq!((parts.len(), parts[0].offset(0), parts[0].count()), (1, 0, 80));
        let whole = [Dimension::whole(2000)];
        assert!(divide(&whole, &[Access::strided(0, 0, &[1])], &limits(4096, 256)).is_none());
    }

    #[test]
    fn matrices_beyond_32_bits_are_divided_and_numbers_that_overflow_are_refused() {
        // Two heads of 131072 x 131072 scores, 128 GiB; a binding counts less than 2^32 elements however large it may be.
        let length = 131_072;
        let dimensions = [Dimension::anywhere(2), Dimension::anywhere(length), Dimension::at_multiples(length, 4)];
        let accesses = [Access::strided(0, 0, &[length * length, length, 1])];
        for (binding_bytes, count) in [(128 << 20, 1024), (u64::MAX, 16)] {
            let parts = divide(&dimensions, &accesses, &limits(binding_bytes, 256)).unwrap();
            assert_eq!(parts.len(), count);
            assert!(parts.iter().all(|part| part.count() < u32::MAX && part.offset(0) == 0 && part.stride(0, 0) == 0));
            assert_eq!(parts[count - 1].bindings(&accesses)[0].offset, (1 << 37) - (1 << 37) / count as u64);
        }
        let endless = [Access::strided(0, usize::MAX, &[usize::MAX, 1, 0])];
        assert!(divide(&dimensions, &endless, &limits(4096, 256)).is_none());
    }

    #[test]
    fn scores_of_four_heads_are_divided_from_2897_positions_on_where_a_binding_holds_128_mebibytes() {
        for (length, parts) in [(2896, 1), (2897, 2), (4096, 2), (8192, 8)] {
            let dimensions = [Dimension::anywhere(4 * length), Dimension::whole(length)];
            let accesses = [Access::at_start(0, &[length, 1])];
            let found = divide(&dimensions, &accesses, &limits(128 << 20, 256)).unwrap();
            assert_eq!(found.len(), parts, "{length}");
        }
    }
}
