//! What f32 may make of fused attention: bounds on the errors of its kernels, made of the terms of the formulas that
//! [`super::attention_reference`] holds.
//!
//! A score `s_j = scale q . k_j` is a sum of D products; its error is an absolute one, so the weight `exp(s_j - m)`
//! is off by as much in proportion. Every result is a sum of products of weights, and inherits that term by term.

use super::attention_reference::{Rows, RowsMut, Statistics, statistics_index};
use super::attention_shape::{AttentionShape, INVISIBLE_SCORE, MASKED_SCORE};
use crate::tape::rounding::{UNIT, of_exp, of_log, of_sum};

/// A score that counts, with the bound on its error.
struct Score {
    key: usize,
    score: f64,
    error: f64,
}

/// `a . b`, and the sum of the absolute values of its terms.
fn dot(a: &[f64], b: &[f64]) -> (f64, f64) {
    a.iter().zip(b).fold((0.0, 0.0), |(sum, magnitude), (a, b)| (sum + a * b, magnitude + (a * b).abs()))
}

/// `sum_d += factor |row_d|`
fn add_magnitudes(sum: &mut [f64], factor: f64, row: &[f64]) {
    sum.iter_mut().zip(row).for_each(|(sum, element)| *sum += factor * element.abs());
}

/// The relative error of `exp(difference)`, of a difference with a score that is off by `of_score`.
fn of_weight(difference: f64, of_score: f64) -> f64 {
    of_score + UNIT * difference.abs() + of_exp(difference)
}

/// The rows of one key/value head.
struct KeyValueHead {
    number: u32,
    keys: Vec<Vec<f64>>,
    values: Vec<Vec<f64>>,
}

impl KeyValueHead {
    fn scores(&self, shape: &AttentionShape, row: u32, query: &[f64]) -> Vec<Score> {
        let keys = self.keys.iter().take(shape.visible_keys(row) as usize).enumerate();
        keys.map(|(key, elements)| {
            let (sum, magnitude) = dot(query, elements);
            let error = of_sum(u64::from(shape.head_dim)) * (shape.scale * magnitude).abs();
            Score { key, score: shape.scale * sum, error }
        })
        .filter(|score| score.score > INVISIBLE_SCORE)
        .collect()
    }
}

/// Calls `work(batch, head, keys and values)` for every query head, those of a key/value head together.
fn for_each_query_head(
    shape: &AttentionShape,
    key: &Rows<'_, f32>,
    value: &Rows<'_, f32>,
    mut work: impl FnMut(u32, u32, &KeyValueHead),
) {
    for batch in 0..shape.batch {
        for number in 0..shape.key_value_heads {
            let rows = |of: &Rows<'_, f32>| {
                (0..shape.key_length).map(|row| of.row(batch, number, row, shape.head_dim)).collect()
            };
            let shared = KeyValueHead { number, keys: rows(key), values: rows(value) };
            for head in number * shape.group()..(number + 1) * shape.group() {
                work(batch, head, &shared);
            }
        }
    }
}

/// Bounds for the results of [`super::attention_forward`]. The largest score is off by as much as any score; the sum, in
/// which it is subtracted, by as much in proportion.
pub(super) fn forward(
    shape: &AttentionShape,
    query: &Rows<'_, f32>,
    key: &Rows<'_, f32>,
    value: &Rows<'_, f32>,
    output: &mut RowsMut<'_, f64>,
    log_sum_exp: &mut [f64],
    softmax_statistics: &mut [f64],
) {
    let rows = shape.query_rows() as usize;
    for_each_query_head(shape, key, value, |batch, head, shared| {
        for row in 0..shape.query_length {
            let scores = shared.scores(shape, row, &query.row(batch, head, row, shape.head_dim));
            if scores.is_empty() {
                continue; // exactly 0, and the number that says so
            }
            let largest = scores.iter().map(|score| score.score).fold(MASKED_SCORE, f64::max);
            let sum: f64 = scores.iter().map(|score| (score.score - largest).exp()).sum();
            // Shares of the sum with their relative errors; what vanishes has neither.
            let weights: Vec<(usize, f64, f64)> = scores
                .iter()
                .map(|score| (score, score.score - largest))
                .map(|(score, difference)| (score.key, difference.exp() / sum, of_weight(difference, score.error)))
                .filter(|&(_, weight, _)| weight > 0.0)
                .collect();
            let of_total = weights.iter().map(|(_, weight, error)| weight * error).sum::<f64>();
            let common = of_total + of_sum(weights.len() as u64);
            let mut bounds = vec![0.0; shape.head_dim as usize];
            for &(key, weight, error) in &weights {
                add_magnitudes(&mut bounds, weight * (error + common), &shared.values[key]);
            }
            output.store(batch, head, row, &bounds);
            let log = sum.ln();
            let at = statistics_index(shape, batch, head, row);
            log_sum_exp[at] = common + of_log(log) + 2.0 * UNIT * (largest.abs() + log);
            let of_largest = scores.iter().map(|score| score.error).fold(UNIT * largest.abs(), f64::max);
            softmax_statistics[at] = of_largest;
            softmax_statistics[rows + at] = sum * (common + of_largest);
        }
    });
}

/// What a backward pass multiplies a row by: a weight and the gradient of its score, each with the bound on its error.
struct Factors {
    key: usize,
    weight: f64,
    of_weight: f64,
    gradient: f64,
    of_gradient: f64,
}

/// The operands that both backward kernels read.
pub(super) struct Backward<'a> {
    pub shape: AttentionShape,
    pub query: Rows<'a, f32>,
    pub key: Rows<'a, f32>,
    pub value: Rows<'a, f32>,
    pub output_gradient: Rows<'a, f32>,
    pub row_statistics: &'a [f32],
}

impl Backward<'_> {
    /// Of query `row`: `p_j = exp(s_j - m) / l` and `ds_j = p_j (output_gradient . value_j - delta)`.
    fn factors(&self, shared: &KeyValueHead, batch: u32, head: u32, row: u32) -> Vec<Factors> {
        let shape = &self.shape;
        let at = statistics_index(shape, batch, head, row);
        let Statistics { largest, inverse_sum, delta } = Statistics::of(self.row_statistics, at);
        let gradient = self.output_gradient.row(batch, head, row, shape.head_dim);
        let scores = shared.scores(shape, row, &self.query.row(batch, head, row, shape.head_dim));
        let factors = scores.into_iter().map(|Score { key, score, error }| {
            let weight = (score - largest).exp() * inverse_sum;
            let relative = of_weight(score - largest, error) + UNIT;
            let (product, magnitude) = dot(&gradient, &shared.values[key]);
            let difference = (product - delta).abs();
            let of_difference = of_sum(u64::from(shape.head_dim)) * (magnitude + delta.abs());
            Factors {
                key,
                weight,
                of_weight: weight * relative,
                gradient: weight * difference,
                of_gradient: weight * (relative * difference + of_difference),
            }
        });
        factors.filter(|factors| factors.weight > 0.0).collect()
    }

    /// Bounds for the result of [`super::attention_backward_query`].
    pub(super) fn query(&self, query_gradient: &mut RowsMut<'_, f64>) {
        let shape = &self.shape;
        let of_sum = of_sum(u64::from(shape.key_length));
        for_each_query_head(shape, &self.key, &self.value, |batch, head, shared| {
            for row in 0..shape.query_length {
                let mut bounds = vec![0.0; shape.head_dim as usize];
                for Factors { key, gradient, of_gradient, .. } in self.factors(shared, batch, head, row) {
                    let factor = shape.scale.abs() * (of_gradient + of_sum * gradient);
                    add_magnitudes(&mut bounds, factor, &shared.keys[key]);
                }
                query_gradient.store(batch, head, row, &bounds);
            }
        });
    }

    /// Bounds for the results of [`super::attention_backward_key_value`].
    pub(super) fn key_value(&self, key_gradient: &mut RowsMut<'_, f64>, value_gradient: &mut RowsMut<'_, f64>) {
        let shape = &self.shape;
        let of_sum = of_sum(u64::from(shape.query_length) * u64::from(shape.group()));
        let zeros = || vec![vec![0.0; shape.head_dim as usize]; shape.key_length as usize];
        let (mut of_key, mut of_value) = (zeros(), zeros());
        for_each_query_head(shape, &self.key, &self.value, |batch, head, shared| {
            if head == shared.number * shape.group() {
                (of_key, of_value) = (zeros(), zeros());
            }
            for row in 0..shape.query_length {
                let query = self.query.row(batch, head, row, shape.head_dim);
                let output_gradient = self.output_gradient.row(batch, head, row, shape.head_dim);
                for Factors { key, weight, of_weight, gradient, of_gradient } in self.factors(shared, batch, head, row)
                {
                    let factor = shape.scale.abs() * (of_gradient + of_sum * gradient);
                    add_magnitudes(&mut of_key[key], factor, &query);
                    add_magnitudes(&mut of_value[key], of_weight + of_sum * weight, &output_gradient);
                }
            }
            if head + 1 == (shared.number + 1) * shape.group() {
                for (row, (of_key, of_value)) in (0..shape.key_length).zip(of_key.iter().zip(&of_value)) {
                    key_gradient.store(batch, shared.number, row, of_key);
                    value_gradient.store(batch, shared.number, row, of_value);
                }
            }
        });
    }
}
