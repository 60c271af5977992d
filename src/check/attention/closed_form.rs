//! Causal multi-head attention and its gradients as textbooks write them: straight loops in f64 over plain slices. Nothing
//! here comes from the graph, the kernels or their twins, so that no mistake can be shared with them.
//!
//! For each head, with `s = q k^T / sqrt(d_head)` (Vaswani et al. 2017, section 3.2) and j <= i:
//!
//! ```text
//! w[i, j] = exp(s[i, j] - max_j s[i, j]) / sum_j exp(..)      o[i] = sum_j w[i, j] v[j]
//! dw[i, j] = do[i] . v[j]                                     dv[j] = sum_i w[i, j] do[i]
//! ds[i, j] = w[i, j] (dw[i, j] - sum_j w[i, j] dw[i, j])
//! dq[i] = sum_j ds[i, j] k[j] / sqrt(d_head)                  dk[j] = sum_i ds[i, j] q[i] / sqrt(d_head)
//! ```

use super::case::{CaseInputs, Shape};

/// Attention and all that lies between its inputs and its results. Of a map `[T, T]` only j <= i counts but in `scores`;
/// the rest is 0.
#[derive(Clone, Debug)]
pub struct ClosedForm {
    /// `[B, T, d]`
    pub output: Vec<f64>,
    /// `[B, T, d]`
    pub query_gradient: Vec<f64>,
    /// `[B, T, d]`
    pub key_gradient: Vec<f64>,
    /// `[B, T, d]`
    pub value_gradient: Vec<f64>,
    /// `[B, H, T, T]`: scaled, and of all pairs.
    pub scores: Vec<f64>,
    /// `[B, H, T, T]`
    pub weights: Vec<f64>,
    /// `[B, H, T, T]`
    pub weights_gradient: Vec<f64>,
    /// `[B, H, T, T]`: of the scaled scores.
    pub scores_gradient: Vec<f64>,
}

/// The closed form for one set of inputs.
pub fn causal_attention(shape: &Shape, inputs: &CaseInputs) -> ClosedForm {
    let (length, width, scale) = (shape.length, shape.head_width, shape.scale());
    let CaseInputs { query, key, value, output_gradient, .. } = inputs;
    let map = || vec![0.0; shape.maps() * length * length];
    let tensor = || vec![0.0; shape.elements()];
    let mut form = ClosedForm {
        output: tensor(),
        query_gradient: tensor(),
        key_gradient: tensor(),
        value_gradient: tensor(),
        scores: map(),
        weights: map(),
        weights_gradient: map(),
        scores_gradient: map(),
    };
    for map in 0..shape.maps() {
        for i in 0..length {
            let row = (map * length + i) * length;
            for j in 0..length {
                let dot: f64 = (0..width).map(|c| query[shape.place(map, i, c)] * key[shape.place(map, j, c)]).sum();
                form.scores[row + j] = dot * scale;
            }
            let largest = form.scores[row..=row + i].iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = form.scores[row..=row + i].iter().map(|score| (score - largest).exp()).sum();
            let mut through = 0.0;
            for j in 0..=i {
                let weight = (form.scores[row + j] - largest).exp() / sum;
                let mut weight_gradient = 0.0;
                for c in 0..width {
                    let (at_query, at_key) = (shape.place(map, i, c), shape.place(map, j, c));
                    form.output[at_query] += weight * value[at_key];
                    weight_gradient += output_gradient[at_query] * value[at_key];
                    form.value_gradient[at_key] += weight * output_gradient[at_query];
                }
                form.weights[row + j] = weight;
                form.weights_gradient[row + j] = weight_gradient;
                through += weight * weight_gradient;
            }
            for j in 0..=i {
                let gradient = form.weights[row + j] * (form.weights_gradient[row + j] - through);
                form.scores_gradient[row + j] = gradient;
                for c in 0..width {
                    let (at_query, at_key) = (shape.place(map, i, c), shape.place(map, j, c));
                    form.query_gradient[at_query] += gradient * scale * key[at_key];
                    form.key_gradient[at_key] += gradient * scale * query[at_query];
                }
            }
        }
    }
    form
}

#[cfg(test)]
mod tests {
    use super::super::case::{Case, SHAPES};
    use super::*;

    #[test]
    fn two_positions_give_what_can_be_done_in_the_head() {
        let shape = Shape { batch: 1, length: 2, heads: 1, head_width: 1, layer: 0 };
        let inputs = CaseInputs {
            x: vec![0.0; 2],
            query: vec![5.0, 1.0],
            key: vec![0.0, 3f64.ln()],
            value: vec![4.0, 8.0],
            output_gradient: vec![1.0, 1.0],
        };
        let form = causal_attention(&shape, &inputs);
        let close = |found: &[f64], expected: &[f64]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-14), "{found:?} {expected:?}");
        };
        close(&form.weights, &[1.0, 0.0, 0.25, 0.75]);
        close(&form.output, &[4.0, 7.0]);
        close(&form.value_gradient, &[1.25, 0.75]);
        close(&form.scores_gradient, &[0.0, 0.0, -0.75, 0.75]);
        close(&form.query_gradient, &[0.0, 0.75 * 3f64.ln()]);
        close(&form.key_gradient, &[-0.75, 0.75]);
    }

    /// The loss is linear in nothing but the output, so that its central difference is of second order in the step.
    #[test]
    fn its_gradients_are_the_finite_differences_of_its_output() {
        for &(shape, spreads) in SHAPES.iter().filter(|(shape, _)| shape.length < 20) {
            let inputs = CaseInputs::draw(&Case { shape, spread: spreads[0], seed: 7 });
            let form = causal_attention(&shape, &inputs);
            let loss = |inputs: &CaseInputs| -> f64 {
                let output = causal_attention(&shape, inputs).output;
                output.iter().zip(&inputs.output_gradient).map(|(output, gradient)| output * gradient).sum()
            };
            for (which, gradient) in [(1, &form.query_gradient), (2, &form.key_gradient), (3, &form.value_gradient)] {
                let largest = gradient.iter().fold(1e-3, |largest: f64, value| largest.max(value.abs()));
                for at in (0..shape.elements()).step_by(shape.elements().div_ceil(11)) {
                    let mut moved = [inputs.clone(), inputs.clone()];
                    let step = 1e-5;
                    moved[0].arguments_mut()[which][at] += step;
                    moved[1].arguments_mut()[which][at] -= step;
                    let difference = (loss(&moved[0]) - loss(&moved[1])) / (2.0 * step);
                    assert!(
                        (difference - gradient[at]).abs() < 1e-7 * largest,
                        "{shape} {which} {at}: {difference} {}",
                        gradient[at]
                    );
                }
            }
        }
    }
}
