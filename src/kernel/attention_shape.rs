//! The sizes of an attention, which keys a query sees, and where the rows of its operands lie.

pub use super::softmax::{INVISIBLE as INVISIBLE_SCORE, MASKED as MASKED_SCORE};

/// Largest `head_dim` the kernels take.
pub const MAX_HEAD_DIM: u32 = 128;

/// Sizes and mask of one attention: `query [B, H, Tq, D]`, `key` and `value [B, Hkv, Tk, D]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionShape {
    pub batch: u32,
    pub heads: u32,
    pub key_value_heads: u32,
    pub query_length: u32,
    pub key_length: u32,
    pub head_dim: u32,
    pub causal: bool,
    /// Factor of `query . key`.
    pub scale: f64,
}

impl AttentionShape {
    /// How many of the first keys the query sees. A causal mask is aligned bottom-right: query `i` sees key `j` if and
    /// only if `j <= i + Tk - Tq`, so that the last query sees every key.
    pub fn visible_keys(&self, query: u32) -> u32 {
        let reach = u64::from(query) + 1 + u64::from(self.key_length);
        let last = reach.saturating_sub(u64::from(self.query_length));
        match u32::try_from(last) {
            Ok(last) if self.causal => last.min(self.key_length),
            _ => self.key_length,
        }
    }

    /// Query heads that read one key/value head.
    pub fn group(&self) -> u32 {
        self.heads / self.key_value_heads
    }

    /// Query-key pairs that are visible, over all heads and batches.
    pub fn visible_pairs(&self) -> u64 {
        let of_head: u64 = (0..self.query_length).map(|query| u64::from(self.visible_keys(query))).sum();
        u64::from(self.batch) * u64::from(self.heads) * of_head
    }

    /// Rows of queries, over all heads and batches.
    pub fn query_rows(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.heads) * u64::from(self.query_length)
    }

    /// Rows of keys, over all key/value heads and batches.
    pub fn key_rows(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.key_value_heads) * u64::from(self.key_length)
    }

    /// The class that a head dimension is compiled for: the smallest of 16, 32, 64, 96 and 128 that holds it.
    pub fn head_dim_class(&self) -> u32 {
        [16, 32, 64, 96].into_iter().find(|&class| self.head_dim <= class).unwrap_or(MAX_HEAD_DIM)
    }

    /// What every design asks of the sizes.
    ///
    /// # Errors
    /// The size that does not fit, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.head_dim == 0 || self.head_dim > MAX_HEAD_DIM {
            return Err(format!("head_dim {} is not in 1 to {MAX_HEAD_DIM}", self.head_dim));
        }
        if self.key_value_heads == 0 || !self.heads.is_multiple_of(self.key_value_heads) {
            return Err(format!("{} heads cannot share {} key/value heads evenly", self.heads, self.key_value_heads));
        }
        if self.query_length == 0 || self.key_length == 0 {
            return Err(format!("{} queries and {} keys: both must be at least 1", self.query_length, self.key_length));
        }
        Ok(())
    }

    /// What designs that read whole vec4 ask of the sizes and of the views.
    ///
    /// # Errors
    /// The number that is no multiple of 4.
    pub fn check_vec4(&self, views: &[RowView]) -> Result<(), String> {
        self.check()?;
        let numbers = views.iter().flat_map(|view| [view.offset, view.batch_stride, view.head_stride, view.row_stride]);
        match std::iter::once(self.head_dim).chain(numbers).find(|number| !number.is_multiple_of(4)) {
            Some(number) => Err(format!("head_dim, offsets and strides must be multiples of 4, {number} is not")),
            None => Ok(()),
        }
    }
}

/// Where the rows of a tensor `[B, H, T, D]` lie in a buffer, in elements. The elements of a row are adjacent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowView {
    pub offset: u32,
    pub batch_stride: u32,
    pub head_stride: u32,
    pub row_stride: u32,
}

impl RowView {
    pub const fn new(offset: u32, batch_stride: u32, head_stride: u32, row_stride: u32) -> Self {
        Self { offset, batch_stride, head_stride, row_stride }
    }

    /// The rows of a buffer that holds nothing but `[B, H, T, D]`.
    pub const fn contiguous(heads: u32, length: u32, head_dim: u32) -> Self {
        Self::new(0, heads * length * head_dim, length * head_dim, head_dim)
    }

    /// First element of a row.
    pub fn start(&self, batch: u32, head: u32, row: u32) -> usize {
        let reach = |count: u32, stride: u32| count as usize * stride as usize;
        self.offset as usize
            + reach(batch, self.batch_stride)
            + reach(head, self.head_stride)
            + reach(row, self.row_stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(query_length: u32, key_length: u32, causal: bool) -> AttentionShape {
        let (batch, heads, key_value_heads, head_dim, scale) = (2, 3, 1, 8, 1.0);
        AttentionShape { batch, heads, key_value_heads, query_length, key_length, head_dim, causal, scale }
    }

    #[test]
    fn a_causal_mask_is_aligned_bottom_right() {
        for (query_length, key_length, causal, expected) in [
            (4, 2, true, vec![0, 0, 1, 2]),
            (2, 5, true, vec![4, 5]),
            (3, 3, true, vec![1, 2, 3]),
            (3, 2, false, vec![2, 2, 2]),
            (1, 1, true, vec![1]),
        ] {
            let shape = shape(query_length, key_length, causal);
            let found: Vec<u32> = (0..query_length).map(|query| shape.visible_keys(query)).collect();
            assert_eq!(found, expected, "Tq={query_length} Tk={key_length} causal={causal}");
            assert_eq!(shape.visible_pairs(), 6 * expected.iter().map(|&keys| u64::from(keys)).sum::<u64>());
        }
    }

    #[test]
    fn sizes_that_no_design_takes_are_refused_with_their_numbers() {
        let refused = |change: fn(&mut AttentionShape), part: &str| {
            let mut shape = shape(2, 2, true);
            change(&mut shape);
            let message = shape.check().unwrap_err();
            assert!(message.contains(part), "{message}");
        };
        refused(|shape| shape.head_dim = 129, "129");
        refused(|shape| shape.head_dim = 0, "head_dim 0");
        refused(|shape| shape.key_value_heads = 2, "3 heads cannot share 2");
        refused(|shape| shape.key_value_heads = 0, "share 0");
        refused(|shape| shape.key_length = 0, "0 keys");
    }

    #[test]
    fn vec4_designs_refuse_what_is_not_aligned() {
        let shape = shape(2, 2, true);
        assert_eq!(shape.check_vec4(&[RowView::contiguous(3, 2, 8)]), Ok(()));
        assert!(shape.check_vec4(&[RowView::new(0, 16, 8, 9)]).unwrap_err().contains("9 is not"));
        assert!(shape.check_vec4(&[RowView::new(2, 16, 8, 8)]).unwrap_err().contains("2 is not"));
    }

    #[test]
    fn a_head_dimension_belongs_to_the_smallest_class_that_holds_it() {
        for (head_dim, class) in [(1, 16), (16, 16), (17, 32), (64, 64), (80, 96), (97, 128), (128, 128)] {
            assert_eq!(AttentionShape { head_dim, ..shape(1, 1, false) }.head_dim_class(), class);
        }
    }
}
