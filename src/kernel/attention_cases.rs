//! The attentions that every attention kernel is tried on: sizes, layouts and contents.

use super::attention_reference::{self as reference, Rows, RowsMut};
use super::attention_shape::{AttentionShape, RowView};
use crate::tape::{Tolerance, normal, words};

/// How the rows of the operands lie in their buffers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    /// `[B, H, T, D]` and nothing else.
    Contiguous,
    /// Query, key and value as parts of rows `[B, T, (H + 2 Hkv) D]`, output and its gradient as `[B, T, H D]`.
    Packed,
    /// As `Packed`, begun at element 3 and with rows 5 elements longer, so that nothing is aligned.
    Unaligned,
}

/// What query, key, value and output gradient hold.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Contents {
    Normal,
    /// Values a thousand times as large.
    LargeValues,
    /// Keys are 0 and value `j` is `j + 1`: an output is the mean of what its query sees.
    MeanOfValues,
    /// The values of key/value head `h` are `h + 1`: an output names the head it came from.
    ValueIsHead,
    /// Whole numbers that give exact scores of up to 29,584 of either sign.
    LargeScores,
    /// Scores of -1e30, which count, and of -1e38, which count as masked.
    BarelyVisible,
    /// The first 8 queries see scores near -27,735 only, while the keys masked from them score 27,735.
    LargeNegativeScores,
    /// The key of this number begins with inf, and queries with 0, 1 and -1 in turn: their scores of it are NaN, inf and
    /// -inf, which is masked. The last third of the queries begin with -1.
    NanByKey(u32),
    /// Queries begin with a number, inf, -inf and NaN in turn, the key of this number with 0, and all others with -1.
    NanByQuery(u32),
}

impl Contents {
    fn source_of_nan(self) -> Option<NanSource> {
        match self {
            Self::NanByKey(_) => Some(NanSource::Key),
            Self::NanByQuery(_) => Some(NanSource::Query),
            _ => None,
        }
    }
}

/// What is not finite where scores are NaN. A kernel that weighs it gets NaN from a weight of 0 as well, as far as its
/// blocks happen to reach beyond the mask, and cannot be held to such a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NanSource {
    Key,
    Query,
}

/// One attention with its inputs. Elements between the rows are NaN.
pub struct Setup {
    pub name: String,
    pub shape: AttentionShape,
    pub query: Input,
    pub key: Input,
    pub value: Input,
    pub output_gradient: Input,
    /// Where outputs of the shape of `query` go, and how many elements hold them.
    pub query_side: (RowView, usize),
    /// Where outputs of the shape of `key` go, and how many elements hold them.
    pub key_side: (RowView, usize),
    /// Largest magnitude of a query or key (about), of a value.
    pub magnitudes: Magnitudes,
    /// What makes scores NaN, where some are.
    pub nan: Option<NanSource>,
}

/// What rounding errors are in proportion to.
#[derive(Clone, Copy, Debug)]
pub struct Magnitudes {
    pub query_key: f64,
    pub value: f64,
}

impl Magnitudes {
    /// What a gradient may be off by in f32: the rounding of a score's gradient, times a query or a key.
    pub fn gradient_tolerance(&self, scale: f64) -> Tolerance {
        Tolerance::new(1e-5 * self.value * (scale * self.query_key).max(1.0), 1e-5)
    }
}

/// A buffer and where its rows lie.
pub struct Input {
    pub elements: Vec<f32>,
    pub view: RowView,
}

impl Input {
    pub fn rows(&self) -> Rows<'_, f32> {
        Rows { elements: &self.elements, view: self.view }
    }
}

/// The results of the forward pass, as a backward pass reads them.
pub struct Forward {
    pub output: Input,
    pub softmax_statistics: Vec<f32>,
    pub row_statistics: Vec<f32>,
}

impl Setup {
    /// Output, statistics of the softmax and delta by the reference.
    pub fn forward(&self) -> Forward {
        let (view, elements) = self.query_side;
        let mut output = vec![f32::NAN; elements];
        let mut log_sum_exp = vec![0.0; self.shape.query_rows() as usize];
        let mut softmax_statistics = vec![0.0; 2 * log_sum_exp.len()];
        let (query, key, value) = (self.query.rows(), self.key.rows(), self.value.rows());
        let mut rows = RowsMut { elements: &mut output, view };
        reference::forward(&self.shape, &query, &key, &value, &mut rows, &mut log_sum_exp, &mut softmax_statistics);
        let mut row_statistics = vec![0.0; 4 * log_sum_exp.len()];
        let output = Input { elements: output, view };
        let gradient = self.output_gradient.rows();
        reference::row_statistics(&self.shape, &output.rows(), &gradient, &softmax_statistics, &mut row_statistics);
        Forward { output, softmax_statistics, row_statistics }
    }
}

const TWO_TO_37: f32 = (1_u64 << 37) as f32;
const TWO_TO_63: f32 = (1_u64 << 63) as f32;

/// (B, H, Hkv, Tq, Tk, D, causal, layout, contents)
type Row = (u32, u32, u32, u32, u32, u32, bool, Layout, Contents);

/// Every attention to try. Small head dimensions come first: a planted fault is found there, where shaders compile fast.
pub fn setups() -> Vec<Setup> {
    use Contents::*;
    use Layout::*;
    let rows: &[Row] = &[
        (2, 3, 3, 17, 17, 16, true, Packed, Normal),
        (1, 6, 2, 33, 33, 16, true, Contiguous, Normal),
        (1, 4, 2, 9, 40, 13, true, Unaligned, Normal),
        (1, 1, 1, 1, 1, 8, true, Contiguous, Normal),
        (1, 1, 1, 4, 2, 8, true, Contiguous, Normal),
        (1, 1, 1, 2, 5, 4, true, Contiguous, MeanOfValues),
        (1, 1, 1, 2, 5, 1, true, Contiguous, MeanOfValues),
        (1, 4, 2, 3, 3, 8, false, Contiguous, ValueIsHead),
        (1, 2, 2, 7, 7, 16, false, Packed, Normal),
        (1, 2, 2, 8, 8, 16, true, Packed, Normal),
        (1, 2, 2, 9, 9, 16, true, Packed, Normal),
        (1, 2, 2, 15, 15, 16, true, Contiguous, Normal),
        (1, 2, 2, 16, 16, 16, true, Contiguous, Normal),
        (1, 1, 1, 31, 31, 16, true, Packed, Normal),
        (1, 1, 1, 32, 32, 16, false, Packed, Normal),
        (1, 1, 1, 63, 33, 16, true, Contiguous, Normal),
        (1, 1, 1, 65, 65, 16, true, Packed, Normal),
        (1, 2, 2, 48, 48, 16, true, Contiguous, LargeScores),
        (1, 2, 2, 48, 48, 16, false, Contiguous, LargeScores),
        (1, 2, 1, 48, 48, 16, true, Packed, LargeNegativeScores),
        (1, 4, 2, 24, 57, 16, true, Packed, LargeScores),
        (1, 2, 1, 57, 24, 12, true, Contiguous, LargeScores),
        (2, 2, 1, 19, 70, 13, false, Unaligned, LargeScores),
        (1, 4, 2, 40, 44, 16, true, Contiguous, LargeNegativeScores),
        (2, 4, 2, 60, 40, 16, true, Packed, LargeNegativeScores),
        (1, 2, 1, 40, 40, 15, true, Unaligned, LargeNegativeScores),
        (1, 1, 1, 20, 20, 16, true, Contiguous, BarelyVisible),
        (2, 4, 4, 64, 64, 32, true, Packed, Normal),
        (2, 6, 2, 33, 33, 32, false, Packed, Normal),
        (1, 2, 2, 32, 32, 32, true, Unaligned, Normal),
        (1, 2, 2, 1, 77, 32, true, Contiguous, Normal),
        (1, 2, 2, 77, 1, 32, false, Packed, Normal),
        (1, 2, 2, 33, 5, 32, true, Contiguous, Normal),
        (1, 2, 2, 5, 33, 32, true, Packed, Normal),
        (1, 2, 2, 64, 200, 32, false, Contiguous, Normal),
        (1, 2, 2, 37, 37, 24, true, Packed, Normal),
        (1, 1, 1, 200, 200, 40, true, Contiguous, Normal),
        (1, 1, 1, 200, 200, 40, true, Contiguous, LargeValues),
        (1, 2, 2, 64, 64, 64, true, Packed, Normal),
        (1, 1, 1, 257, 257, 64, true, Contiguous, Normal),
        (1, 2, 1, 41, 41, 80, true, Packed, Normal),
        (1, 1, 1, 33, 40, 96, false, Contiguous, Normal),
        (1, 1, 1, 35, 35, 101, true, Unaligned, Normal),
        (1, 2, 1, 65, 65, 128, true, Packed, Normal),
        (66_000, 1, 1, 1, 1, 4, true, Contiguous, Normal),
    ];
    let with_nan: &[Row] = &[
        (1, 2, 1, 20, 20, 16, true, Packed, NanByKey(0)),
        (1, 2, 1, 20, 20, 16, true, Packed, NanByQuery(0)),
        (1, 1, 1, 37, 37, 16, true, Contiguous, NanByKey(12)),
        (1, 1, 1, 37, 37, 16, true, Contiguous, NanByQuery(12)),
        (1, 4, 2, 9, 40, 13, true, Unaligned, NanByKey(34)),
        (1, 4, 2, 9, 40, 13, true, Unaligned, NanByQuery(39)),
        (2, 1, 1, 33, 18, 8, false, Packed, NanByKey(17)),
        (2, 1, 1, 33, 18, 8, false, Packed, NanByQuery(17)),
        (1, 1, 1, 34, 34, 40, true, Contiguous, NanByKey(12)),
        (1, 1, 1, 34, 34, 40, true, Contiguous, NanByQuery(12)),
    ];
    let (first, others) = rows.split_at(3);
    let first = first.iter().zip(1..);
    let (with_nan, others) = (with_nan.iter().zip(101..), others.iter().zip(4..));
    first.chain(with_nan).chain(others).map(|(row, seed)| setup(*row, seed)).collect()
}

fn setup(row: Row, seed: u64) -> Setup {
    let (batch, heads, key_value_heads, query_length, key_length, head_dim, causal, layout, contents) = row;
    let exact = !matches!(contents, Contents::Normal | Contents::LargeValues) && contents.source_of_nan().is_none();
    let scale = if exact { 1.0 } else { 1.0 / f64::from(head_dim).sqrt() };
    let shape = AttentionShape { batch, heads, key_value_heads, query_length, key_length, head_dim, causal, scale };
    let (query_width, key_width) = (heads * head_dim, key_value_heads * head_dim);
    let packed_width = query_width + 2 * key_width;
    // Views of query, key, value, and of tensors with the shape of query and of key.
    let views = match layout {
        Layout::Contiguous => {
            let (query, key) = (
                RowView::contiguous(heads, query_length, head_dim),
                RowView::contiguous(key_value_heads, key_length, head_dim),
            );
            [query, key, key, query, key]
        }
        Layout::Packed | Layout::Unaligned => {
            let (begin, extra) = if layout == Layout::Packed { (0, 0) } else { (3, 5) };
            let view = |length: u32, width: u32, first: u32| {
                RowView::new(begin + first, length * (width + extra), head_dim, width + extra)
            };
            [
                view(query_length, packed_width, 0),
                view(key_length, packed_width, query_width),
                view(key_length, packed_width, query_width + key_width),
                view(query_length, query_width + 8, 4),
                view(key_length, key_width + 8, 4),
            ]
        }
    };
    let [query_view, key_view, value_view, output_view, gradient_view] = views;
    let fill = |view: RowView, queries: bool, tensor: u64, element: &dyn Fn(u32, u32, u32, f32) -> f32| {
        let (heads, length) = if queries { (heads, query_length) } else { (key_value_heads, key_length) };
        let mut elements = vec![f32::NAN; extent(view, batch, heads, length, head_dim)];
        let mut values = normal(seed, tensor, (batch * heads * length * head_dim) as usize, 1.0).into_iter();
        for (batch, head, row) in positions(batch, heads, length) {
            let first = view.start(batch, head, row);
            for (dimension, value) in (0..head_dim).zip(&mut values) {
                elements[first + dimension as usize] = element(head, row, dimension, value);
            }
        }
        Input { elements, view }
    };
    let signs = words(seed, 4, (query_length.max(key_length)) as usize, 2);
    let small = words(seed, 5, key_length as usize, 7);
    let query = |_: u32, row: u32, dimension: u32, value: f32| match contents {
        Contents::LargeScores => {
            let sign = if signs[row as usize] == 0 { 43.0 } else { -43.0 };
            if dimension == 0 && row.is_multiple_of(2) { 1.0 } else { sign }
        }
        Contents::BarelyVisible => {
            if dimension == 0 {
                TWO_TO_63
            } else {
                0.0
            }
        }
        Contents::LargeNegativeScores => {
            if dimension == 0 {
                1.0
            } else {
                43.0
            }
        }
        Contents::NanByKey(_) if dimension == 0 => {
            let begin = [0.0, 1.0, -1.0][row as usize % 3];
            if 3 * row < 2 * query_length { begin } else { -1.0 }
        }
        Contents::NanByQuery(_) if dimension == 0 => {
            [value, f32::INFINITY, f32::NEG_INFINITY, f32::NAN][row as usize % 4]
        }
        _ => value,
    };
    let key = |_: u32, row: u32, dimension: u32, value: f32| match contents {
        Contents::BarelyVisible => {
            if row.is_multiple_of(2) {
                -TWO_TO_63
            } else {
                -TWO_TO_37
            }
        }
        Contents::MeanOfValues => 0.0,
        Contents::NanByKey(key) if dimension == 0 && row == key => f32::INFINITY,
        Contents::NanByQuery(key) if dimension == 0 => {
            if row == key {
                0.0
            } else {
                -1.0
            }
        }
        Contents::LargeScores | Contents::LargeNegativeScores => {
            let negative = match contents {
                Contents::LargeScores => row.is_multiple_of(3),
                _ => row < 8,
            };
            let sign = if negative { -43.0 } else { 43.0 };
            if dimension == 0 && !row.is_multiple_of(5) { small[row as usize] as f32 - 3.0 } else { sign }
        }
        _ => value,
    };
    let value = |head: u32, row: u32, _: u32, value: f32| match contents {
        Contents::LargeValues => 1000.0 * value,
        Contents::MeanOfValues => row as f32 + 1.0,
        Contents::ValueIsHead => head as f32 + 1.0,
        _ => value,
    };
    let magnitudes = Magnitudes {
        query_key: match contents {
            Contents::LargeScores | Contents::LargeNegativeScores => 43.0,
            Contents::BarelyVisible => f64::from(TWO_TO_63),
            _ => 3.0,
        },
        value: if contents == Contents::LargeValues { 1000.0 } else { 1.0 },
    };
    let mask = if causal { " causal" } else { "" };
    Setup {
        name: format!(
            "B={batch} H={heads} Hkv={key_value_heads} Tq={query_length} Tk={key_length} D={head_dim}{mask} \
             {layout:?} {contents:?} seed={seed}"
        ),
        shape,
        query: fill(query_view, true, 0, &query),
        key: fill(key_view, false, 1, &key),
        value: fill(value_view, false, 2, &value),
        output_gradient: fill(output_view, true, 3, &|_, _, _, value| value),
        query_side: (output_view, extent(output_view, batch, heads, query_length, head_dim)),
        key_side: (gradient_view, extent(gradient_view, batch, key_value_heads, key_length, head_dim)),
        magnitudes,
        nan: contents.source_of_nan(),
    }
}

fn positions(batch: u32, heads: u32, length: u32) -> impl Iterator<Item = (u32, u32, u32)> {
    (0..batch)
        .flat_map(move |batch| (0..heads).map(move |head| (batch, head)))
        .flat_map(move |(batch, head)| (0..length).map(move |row| (batch, head, row)))
}

/// Elements up to the end of the last row.
fn extent(view: RowView, batch: u32, heads: u32, length: u32, head_dim: u32) -> usize {
    view.start(batch - 1, heads - 1, length - 1) + head_dim as usize
}
