//! What can be measured of attention weights without knowing what is right.

use serde::Serialize;

use super::case::{CaseInputs, Shape};
use super::closed_form::ClosedForm;

/// A number with the place that it was found at.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Extreme {
    pub value: f64,
    /// Counted through the whole batch.
    pub head: usize,
    /// The row (query) or column (key).
    pub line: usize,
}

/// The least and the largest of some numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Span {
    pub least: Extreme,
    pub largest: Extreme,
}

impl Span {
    fn of(numbers: impl Iterator<Item = Extreme>) -> Option<Self> {
        numbers.fold(None, |span: Option<Self>, number| {
            let Some(mut span) = span else { return Some(Self { least: number, largest: number }) };
            // NaN is kept: it is both least and largest.
            if number.value < span.least.value || number.value.is_nan() {
                span.least = number;
            }
            if number.value > span.largest.value || number.value.is_nan() {
                span.largest = number;
            }
            Some(span)
        })
    }

    /// The end that lies further from `value`.
    pub fn furthest_from(&self, value: f64) -> Extreme {
        let far = |extreme: &Extreme| (extreme.value - value).abs();
        if far(&self.least) >= far(&self.largest) { self.least } else { self.largest }
    }

    /// Whether all numbers are `value`, as far as f64 sums are.
    pub fn is(&self, value: f64) -> bool {
        (self.furthest_from(value).value - value).abs() <= EXACT
    }
}

/// Sums of weights are this exact in f64.
pub const EXACT: f64 = 1e-9;

/// A weight above the diagonal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FutureWeight {
    pub value: f64,
    pub head: usize,
    pub query: usize,
    pub key: usize,
}

/// What scores may be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Product {
    #[serde(rename = "q k^T")]
    QueryKey,
    /// Row i of q times column j of k: T = d_head makes it possible.
    #[serde(rename = "q k")]
    Untransposed,
    #[serde(rename = "k q^T")]
    KeyQuery,
    #[serde(rename = "q q^T")]
    QueryQuery,
    #[serde(rename = "k k^T")]
    KeyKey,
    #[serde(rename = "x x^T")]
    Input,
    #[serde(rename = "q v^T")]
    QueryValue,
    #[serde(rename = "x k^T")]
    InputKey,
    #[serde(rename = "q x^T")]
    QueryInput,
}

impl Product {
    const ALL: [Self; 9] = [
        Self::QueryKey,
        Self::Untransposed,
        Self::KeyQuery,
        Self::QueryQuery,
        Self::KeyKey,
        Self::Input,
        Self::QueryValue,
        Self::InputKey,
        Self::QueryInput,
    ];

    pub fn words(self) -> &'static str {
        match self {
            Self::QueryKey => "q k^T",
            Self::Untransposed => "q k",
            Self::KeyQuery => "k q^T",
            Self::QueryQuery => "q q^T",
            Self::KeyKey => "k k^T",
            Self::Input => "x x^T",
            Self::QueryValue => "q v^T",
            Self::InputKey => "x k^T",
            Self::QueryInput => "q x^T",
        }
    }

    /// The product whose transpose it is.
    pub fn turned(self) -> Self {
        match self {
            Self::KeyQuery => Self::QueryKey,
            Self::QueryKey => Self::KeyQuery,
            other => other,
        }
    }

    /// `[maps, T, T]`
    fn matrix(self, shape: &Shape, inputs: &CaseInputs) -> Vec<f64> {
        let CaseInputs { x, query, key, value, .. } = inputs;
        let (left, right) = match self {
            Self::QueryKey | Self::Untransposed => (query, key),
            Self::KeyQuery => (key, query),
            Self::QueryQuery => (query, query),
            Self::KeyKey => (key, key),
            Self::Input => (x, x),
            Self::QueryValue => (query, value),
            Self::InputKey => (x, key),
            Self::QueryInput => (query, x),
        };
        let mut matrix = Vec::with_capacity(shape.maps() * shape.length * shape.length);
        for (map, i, j) in (0..shape.maps())
            .flat_map(|map| (0..shape.length).flat_map(move |i| (0..shape.length).map(move |j| (map, i, j))))
        {
            let row = shape.place(map, i, 0);
            let (start, step) = match self {
                Self::Untransposed => (shape.place(map, 0, j), shape.width()),
                _ => (shape.place(map, j, 0), 1),
            };
            matrix.push((0..shape.head_width).map(|c| left[row + c] * right[start + c * step]).sum());
        }
        matrix
    }
}

/// Which numbers a softmax made comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Along {
    Rows,
    Columns,
}

/// How the logarithms of the weights follow a product: within each row (or column) the differences of the one are
/// regressed on differences of the other. A softmax of `c * product` gives slope c and a fit of 1, whatever its mask.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    pub product: Product,
    pub along: Along,
    /// Slope over 1 / sqrt(d_head), of the head where it lies furthest from 1.
    pub scale: f64,
    /// That head.
    pub head: usize,
    /// Share of the variance explained, in the worst head.
    pub quality: f64,
}

impl Fit {
    /// Whether the weights are nothing but a softmax of this product.
    pub fn is_exact(&self) -> bool {
        1.0 - self.quality < 1e-9
    }

    /// Whether it explains enough to be worth a word: of normal numbers even a product that has nothing to do with the
    /// weights explains a little.
    pub fn is_near(&self) -> bool {
        self.quality >= 0.9
    }
}

/// Rows of the gradient through the softmax that are dead.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeadRows {
    /// Of all rows that see two keys or more.
    pub share: f64,
    /// The row with the least of |d.scores| / |d.weights|.
    pub worst: Extreme,
}

/// All that is measured of weights `[maps, T, T]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measures {
    pub row_sums: Span,
    pub column_sums: Span,
    /// Of the row that sees every key.
    pub last_row_sums: Span,
    /// Of the column that every query sees.
    pub first_column_sums: Span,
    /// The largest above the diagonal, by absolute value.
    pub future: FutureWeight,
    /// How many positions ahead weight is found.
    pub reach: usize,
    /// Queries that give weight to a later key, in any head.
    pub queries_ahead: usize,
    /// Whether each query sees all `reach` positions ahead, or as many as there are.
    pub all_as_far_ahead: bool,
    /// The least weight: below 0 in no distribution.
    pub least: f64,
    /// Where several heads are: the sums over the heads, of pairs that have weight.
    pub head_sums: Option<Span>,
    /// Whether all weights that are not 0 are equal within each row, and some row has several.
    pub uniform_rows: bool,
    /// Whether all weights that are not 0 are 1, and some row has several.
    pub only_ones: bool,
    /// The weights of positions on themselves, but for the first.
    pub on_itself: Span,
    /// How many keys have weight in the last row of any head, at least.
    pub keys_of_last_row: usize,
    /// Entropy of row t over ln(t + 1), where rows are distributions: 1 is an average of all, 0 a choice of one.
    pub entropy: Option<Span>,
    /// The product that explains the weights best; none where weights are not positive.
    pub fit: Option<Fit>,
    pub dead_rows: Option<DeadRows>,
}

impl Measures {
    /// Measures weights; `None` where T = 1 or some are no numbers.
    pub fn of(shape: &Shape, inputs: &CaseInputs, weights: &[f64]) -> Option<Self> {
        let length = shape.length;
        if length < 2 || weights.len() != shape.maps() * length * length || weights.iter().any(|w| !w.is_finite()) {
            return None;
        }
        let at = |head: usize, i: usize, j: usize| weights[(head * length + i) * length + j];
        let lines = || (0..shape.maps()).flat_map(|head| (0..length).map(move |line| (head, line)));
        let row_sum = |(head, line)| Extreme { value: (0..length).map(|j| at(head, line, j)).sum(), head, line };
        let column_sum = |(head, line)| Extreme { value: (0..length).map(|i| at(head, i, line)).sum(), head, line };
        let mut future = FutureWeight { value: 0.0, head: 0, query: 0, key: 0 };
        let mut reach = 0;
        for (head, query) in lines() {
            for key in query + 1..length {
                let value = at(head, query, key);
                reach = if value != 0.0 { reach.max(key - query) } else { reach };
                if value.abs() > future.value.abs() {
                    future = FutureWeight { value, head, query, key };
                }
            }
        }
        let ahead: Vec<usize> = (0..length)
            .map(|query| {
                let seen = |key: &usize| (0..shape.maps()).any(|head| at(head, query, *key) != 0.0);
                (query + 1..length).rev().find(seen).map_or(0, |key| key - query)
            })
            .collect();
        let row_of = |(head, line): (usize, usize)| -> Vec<f64> {
            (0..length).map(|j| at(head, line, j)).filter(|&weight| weight != 0.0).collect()
        };
        let several = lines().any(|line| row_of(line).len() > 1);
        let level = |row: &[f64]| row.iter().all(|weight| (weight - row[0]).abs() <= EXACT * row[0].abs());
        let over_heads = |first: usize| {
            let pairs = (0..length).flat_map(move |i| (0..length).map(move |j| (i, j)));
            pairs.filter_map(move |(i, j)| {
                let weights = || (first..first + shape.heads).map(|head| at(head, i, j));
                weights().any(|weight| weight != 0.0).then(|| Extreme { value: weights().sum(), head: first, line: i })
            })
        };
        let head_sums =
            (shape.heads > 1).then(|| Span::of((0..shape.maps()).step_by(shape.heads).flat_map(over_heads)));
        let row_sums = Span::of(lines().map(row_sum))?;
        let distributions = row_sums.is(1.0) && weights.iter().all(|&weight| weight >= 0.0);
        let entropy = |(head, line): (usize, usize)| {
            let row = (0..length).map(|j| at(head, line, j)).filter(|&weight| weight > 0.0);
            let entropy: f64 = row.map(|weight| -weight * weight.ln()).sum();
            Extreme { value: entropy / ((line + 1) as f64).ln(), head, line }
        };
        let keys_of = |head: usize| (0..length).filter(|&j| at(head, length - 1, j) != 0.0).count();
        Some(Self {
            row_sums,
            column_sums: Span::of(lines().map(column_sum))?,
            last_row_sums: Span::of(lines().filter(|&(_, line)| line + 1 == length).map(row_sum))?,
            first_column_sums: Span::of(lines().filter(|&(_, line)| line == 0).map(column_sum))?,
            future,
            reach,
            queries_ahead: ahead.iter().filter(|&&ahead| ahead > 0).count(),
            all_as_far_ahead: ahead.iter().enumerate().all(|(query, &ahead)| ahead == reach.min(length - 1 - query)),
            least: weights.iter().copied().fold(f64::INFINITY, f64::min),
            head_sums: head_sums.flatten(),
            uniform_rows: several && lines().all(|line| level(&row_of(line))),
            only_ones: several && weights.iter().all(|&weight| weight == 0.0 || (weight - 1.0).abs() <= EXACT),
            on_itself: Span::of(lines().filter(|&(_, line)| line > 0).map(|(head, line)| Extreme {
                value: at(head, line, line),
                head,
                line,
            }))?,
            keys_of_last_row: (0..shape.maps()).map(keys_of).min().unwrap_or(0),
            entropy: match distributions {
                true => Span::of(lines().filter(|&(_, line)| line > 0).map(entropy)),
                false => None,
            },
            fit: best_fit(shape, inputs, weights),
            dead_rows: None,
        })
    }

    /// The measures of the closed form.
    pub fn of_reference(shape: &Shape, inputs: &CaseInputs, form: &ClosedForm) -> Option<Self> {
        let mut measures = Self::of(shape, inputs, &form.weights)?;
        measures.dead_rows = dead_rows(shape, &form.weights_gradient, &form.scores_gradient);
        Some(measures)
    }
}

/// The fit of the first product that is exact, else the best.
fn best_fit(shape: &Shape, inputs: &CaseInputs, weights: &[f64]) -> Option<Fit> {
    let mut best: Option<Fit> = None;
    for product in Product::ALL {
        if product == Product::Untransposed && shape.length != shape.head_width {
            continue;
        }
        let matrix = product.matrix(shape, inputs);
        for along in [Along::Rows, Along::Columns] {
            let Some(fit) = fit(shape, &matrix, weights, product, along) else { continue };
            if best.is_none_or(|best| fit.quality > best.quality) {
                best = Some(fit);
            }
            if fit.is_exact() {
                return Some(fit);
            }
        }
    }
    best
}

fn fit(shape: &Shape, matrix: &[f64], weights: &[f64], product: Product, along: Along) -> Option<Fit> {
    let length = shape.length;
    let mut found: Option<Fit> = None;
    for map in 0..shape.maps() {
        let (mut together, mut of_product, mut of_weights) = (0.0, 0.0, 0.0);
        for line in 0..length {
            let pairs: Vec<(f64, f64)> = (0..length)
                .map(|other| match along {
                    Along::Rows => (map * length + line) * length + other,
                    Along::Columns => (map * length + other) * length + line,
                })
                // Below the least normal number a weight has lost digits.
                .filter(|&at| weights[at] >= f64::MIN_POSITIVE)
                .map(|at| (matrix[at], weights[at].ln()))
                .collect();
            let count = pairs.len() as f64;
            let means = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0 / count, sum.1 + pair.1 / count));
            for (product, weight) in pairs {
                let (product, weight) = (product - means.0, weight - means.1);
                together += product * weight;
                of_product += product * product;
                of_weights += weight * weight;
            }
        }
        if !(of_product > 0.0 && of_weights > 0.0) {
            return None;
        }
        let scale = together / of_product / shape.scale();
        let quality = together * together / (of_product * of_weights);
        let fit = found.get_or_insert(Fit { product, along, scale, head: map, quality });
        if (scale - 1.0).abs() > (fit.scale - 1.0).abs() {
            (fit.scale, fit.head) = (scale, map);
        }
        fit.quality = fit.quality.min(quality);
    }
    found
}

/// Rows whose gradient hardly passes the softmax, |d.scores| < 1e-3 |d.weights|, over the visible keys. Rows that see
/// one key are dead by nature and left out.
pub fn dead_rows(shape: &Shape, weights_gradient: &[f64], scores_gradient: &[f64]) -> Option<DeadRows> {
    let length = shape.length;
    let (mut rows, mut dead) = (0usize, 0usize);
    let mut worst: Option<Extreme> = None;
    for head in 0..shape.maps() {
        for line in 1..length {
            let row = (head * length + line) * length;
            let norm = |gradient: &[f64]| {
                gradient.get(row..=row + line).map(|row| row.iter().map(|x| x * x).sum::<f64>().sqrt())
            };
            let value = norm(scores_gradient)? / norm(weights_gradient)?;
            rows += 1;
            // Not a number, 0 over 0, is dead as well.
            dead += usize::from(value.is_nan() || value < 1e-3);
            if worst.is_none_or(|worst| value.is_nan() || value < worst.value) {
                worst = Some(Extreme { value, head, line });
            }
        }
    }
    Some(DeadRows { share: dead as f64 / rows as f64, worst: worst? })
}

#[cfg(test)]
mod tests {
    use super::super::case::{Case, MEASURED};
    use super::super::closed_form::causal_attention;
    use super::*;

    #[test]
    fn the_closed_form_measures_as_attention() {
        let inputs = CaseInputs::draw(&Case { shape: MEASURED, spread: 1.0, seed: 3 });
        let form = causal_attention(&MEASURED, &inputs);
        let measures = Measures::of_reference(&MEASURED, &inputs, &form).unwrap();
        assert!(measures.row_sums.is(1.0) && !measures.column_sums.is(1.0));
        assert_eq!((measures.future.value, measures.reach), (0.0, 0));
        let fit = measures.fit.unwrap();
        assert!(fit.is_exact() && fit.product == Product::QueryKey && (fit.scale - 1.0).abs() < 1e-9, "{fit:?}");
        let entropy = measures.entropy.unwrap();
        assert!(entropy.least.value > 0.2 && entropy.largest.value <= 1.0, "{entropy:?}");
        assert_eq!(measures.dead_rows.unwrap().share, 0.0);
        assert_eq!(measures.keys_of_last_row, 64);
    }

    #[test]
    fn weights_that_are_no_numbers_are_not_measured() {
        let inputs = CaseInputs::draw(&Case { shape: MEASURED, spread: 1.0, seed: 3 });
        let mut weights = causal_attention(&MEASURED, &inputs).weights;
        weights[5] = f64::NAN;
        assert_eq!(Measures::of(&MEASURED, &inputs, &weights), None);
    }
}
