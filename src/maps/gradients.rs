//! The gradient of a text's loss on the attention weights of a model.
//!
//! The weights `P` of a head meet its values in `O = P V`, so the gradient on them is `dP_ij = dO_i . v_j` (Dao et al. 2022,
//! "FlashAttention", appendix B.4). Where attention is fused no tensor holds it, and it is rebuilt row by row from the
//! gradient of the output, as the weights are from query and key. Weights are taken here as numbers of their own, each of
//! which could be another without its row still summing to 1.
//!
//! What training can do about a weight is less: it moves the scores beneath, and the softmax hands on
//! `dS_ij = P_ij (dP_ij - sum_k P_ik dP_ik)` (there, too). Where a row has put all its weight on one key that is nearly 0, however large
//! the gradient on the weights is.

use super::map::{HeadMap, Maps, Quantity};
use super::sources::Source;
use super::weights::{HeadChoice, MapError, Traced, finite, matrix};
use crate::graph::{Value, differentiate};
use crate::model::GptConfig;
use crate::tape::{RunOn, Tensor};

/// The weights of a forward pass and what the loss makes of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients {
    pub weights: Maps,
    /// Of the same heads: the derivative of `loss` by each weight, nats.
    pub gradients: Maps,
    /// The derivative by the scores that the weights are the softmax of; `None` where they are not one.
    pub score_gradients: Option<Maps>,
    /// The mean loss of the text, nats a token.
    pub loss: f64,
}

/// What the gradient of a source's weights is made of: the value that the loss is differentiated by, and the values that it
/// is multiplied with where it is the output of fused attention.
fn operands(source: &Source, traced: &Traced) -> (Value, Option<Value>) {
    match *source {
        Source::Fused { attention, .. } => {
            let output = Value { node: attention, output: 0 };
            (output, Some(traced.graph.nodes[attention].inputs[2]))
        }
        Source::Tensor { value, .. } => (value, None),
    }
}

/// As [`attention_maps`](super::attention_maps), with the gradient on each weight of the mean loss over the tokens that the
/// text predicts, all but the first.
///
/// # Errors
/// As [`attention_maps`](super::attention_maps); a text of one token; an op without a gradient.
pub async fn weight_gradients(
    config: &GptConfig,
    parameters: &[Tensor],
    (tokens, text): (&[u32], impl Fn(u32) -> String),
    choice: HeadChoice,
    on: &RunOn,
) -> Result<Gradients, MapError> {
    let mut traced = Traced::new(config, tokens, choice)?;
    if tokens.len() < 2 {
        return Err(MapError::NoLoss);
    }
    let (by, values): (Vec<Value>, Vec<Option<Value>>) =
        traced.sources.iter().map(|(_, source)| operands(source, &traced)).unzip();
    let mean = traced.gpt.losses.mean;
    let gradients = differentiate(&mut traced.graph, mean, &by)?;

    let mut wanted: Vec<Value> = traced.sources.iter().flat_map(|(_, source)| source.roots(&traced.graph)).collect();
    wanted.extend(values.iter().copied().flatten().chain(gradients.iter().copied()).chain([mean]));
    let results = traced.run(parameters, tokens, wanted, on).await?;
    let weights = traced.maps(config, tokens.iter().map(|&id| text(id)).collect(), &results)?;
    let loss = results.get(mean).and_then(|loss| loss.values().first()).copied().unwrap_or(f64::NAN);

    let of_head = |map: &HeadMap| -> Result<HeadMap, MapError> {
        let layer = traced.sources.iter().position(|&(layer, _)| layer == map.layer);
        let gradient = layer.and_then(|at| results.get(gradients[at]));
        let value = layer.and_then(|at| values[at]).and_then(|value| results.get(value));
        let mut numbers = match (gradient, value) {
            (Some(gradient), Some(value)) => rebuilt(gradient, value, map.head),
            (Some(gradient), None) => matrix(gradient, map.head, map.keys),
            (None, _) => Vec::new(),
        };
        // What is masked is no weight, and nothing follows from it.
        for (at, number) in numbers.iter_mut().enumerate() {
            if map.is_masked(at / map.keys, at % map.keys) {
                *number = 0.0;
            }
        }
        finite(HeadMap { weights: numbers, ..map.clone() }, "gradient on the weight")
    };
    let maps = weights.maps.iter().map(of_head).collect::<Result<_, _>>()?;
    let gradients = Maps { maps, quantity: Quantity::Gradient, ..weights.clone() };
    let score_gradients = weights.maps.iter().all(HeadMap::is_softmax).then(|| {
        let maps = weights.maps.iter().zip(&gradients.maps).map(|(weights, gradient)| on_scores(weights, gradient));
        Maps { maps: maps.collect(), ..gradients.clone() }
    });
    Ok(Gradients { weights, gradients, score_gradients, loss })
}

/// What the softmax hands on of the gradient on its weights: nothing where a query sees one key. What is no more than the
/// rounding of weights is 0 too, so that no rounding is seen where rows are scaled by their largest number.
fn on_scores(weights: &HeadMap, gradient: &HeadMap) -> HeadMap {
    let rows = weights.weights.chunks(weights.keys.max(1)).zip(gradient.weights.chunks(weights.keys.max(1)));
    let row = |(weights, gradients): (&[f32], &[f32])| -> Vec<f32> {
        let pairs =
            || weights.iter().zip(gradients).map(|(&weight, &gradient)| (f64::from(weight), f64::from(gradient)));
        let mean: f64 = pairs().map(|(weight, gradient)| weight * gradient).sum();
        let rounding = f64::from(f32::EPSILON) * pairs().map(|(_, gradient)| gradient.abs()).fold(0.0, f64::max);
        let on_score = |(weight, gradient): (f64, f64)| weight * (gradient - mean);
        pairs().map(on_score).map(|number| if number.abs() <= rounding { 0.0 } else { number as f32 }).collect()
    };
    HeadMap { weights: rows.flat_map(row).collect(), ..gradient.clone() }
}

/// `dO_i . v_j` of a head: the gradient `[B, H, Tq, D]` of attention's output, values `[B, Hkv, Tk, D]`.
fn rebuilt(gradient: &Tensor, value: &Tensor, head: usize) -> Vec<f32> {
    let (&[_, heads, queries, width], &[_, value_heads, keys, _]) = (&gradient.shape[..], &value.shape[..]) else {
        return Vec::new();
    };
    let value_head = (head / heads) * value_heads + head % heads / (heads / value_heads);
    let rows = gradient.values()[head * queries * width..].chunks(width).take(queries);
    let columns = &value.values()[value_head * keys * width..][..keys * width];
    let dot = |row: &[f64], column: &[f64]| row.iter().zip(column).map(|(a, b)| a * b).sum::<f64>() as f32;
    rows.flat_map(|row| columns.chunks(width).map(move |column| dot(row, column))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Rewrites, evaluate, rewrite};
    use crate::maps::toy::{SCORES, model, script, text};
    use crate::model::gpt::build_with_head_factors;
    use crate::model::trace::next_tokens;

    fn found(
        (config, parameters): &(GptConfig, Vec<Tensor>),
        length: usize,
        on: &RunOn,
    ) -> Result<Gradients, MapError> {
        let (tokens, choice) = (text(length), HeadChoice::default());
        pollster::block_on(weight_gradients(config, parameters, (&tokens, |id: u32| id.to_string()), choice, on))
    }

    /// The largest difference of a number, as a part of the largest number.
    fn farthest(one: &Maps, other: &Maps) -> f64 {
        let pairs = || {
            let pairs =
                one.maps.iter().zip(&other.maps).flat_map(|(one, other)| one.weights.iter().zip(&other.weights));
            pairs.map(|(&one, &other)| (f64::from(one), f64::from(other)))
        };
        let largest = pairs().map(|(one, _)| one.abs()).fold(0.0, f64::max);
        assert!(largest > 0.0, "all gradients are 0");
        pairs().map(|(one, other)| (one - other).abs()).fold(0.0, f64::max) / largest
    }

    #[test]
    fn gradients_rebuilt_from_the_fused_pass_are_those_on_the_tensor_of_weights() {
        // Nothing can be fused here, so that the gradient is that of a tensor.
        let body = format!("{SCORES}    return ops.merge_heads(ops.softmax(s + 0.0 * s) @ v)\n");
        for (heads, width, length) in [(1, 8, 2), (2, 8, 3), (3, 39, 7), (2, 32, 33), (4, 32, 40)] {
            let fused = found(&model(heads, width, None), length, &RunOn::CpuWide).unwrap();
            let naive = found(&model(heads, width, Some(script(&body))), length, &RunOn::CpuWide).unwrap();
            assert!(fused.weights.source.starts_with("rebuilt") && naive.weights.source.starts_with("what the values"));
            assert!((fused.loss - naive.loss).abs() < 1e-9);
            let distance = farthest(&fused.gradients, &naive.gradients);
            assert!(distance < 1e-6, "{heads} heads of {width} over {length}: {distance:e}");
            for map in &fused.gradients.maps {
                let masked = (0..length).flat_map(|query| (query + 1..length).map(move |key| (query, key)));
                assert!(
                    masked.into_iter().all(|(query, key)| map.is_masked(query, key) && map.weight(query, key) == 0.0)
                );
            }
            // Nothing follows the last token.
            let last = &fused.gradients.maps.last().unwrap().weights[(length - 1) * length..];
            assert!(last.iter().all(|&number| number == 0.0), "{last:?}");
        }
    }

    #[test]
    fn weights_times_their_gradients_are_what_the_loss_gains_from_more_of_the_head() {
        let (config, parameters) = model(2, 16, None);
        let length = 9;
        let found = found(&(config.clone(), parameters.clone()), length, &RunOn::CpuWide).unwrap();
        let (mut gpt, head_factors) = build_with_head_factors(&config, 1, length).unwrap();
        rewrite(&mut gpt.graph, Rewrites::Fused, &[]);
        let (ids, targets) = (text(length), next_tokens(&text(length), length));
        let (ids, targets) = (Tensor::words([1, length], ids), Tensor::words([length], targets));
        let loss = |at: usize, factor: f64| {
            let mut factors = vec![1.0; 4];
            factors[at] = factor;
            let factors = Tensor::real([2, 2], factors);
            let mut inputs = vec![(head_factors, &factors), (gpt.tokens, &ids), (gpt.targets, &targets)];
            inputs.extend(gpt.parameters.iter().copied().zip(&parameters));
            let loss = pollster::block_on(evaluate(&gpt.graph, &inputs, &[gpt.losses.mean], &RunOn::CpuWide)).unwrap();
            loss[0].values()[0]
        };
        assert!((loss(0, 1.0) - found.loss).abs() < 1e-12);
        for (at, (weights, gradients)) in found.weights.maps.iter().zip(&found.gradients.maps).enumerate() {
            let pairs = weights.weights.iter().zip(&gradients.weights);
            let gained: f64 = pairs.map(|(&weight, &gradient)| f64::from(weight) * f64::from(gradient)).sum();
            let measured = (loss(at, 1.0 + 1e-4) - loss(at, 1.0 - 1e-4)) / 2e-4;
            assert!((gained - measured).abs() < 1e-5 * measured.abs().max(1e-3), "head {at}: {gained} and {measured}");
        }
    }

    #[test]
    fn the_softmax_hands_on_nothing_of_what_all_keys_of_a_row_share() {
        let found = found(&model(3, 24, None), 12, &RunOn::Cpu).unwrap();
        let scores = found.score_gradients.unwrap();
        for map in &scores.maps {
            assert!(map.weights.iter().any(|&number| number != 0.0));
            for row in map.weights.chunks(12) {
                let (sum, size) =
                    row.iter().fold((0.0, 0.0), |(sum, size), &number| (sum + number, size + number.abs()));
                assert!(sum.abs() <= 1e-5 * size, "{row:?}");
            }
        }
        let map = |weights: [f32; 4]| HeadMap {
            layer: 0,
            head: 0,
            queries: 2,
            keys: 2,
            weights: weights.into(),
            causal: true,
        };
        let (weights, gradient) = (map([1.0, 0.0, 0.25, 0.75]), map([7.0, 0.0, -1.0, 3.0]));
        assert_eq!(on_scores(&weights, &gradient).weights, [0.0, 0.0, -0.75, 0.75]);
    }

    #[test]
    fn weights_that_are_no_softmax_have_no_gradient_on_scores() {
        let body = format!("{SCORES}    w = ops.softmax(s) + 0.01\n    return ops.merge_heads(w @ v)\n");
        let found = found(&model(2, 16, Some(script(&body))), 6, &RunOn::Cpu).unwrap();
        assert_eq!(found.score_gradients, None);
        assert!(found.gradients.maps.iter().all(|map| map.weights.iter().any(|&number| number != 0.0)));
    }

    #[test]
    fn what_has_no_gradient_is_told_in_one_line() {
        let model = model(2, 16, None);
        for (length, expected) in [
            (0, "no map, because the text has 0 tokens, and the model reads 1 to 40"),
            (1, "no gradients, because one token predicts nothing: give a longer text"),
        ] {
            assert_eq!(found(&model, length, &RunOn::Cpu).unwrap_err().to_string(), expected);
        }
        let (config, parameters) = &model;
        let choice = HeadChoice { layer: Some(1), head: Some(1) };
        let tokens = text(5);
        let one = weight_gradients(config, parameters, (&tokens, |_| String::new()), choice, &RunOn::Cpu);
        let (one, all) = (pollster::block_on(one).unwrap(), found(&model, 5, &RunOn::Cpu).unwrap());
        assert_eq!(one.gradients.maps, all.gradients.maps[3..]);
    }
}
