//! Textbook attention: for each query the scores of all its keys are written down, then used.
//!
//! Forward: `s = scale q . k` over the visible keys, `weights = softmax(s)`, `output = weights . value`, and
//! `log_sum_exp = ln(sum(exp(s)))` (Vaswani et al. 2017, section 3.2.1). Backward: with `p = exp(s - m) / l`, where `m` is
//! the largest score and `l = sum(exp(s - m))`, `delta = output_gradient . output` and `dp = output_gradient . v`, the
//! gradient of a score is `ds = p (dp - delta)` (Dao et al. 2022, appendix B.2).
//!
//! `m` and `l` are stored, and not only `log_sum_exp = m + ln(l)`: near a score of 28,000 that sum in f32 is off by up to
//! 0.001, and so would every weight be.

use super::attention_shape::{AttentionShape, INVISIBLE_SCORE, MASKED_SCORE, RowView};
use super::softmax::overflows;
use crate::tape::{Real, Wide};

/// The rows of an operand that is read.
pub struct Rows<'a, S> {
    pub elements: &'a [S],
    pub view: RowView,
}

/// The rows of an operand that is written.
pub struct RowsMut<'a, S> {
    pub elements: &'a mut [S],
    pub view: RowView,
}

/// The rows of one head as they are computed with, or their transpose `[D, T]`, over which a score is a sum of whole rows.
struct Head<W> {
    rows: Vec<W>,
    transposed: Vec<W>,
    length: usize,
}

impl<S: Real> Rows<'_, S> {
    pub(super) fn row(&self, batch: u32, head: u32, row: u32, head_dim: u32) -> Vec<S::Wide> {
        let first = self.view.start(batch, head, row);
        self.elements[first..first + head_dim as usize].iter().map(|element| element.wide()).collect()
    }

    fn head(&self, batch: u32, head: u32, length: u32, head_dim: u32) -> Head<S::Wide> {
        let rows: Vec<S::Wide> = (0..length).flat_map(|row| self.row(batch, head, row, head_dim)).collect();
        let (length, head_dim) = (length as usize, head_dim as usize);
        let mut transposed = vec![S::Wide::of(0.0); rows.len()];
        for (index, &element) in rows.iter().enumerate() {
            transposed[(index % head_dim) * length + index / head_dim] = element;
        }
        Head { rows, transposed, length }
    }
}

impl<S: Real> RowsMut<'_, S> {
    pub(super) fn store(&mut self, batch: u32, head: u32, row: u32, values: &[S::Wide]) {
        let first = self.view.start(batch, head, row);
        for (element, &value) in self.elements[first..first + values.len()].iter_mut().zip(values) {
            *element = S::narrow(value);
        }
    }
}

impl<W: Wide> Head<W> {
    fn row(&self, row: usize, head_dim: usize) -> &[W] {
        &self.rows[row * head_dim..(row + 1) * head_dim]
    }

    /// `products[j] = factor * vector . row_j` for as many rows as `products` holds.
    fn products(&self, vector: &[W], factor: W, products: &mut [W]) {
        products.fill(W::of(0.0));
        for (dimension, &element) in vector.iter().enumerate() {
            let column = &self.transposed[dimension * self.length..][..products.len()];
            for (product, &other) in products.iter_mut().zip(column) {
                *product += element * other;
            }
        }
        for product in products {
            *product *= factor;
        }
    }
}

/// `sum += factor * row`
fn add_scaled<W: Wide>(sum: &mut [W], factor: W, row: &[W]) {
    for (sum, &element) in sum.iter_mut().zip(row) {
        *sum += factor * element;
    }
}

/// `p[j] = factor * exp(scores[j] - largest)` in place; a score that counts as masked gives 0, and one that is NaN gives
/// NaN.
fn weights_in_place<W: Wide>(scores: &mut [W], largest: W, factor: W) {
    for score in scores {
        *score = if *score <= W::of(INVISIBLE_SCORE) { W::of(0.0) } else { (*score - largest).exp() * factor };
    }
}

/// Attention output `[B, H, Tq, D]`, log-sum-exp `[B, H, Tq]`, and `softmax_statistics [2, B, H, Tq]`: the largest score
/// `m`, then `l = sum(exp(s - m))`. A query that sees nothing gives the output 0, log-sum-exp and `m` -2^127, and `l` 0. One
/// that sees a score that is NaN or +inf gives NaN everywhere.
pub fn forward<S: Real>(
    shape: &AttentionShape,
    query: &Rows<'_, S>,
    key: &Rows<'_, S>,
    value: &Rows<'_, S>,
    output: &mut RowsMut<'_, S>,
    log_sum_exp: &mut [S],
    softmax_statistics: &mut [S],
) {
    let rows = shape.query_rows() as usize;
    let [scale, zero, one, masked] = [shape.scale, 0.0, 1.0, MASKED_SCORE].map(S::Wide::of);
    let mut scores = vec![zero; shape.key_length as usize];
    for_each_query_head(shape, key, value, |batch, head, keys, values| {
        for row in 0..shape.query_length {
            let scores = &mut scores[..shape.visible_keys(row) as usize];
            keys.products(&query.row(batch, head, row, shape.head_dim), scale, scores);
            // Rounded as it is stored, since the sum belongs to what the backward passes read.
            let largest = S::narrow(scores.iter().copied().fold(masked, S::Wide::max));
            weights_in_place(scores, largest.wide(), one);
            let sum: S::Wide = match overflows::<S>(largest.wide()) {
                true => S::Wide::of(f64::NAN),
                false => scores.iter().copied().sum(),
            };
            let mut context = vec![zero; shape.head_dim as usize];
            let at = statistics_index(shape, batch, head, row);
            (log_sum_exp[at], softmax_statistics[at]) = (S::narrow(masked), S::narrow(masked));
            softmax_statistics[rows + at] = S::narrow(sum);
            if sum != zero {
                for (index, &weight) in scores.iter().enumerate() {
                    add_scaled(&mut context, weight / sum, values.row(index, shape.head_dim as usize));
                }
                log_sum_exp[at] = S::narrow(largest.wide() + sum.ln());
                softmax_statistics[at] = if sum.is_nan() { S::narrow(sum) } else { largest };
            }
            output.store(batch, head, row, &context);
        }
    });
}

/// `row_statistics [B, H, Tq, 4]`: `m`, `1 / l` (0 where the query sees nothing), `delta = output_gradient . output`, 0.
/// Where `l` is NaN, delta is 0: `1 / l` says enough, and masked keys, whose weights are 0, stay clear of it.
pub fn row_statistics<S: Real>(
    shape: &AttentionShape,
    output: &Rows<'_, S>,
    output_gradient: &Rows<'_, S>,
    softmax_statistics: &[S],
    row_statistics: &mut [S],
) {
    let rows = shape.query_rows() as usize;
    let (zero, one) = (S::Wide::of(0.0), S::Wide::of(1.0));
    for batch in 0..shape.batch {
        for head in 0..shape.heads {
            for row in 0..shape.query_length {
                let gradient = output_gradient.row(batch, head, row, shape.head_dim);
                let context = output.row(batch, head, row, shape.head_dim);
                let at = statistics_index(shape, batch, head, row);
                let (largest, sum) = (softmax_statistics[at], softmax_statistics[rows + at].wide());
                let delta: S::Wide = match sum.is_nan() {
                    true => zero,
                    false => gradient.iter().zip(&context).map(|(&a, &b)| a * b).sum(),
                };
                let inverse_sum = S::narrow(if sum == zero { zero } else { one / sum });
                let of_row = [largest, inverse_sum, S::narrow(delta), S::narrow(zero)];
                row_statistics[4 * at..4 * at + 4].copy_from_slice(&of_row);
            }
        }
    }
}

/// `query_gradient = scale sum_j ds_j key_j`.
pub fn backward_query<S: Real>(
    shape: &AttentionShape,
    query: &Rows<'_, S>,
    key: &Rows<'_, S>,
    value: &Rows<'_, S>,
    output_gradient: &Rows<'_, S>,
    row_statistics: &[S],
    query_gradient: &mut RowsMut<'_, S>,
) {
    let scale = S::Wide::of(shape.scale);
    let mut score_row = ScoreRow::new(shape);
    for_each_query_head(shape, key, value, |batch, head, keys, values| {
        for row in 0..shape.query_length {
            let vector = query.row(batch, head, row, shape.head_dim);
            let gradient = output_gradient.row(batch, head, row, shape.head_dim);
            let at = statistics_index(shape, batch, head, row);
            score_row.differentiate(shape, row, &vector, &gradient, keys, values, &Statistics::of(row_statistics, at));
            let mut sum = vec![S::Wide::of(0.0); shape.head_dim as usize];
            for (index, &slope) in score_row.score_gradients.iter().enumerate() {
                add_scaled(&mut sum, scale * slope, keys.row(index, shape.head_dim as usize));
            }
            query_gradient.store(batch, head, row, &sum);
        }
    });
}

/// `key_gradient_j = scale sum_i ds_ij query_i` and `value_gradient_j = sum_i p_ij output_gradient_i`, over the queries
/// of every head that reads the key.
#[expect(clippy::too_many_arguments, reason = "the operands of the formula, each once")]
pub fn backward_key_value<S: Real>(
    shape: &AttentionShape,
    query: &Rows<'_, S>,
    key: &Rows<'_, S>,
    value: &Rows<'_, S>,
    output_gradient: &Rows<'_, S>,
    row_statistics: &[S],
    key_gradient: &mut RowsMut<'_, S>,
    value_gradient: &mut RowsMut<'_, S>,
) {
    let head_dim = shape.head_dim as usize;
    let scale = S::Wide::of(shape.scale);
    let mut score_row = ScoreRow::new(shape);
    for batch in 0..shape.batch {
        for key_head in 0..shape.key_value_heads {
            let keys = key.head(batch, key_head, shape.key_length, shape.head_dim);
            let values = value.head(batch, key_head, shape.key_length, shape.head_dim);
            let zeros = vec![S::Wide::of(0.0); keys.rows.len()];
            let (mut key_sums, mut value_sums) = (zeros.clone(), zeros);
            for head in key_head * shape.group()..(key_head + 1) * shape.group() {
                for row in 0..shape.query_length {
                    let vector = query.row(batch, head, row, shape.head_dim);
                    let gradient = output_gradient.row(batch, head, row, shape.head_dim);
                    let at = statistics_index(shape, batch, head, row);
                    let statistics = Statistics::of(row_statistics, at);
                    score_row.differentiate(shape, row, &vector, &gradient, &keys, &values, &statistics);
                    let slopes = score_row.score_gradients.iter().zip(&score_row.weights);
                    let sums = key_sums.chunks_exact_mut(head_dim).zip(value_sums.chunks_exact_mut(head_dim));
                    for ((&slope, &weight), (key_sum, value_sum)) in slopes.zip(sums) {
                        add_scaled(key_sum, scale * slope, &vector);
                        add_scaled(value_sum, weight, &gradient);
                    }
                }
            }
            for (row, (key_sum, value_sum)) in
                (0..shape.key_length).zip(key_sums.chunks_exact(head_dim).zip(value_sums.chunks_exact(head_dim)))
            {
                key_gradient.store(batch, key_head, row, key_sum);
                value_gradient.store(batch, key_head, row, value_sum);
            }
        }
    }
}

/// The weights of one query's keys and the gradients of its scores.
struct ScoreRow<W> {
    weights: Vec<W>,
    score_gradients: Vec<W>,
}

impl<W: Wide> ScoreRow<W> {
    fn new(shape: &AttentionShape) -> Self {
        let keys = shape.key_length as usize;
        Self { weights: Vec::with_capacity(keys), score_gradients: Vec::with_capacity(keys) }
    }

    #[expect(clippy::too_many_arguments, reason = "the operands of the formula, each once")]
    fn differentiate(
        &mut self,
        shape: &AttentionShape,
        row: u32,
        query: &[W],
        output_gradient: &[W],
        keys: &Head<W>,
        values: &Head<W>,
        statistics: &Statistics<W>,
    ) {
        let visible = shape.visible_keys(row) as usize;
        self.weights.resize(visible, W::of(0.0));
        self.score_gradients.resize(visible, W::of(0.0));
        keys.products(query, W::of(shape.scale), &mut self.weights);
        weights_in_place(&mut self.weights, statistics.largest, statistics.inverse_sum);
        values.products(output_gradient, W::of(1.0), &mut self.score_gradients);
        for (slope, &weight) in self.score_gradients.iter_mut().zip(&self.weights) {
            *slope = weight * (*slope - statistics.delta);
        }
    }
}

/// Where the statistics of a query lie among those of all queries.
pub(super) fn statistics_index(shape: &AttentionShape, batch: u32, head: u32, row: u32) -> usize {
    RowView::contiguous(shape.heads, shape.query_length, 1).start(batch, head, row)
}

/// What the backward passes know of a query.
pub(super) struct Statistics<W> {
    pub(super) largest: W,
    pub(super) inverse_sum: W,
    pub(super) delta: W,
}

impl<W: Wide> Statistics<W> {
    pub(super) fn of<S: Real<Wide = W>>(row_statistics: &[S], at: usize) -> Self {
        let [largest, inverse_sum, delta] = [0, 1, 2].map(|which| row_statistics[4 * at + which].wide());
        Self { largest, inverse_sum, delta }
    }
}

/// Calls `work(batch, head, keys, values)` for every query head, with the rows of the key/value head that it reads.
fn for_each_query_head<S: Real>(
    shape: &AttentionShape,
    key: &Rows<'_, S>,
    value: &Rows<'_, S>,
    mut work: impl FnMut(u32, u32, &Head<S::Wide>, &Head<S::Wide>),
) {
    for batch in 0..shape.batch {
        for key_head in 0..shape.key_value_heads {
            let keys = key.head(batch, key_head, shape.key_length, shape.head_dim);
            let values = value.head(batch, key_head, shape.key_length, shape.head_dim);
            for head in key_head * shape.group()..(key_head + 1) * shape.group() {
                work(batch, head, &keys, &values);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attention on contiguous f64 buffers, forward and backward.
    struct Attention {
        shape: AttentionShape,
        query: Vec<f64>,
        key: Vec<f64>,
        value: Vec<f64>,
        output_gradient: Vec<f64>,
    }

    /// Picks the tensor that is changed.
    type Input = fn(&mut Attention) -> &mut Vec<f64>;

    struct Results {
        output: Vec<f64>,
        log_sum_exp: Vec<f64>,
        softmax_statistics: Vec<f64>,
    }

    struct Gradients {
        query: Vec<f64>,
        key: Vec<f64>,
        value: Vec<f64>,
    }

    impl Attention {
        fn query_view(&self) -> RowView {
            RowView::contiguous(self.shape.heads, self.shape.query_length, self.shape.head_dim)
        }

        fn key_view(&self) -> RowView {
            RowView::contiguous(self.shape.key_value_heads, self.shape.key_length, self.shape.head_dim)
        }

        fn operands(&self) -> [Rows<'_, f64>; 4] {
            let query = |elements| Rows { elements, view: self.query_view() };
            let key = |elements| Rows { elements, view: self.key_view() };
            [query(&self.query), key(&self.key), key(&self.value), query(&self.output_gradient)]
        }

        fn forward(&self) -> Results {
            let [query, key, value, _] = self.operands();
            let rows = self.shape.query_rows() as usize;
            let mut results = Results {
                output: vec![f64::NAN; self.query.len()],
                log_sum_exp: vec![f64::NAN; rows],
                softmax_statistics: vec![f64::NAN; 2 * rows],
            };
            let Results { output, log_sum_exp, softmax_statistics } = &mut results;
            let mut output = RowsMut { elements: output, view: self.query_view() };
            forward(&self.shape, &query, &key, &value, &mut output, log_sum_exp, softmax_statistics);
            results
        }

        fn loss(&self) -> f64 {
            self.forward().output.iter().zip(&self.output_gradient).map(|(a, b)| a * b).sum()
        }

        fn backward(&self) -> Gradients {
            let [query, key, value, output_gradient] = self.operands();
            let Results { output, softmax_statistics, .. } = self.forward();
            let mut statistics = vec![f64::NAN; 2 * softmax_statistics.len()];
            let output = Rows { elements: &output, view: self.query_view() };
            row_statistics(&self.shape, &output, &output_gradient, &softmax_statistics, &mut statistics);
            let mut gradients = Gradients {
                query: vec![f64::NAN; self.query.len()],
                key: vec![f64::NAN; self.key.len()],
                value: vec![f64::NAN; self.value.len()],
            };
            let mut rows = RowsMut { elements: &mut gradients.query, view: self.query_view() };
            backward_query(&self.shape, &query, &key, &value, &output_gradient, &statistics, &mut rows);
            let mut key_rows = RowsMut { elements: &mut gradients.key, view: self.key_view() };
            let mut value_rows = RowsMut { elements: &mut gradients.value, view: self.key_view() };
            backward_key_value(
                &self.shape,
                &query,
                &key,
                &value,
                &output_gradient,
                &statistics,
                &mut key_rows,
                &mut value_rows,
            );
            gradients
        }
    }

    /// One head of dimension 1 and scale 1.
    fn column(query: &[f64], key: &[f64], value: &[f64], causal: bool) -> Attention {
        let (query_length, key_length) = (query.len() as u32, key.len() as u32);
        let (batch, heads, key_value_heads, head_dim, scale) = (1, 1, 1, 1, 1.0);
        let shape = AttentionShape { batch, heads, key_value_heads, query_length, key_length, head_dim, causal, scale };
        let output_gradient = vec![1.0; query.len()];
        Attention { shape, query: query.into(), key: key.into(), value: value.into(), output_gradient }
    }

    fn assert_close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{found} against {expected}");
        }
    }

    #[test]
    fn two_keys_give_the_values_and_gradients_computed_by_hand() {
        // Scores 0 and ln 3: weights 1/4 and 3/4, output 3, delta 3, dp (0, 4), ds (-3/4, 3/4).
        let attention = column(&[1.0], &[0.0, 3f64.ln()], &[0.0, 4.0], true);
        let results = attention.forward();
        assert_close(&results.output, &[3.0]);
        assert_close(&results.log_sum_exp, &[4f64.ln()]);
        assert_close(&results.softmax_statistics, &[3f64.ln(), 4.0 / 3.0]);
        let gradients = attention.backward();
        assert_close(&gradients.query, &[0.75 * 3f64.ln()]);
        assert_close(&gradients.key, &[-0.75, 0.75]);
        assert_close(&gradients.value, &[0.25, 0.75]);
    }

    #[test]
    fn equal_scores_give_the_mean_of_the_values_that_are_seen() {
        let attention = column(&[0.0; 2], &[0.0; 5], &[1.0, 2.0, 3.0, 4.0, 5.0], true);
        assert_close(&attention.forward().output, &[2.5, 3.0]);
    }

    #[test]
    fn queries_that_see_nothing_give_zeros_and_the_sentinel() {
        let attention = column(&[1.0; 4], &[2.0, 2.0], &[7.0, 9.0], true);
        let results = attention.forward();
        assert_close(&results.output, &[0.0, 0.0, 7.0, 8.0]);
        assert_close(&results.log_sum_exp, &[MASKED_SCORE, MASKED_SCORE, 2.0, 2.0 + 2f64.ln()]);
        assert_close(&results.softmax_statistics, &[MASKED_SCORE, MASKED_SCORE, 2.0, 2.0, 0.0, 0.0, 1.0, 2.0]);
        let gradients = attention.backward();
        assert_close(&gradients.query, &[0.0; 4]);
        assert_close(&gradients.key, &[-0.5, 0.5]);
        assert_close(&gradients.value, &[1.5, 0.5]);
    }

    #[test]
    fn a_nan_reaches_the_queries_that_see_it_and_the_keys_that_they_see() {
        // Scores are products of the query 1 or 0 with the key: NaN, +-inf, or 0 * inf = NaN.
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        for (query, key, broken) in [
            ([1.0, 1.0, 1.0], [nan, 1.0, 1.0], [true, true, true]),
            ([1.0, 1.0, 1.0], [1.0, nan, 1.0], [false, true, true]),
            ([1.0, 1.0, 1.0], [1.0, 1.0, nan], [false, false, true]),
            ([1.0, nan, 1.0], [1.0, 1.0, 1.0], [false, true, false]),
            ([1.0, 0.0, -1.0], [1.0, infinity, 1.0], [false, true, false]),
            ([1.0, 1.0, -1.0], [-infinity, infinity, 1.0], [false, true, true]),
            ([1.0, 1.0, 1.0], [1.0, -infinity, 1.0], [false, false, false]),
        ] {
            let attention = column(&query, &key, &[1.0, 2.0, 3.0], true);
            let Results { output, log_sum_exp, softmax_statistics } = attention.forward();
            let gradients = attention.backward();
            for (row, broken) in broken.into_iter().enumerate() {
                let found = [output[row], log_sum_exp[row], softmax_statistics[row], softmax_statistics[3 + row]];
                assert!(found.iter().all(|value| value.is_nan() == broken), "{query:?} {key:?} row {row}: {found:?}");
                assert!(gradients.query[row].is_nan() || !broken, "{query:?} {key:?} row {row}");
            }
            // The weights of the last broken query reach its own key, and none behind it.
            let reach = broken.iter().rposition(|&broken| broken).map_or(0, |row| row + 1);
            assert!(gradients.value[reach..].iter().all(|value| value.is_finite()), "{query:?} {key:?}");
            assert!(reach == 0 || gradients.value[reach - 1].is_nan(), "{query:?} {key:?}");
        }
    }

    #[test]
    fn very_negative_scores_count_unless_they_are_below_the_threshold() {
        let results = column(&[1.0], &[-1e30, -1e38], &[5.0, 6.0], false).forward();
        assert_close(&results.output, &[5.0]);
        assert_close(&results.log_sum_exp, &[-1e30]);
        let masked = column(&[1.0], &[-1e38], &[5.0], false);
        assert_close(&masked.forward().output, &[0.0]);
        assert_close(&masked.forward().softmax_statistics, &[MASKED_SCORE, 0.0]);
        assert_close(&masked.backward().value, &[0.0]);
    }

    #[test]
    fn weights_of_the_backward_pass_keep_their_precision_whatever_the_scores_are() {
        // Two equal scores: the gradient of each value is 1/2, and the log-sum-exp loses ln 2 where scores are huge.
        for score in [0.0, 28_000.0, -28_000.0, 1e20, -1e30] {
            let gradients = column(&[1.0], &[score, score], &[5.0, 7.0], false).backward();
            assert_close(&gradients.value, &[0.5, 0.5]);
            assert_close(&gradients.key, &[-0.5, 0.5]);
        }
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        for (query_length, key_length, causal) in [(5, 5, true), (3, 6, true), (6, 3, true), (4, 3, false)] {
            let (batch, heads, key_value_heads, head_dim, scale) = (2, 4, 2, 3, 0.6);
            let shape =
                AttentionShape { batch, heads, key_value_heads, query_length, key_length, head_dim, causal, scale };
            let fill = |tensor: u64, rows: u64| -> Vec<f64> {
                let values = crate::tape::normal(11, tensor, (rows * u64::from(head_dim)) as usize, 1.0);
                values.into_iter().map(f64::from).collect()
            };
            let mut attention = Attention {
                shape,
                query: fill(0, shape.query_rows()),
                key: fill(1, shape.key_rows()),
                value: fill(2, shape.key_rows()),
                output_gradient: fill(3, shape.query_rows()),
            };
            let gradients = attention.backward();
            let inputs: [(Input, &Vec<f64>); 3] = [
                (|attention| &mut attention.query, &gradients.query),
                (|attention| &mut attention.key, &gradients.key),
                (|attention| &mut attention.value, &gradients.value),
            ];
            for (tensor, (input, gradient)) in inputs.into_iter().enumerate() {
                for (index, expected) in gradient.iter().enumerate() {
                    let step = 1e-5;
                    input(&mut attention)[index] += step;
                    let above = attention.loss();
                    input(&mut attention)[index] -= 2.0 * step;
                    let below = attention.loss();
                    input(&mut attention)[index] += step;
                    let slope = (above - below) / (2.0 * step);
                    let error = (slope - expected).abs();
                    assert!(
                        error <= 1e-8 * (1.0 + expected.abs()),
                        "Tq={query_length} Tk={key_length} tensor {tensor} index {index}: {slope} against {expected}"
                    );
                }
            }
        }
    }
}
