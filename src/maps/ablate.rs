//! What a head is worth to one text: the model without it.
//!
//! A head is ablated by multiplying its output `[B, T, D]` by 0 before the output projection, with the rest of the model
//! untouched (Michel, Levy and Neubig 2019, section 2.3). That is what zeroing the D rows of the head in
//! `attn.c_proj.weight` would do.

use super::predictions::{Candidate, NotFinite, Prediction, TextLoss, predictions, probabilities, text_loss};
use super::readable::{Unreadable, readable};
use super::weights::{HeadChoice, NoSuchHead};
use crate::gpu::Pipelines;
use crate::graph::{Evaluation, EvaluationError, Rewrites, rewrite};
use crate::model::GptConfig;
use crate::model::gpt::{BuildError, build_with_head_factors};
use crate::tape::{RunOn, Tensor};

/// What a model makes of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Behind each token of the text, with the most likely one.
    pub predictions: Vec<Prediction>,
    /// The probability of every token behind the text `[V]`.
    pub next: Vec<f64>,
}

impl Reading {
    fn of(logits: &[f64], tokens: &[u32]) -> Result<Self, NotFinite> {
        let last = logits.len() - logits.len() / tokens.len().max(1);
        Ok(Self { predictions: predictions(logits, tokens, 1)?, next: probabilities(&logits[last..]) })
    }

    /// `None` for a text of one token.
    pub fn loss(&self) -> Option<TextLoss> {
        text_loss(&self.predictions)
    }

    /// The most likely token behind the text; `None` where nothing was read.
    pub fn next_token(&self) -> Option<Candidate> {
        self.predictions.last()?.candidates.first().copied()
    }
}

/// A model without one of its heads, counted from 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Ablation {
    pub layer: usize,
    pub head: usize,
    pub reading: Reading,
}

/// A model as it is, and without each of the chosen heads.
#[derive(Clone, Debug, PartialEq)]
pub struct Ablations {
    pub whole: Reading,
    /// By layer, then head.
    pub heads: Vec<Ablation>,
}

impl Ablations {
    /// What the mean loss of the text rises by without a head, nats a token: below 0 where the text is easier without it.
    /// `None` for a text of one token.
    pub fn loss_rise(&self, without: &Ablation) -> Option<f64> {
        Some(without.reading.loss()?.mean() - self.whole.loss()?.mean())
    }

    /// How likely a token behind the text is with the head and without it.
    pub fn next_probability(&self, token: u32, without: &Ablation) -> [f64; 2] {
        [&self.whole, &without.reading].map(|reading| reading.next.get(token as usize).copied().unwrap_or(0.0))
    }

    /// How much of the probability behind the text goes to other tokens without a head, between 0 and 1: half of the sum of
    /// what each token gains or loses (total variation distance).
    pub fn moved(&self, without: &Ablation) -> f64 {
        let pairs = self.whole.next.iter().zip(&without.reading.next);
        pairs.map(|(before, after)| (after - before).abs()).sum::<f64>() / 2.0
    }
}

/// Why nothing could be ablated.
#[derive(Debug, thiserror::Error)]
pub enum AblationError {
    #[error("no head is ablated, because {0}")]
    Build(#[from] BuildError),
    #[error("no head is ablated, because {0}")]
    Evaluation(#[from] EvaluationError),
    #[error("no head is ablated, because {0}")]
    Unreadable(#[from] Unreadable),
    #[error("no head is ablated, because {0}")]
    Missing(#[from] NoSuchHead),
    #[error("no head is ablated, because {0}")]
    WholeNotFinite(NotFinite),
    #[error("without head {head} of layer {layer}, {source}")]
    NotFinite { layer: usize, head: usize, source: NotFinite },
}

/// Runs a model over one text as it is, then without each of the chosen heads in turn. All runs share one plan, for exactly
/// the text's length and fused where the attention can be: they differ in the factors of
/// [`build_with_head_factors`], of which one is 0.
///
/// `tokens` are ids, `parameters` are in the order of [`GptConfig::parameters`].
///
/// # Errors
/// A text, a layer or a head that the model does not have, an attention that does not run at this length, logits that are
/// not finite, a device that fails.
pub async fn ablate(
    config: &GptConfig,
    parameters: &[Tensor],
    tokens: &[u32],
    choice: HeadChoice,
    on: &RunOn,
) -> Result<Ablations, AblationError> {
    readable(config, tokens)?;
    let length = tokens.len();
    let [layers, heads] = choice.within(config.layers, config.heads)?;

    let (mut gpt, head_factors) = build_with_head_factors(config, 1, length)?;
    rewrite(&mut gpt.graph, Rewrites::Fused, &[]);
    // The factors first: they alone are written anew for each head.
    let leaves: Vec<_> = [head_factors, gpt.tokens].into_iter().chain(gpt.parameters).collect();
    let evaluation = Evaluation::new(&gpt.graph, &leaves, &[gpt.logits], on, &mut Pipelines::default()).await?;
    let shape = [config.layers, config.heads];
    let mut factors = vec![1.0; config.layers * config.heads];

    let all_ones = Tensor::real(shape, factors.clone());
    let ids = Tensor::words([1, length], tokens.to_vec());
    let tensors: Vec<&Tensor> = [&all_ones, &ids].into_iter().chain(parameters).collect();
    let logits = evaluation.run(&tensors).await?;
    let whole = Reading::of(values(&logits), tokens).map_err(AblationError::WholeNotFinite)?;
    let mut without = Vec::with_capacity(layers.len().saturating_mul(heads.len()));
    for &layer in &layers {
        for &head in &heads {
            let at = layer * config.heads + head;
            factors[at] = 0.0;
            let logits = evaluation.run(&[&Tensor::real(shape, factors.clone())]).await?;
            factors[at] = 1.0;
            let reading = Reading::of(values(&logits), tokens);
            let reading = reading.map_err(|source| AblationError::NotFinite { layer, head, source })?;
            without.push(Ablation { layer, head, reading });
        }
    }
    Ok(Ablations { whole, heads: without })
}

/// The numbers of the only output.
fn values(outputs: &[Tensor]) -> &[f64] {
    outputs.first().map_or(&[], Tensor::values)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::attention::EditedAttention;
    use crate::model::trace::{TraceRequest, next_tokens, trace};
    use crate::model::{Initialisation, QueryKeyInit};
    use crate::script::{TraceHere, builtin};

    const TOKENS: [u32; 7] = [3, 1, 4, 1, 5, 9, 2];

    /// A model of two layers with three heads of four, and weights so large that every head counts.
    fn model(attention: &str) -> (GptConfig, Vec<Tensor>) {
        let config = GptConfig::new(11, 9, 2, 3, 12).unwrap();
        let config = match attention {
            "reference" => config,
            name => {
                let script = builtin(name).unwrap().script();
                let edited = EditedAttention::new(script, Arc::new(TraceHere), &config).unwrap();
                config.with_attention(Some(Arc::new(edited))).unwrap()
            }
        };
        let initialisation = Initialisation { query_key: QueryKeyInit::Unit, seed: 5, ..Default::default() };
        let values = initialisation.values(&config);
        let parameters = config.parameters().into_iter().zip(values).map(|(parameter, values)| {
            let factor = if parameter.name.contains("ln_") { 1.0 } else { 6.0 };
            let values = values.into_iter().map(|value| factor * f64::from(value)).collect();
            Tensor::real(parameter.shape, values)
        });
        let parameters = parameters.collect();
        (config, parameters)
    }

    async fn traced(config: &GptConfig, parameters: &[Tensor], on: &RunOn) -> Reading {
        let request = TraceRequest { fused: true, ..TraceRequest::default() };
        let targets = next_tokens(&TOKENS, TOKENS.len());
        let traced = trace(config, parameters, (&TOKENS, [1, TOKENS.len()]), &targets, request, on).await.unwrap();
        let (_, logits) = traced.iter().find(|(name, _)| name == "logits").unwrap();
        Reading::of(logits.values(), &TOKENS).unwrap()
    }

    /// The parameters with the rows of one head in the output projection set to 0.
    fn without_rows(config: &GptConfig, parameters: &[Tensor], layer: usize, head: usize) -> Vec<Tensor> {
        let mut edited = parameters.to_vec();
        let name = format!("transformer.h.{layer}.attn.c_proj.weight");
        let at = config.parameters().iter().position(|parameter| parameter.name == name).unwrap();
        let (width, head_dim) = (config.width, config.width / config.heads);
        let mut values = edited[at].values().to_vec();
        values[head * head_dim * width..(head + 1) * head_dim * width].fill(0.0);
        edited[at] = Tensor::real([width, width], values);
        edited
    }

    #[test]
    fn a_head_is_ablated_as_if_its_rows_of_the_output_projection_were_zero() {
        pollster::block_on(async {
            for (attention, on, tolerance) in [
                ("reference", RunOn::CpuWide, 1e-12),
                ("reference", RunOn::Cpu, 1e-5),
                ("cosine", RunOn::CpuWide, 1e-12),
                ("relu", RunOn::CpuWide, 1e-12),
            ] {
                let (config, parameters) = model(attention);
                let found = ablate(&config, &parameters, &TOKENS, HeadChoice::default(), &on).await.unwrap();
                let places: Vec<_> = found.heads.iter().map(|without| (without.layer, without.head)).collect();
                assert_eq!(places, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
                for without in &found.heads {
                    let edited = without_rows(&config, &parameters, without.layer, without.head);
                    let expected = traced(&config, &edited, &on).await;
                    let far = |found: &Reading| {
                        let next = found.next.iter().zip(&expected.next).map(|(a, b)| (a - b).abs());
                        let losses = found.predictions.iter().zip(&expected.predictions);
                        let loss = |at: &Prediction| at.following.map_or(0.0, |following| following.loss);
                        next.chain(losses.map(|(a, b)| (loss(a) - loss(b)).abs())).fold(0.0, f64::max)
                    };
                    let place = format!("{attention}, layer {}, head {}", without.layer, without.head);
                    let error = far(&without.reading);
                    assert!(error <= tolerance, "{place}: {error:e}");
                    // Each head counts, and for something of its own.
                    let others = found.heads.iter().filter(|other| *other != without).map(|other| &other.reading);
                    let nearest = others.chain([&found.whole]).map(far).fold(f64::INFINITY, f64::min);
                    assert!(nearest > 1e-4, "{place}: another reading is {nearest:e} away");
                }
            }
        });
    }

    #[test]
    fn a_model_with_all_its_heads_is_the_ordinary_forward_pass_bit_for_bit() {
        pollster::block_on(async {
            for attention in ["reference", "cosine"] {
                let (config, parameters) = model(attention);
                for on in [RunOn::Cpu, RunOn::CpuWide] {
                    let found = ablate(&config, &parameters, &TOKENS, HeadChoice::default(), &on).await.unwrap();
                    assert_eq!(found.whole, traced(&config, &parameters, &on).await, "{attention}");
                }
            }
        });
    }

    #[test]
    fn the_chosen_heads_alone_are_ablated_and_what_that_changes_is_measured() {
        pollster::block_on(async {
            let (config, parameters) = model("reference");
            let all = ablate(&config, &parameters, &TOKENS, HeadChoice::default(), &RunOn::Cpu).await.unwrap();
            for (layer, head, expected) in
                [(Some(1), Some(2), &all.heads[5..]), (Some(0), None, &all.heads[..3]), (None, None, &all.heads[..])]
            {
                let choice = HeadChoice { layer, head };
                let found = ablate(&config, &parameters, &TOKENS, choice, &RunOn::Cpu).await.unwrap();
                assert_eq!((&found.whole, &found.heads[..]), (&all.whole, expected));
            }
            let whole = Reading { predictions: predictions(&[0.0; 6], &[1, 0], 1).unwrap(), next: vec![0.5, 0.3, 0.2] };
            let reading = Reading {
                predictions: predictions(&[9f64.ln(), 0.0, 0.0, 0.0, 0.0, 0.0], &[1, 0], 1).unwrap(),
                next: vec![0.1, 0.3, 0.6],
            };
            let without = Ablation { layer: 0, head: 0, reading };
            let measured = Ablations { whole, heads: vec![without.clone()] };
            assert!((measured.moved(&without) - 0.4).abs() < 1e-12);
            assert_eq!(measured.next_probability(2, &without), [0.2, 0.6]);
            // ln 3 with the head, ln(11 / 9) without it.
            assert!((measured.loss_rise(&without).unwrap() - (11.0f64 / 27.0).ln()).abs() < 1e-12);
            let alone = ablate(&config, &parameters, &[4], HeadChoice::default(), &RunOn::Cpu).await.unwrap();
            assert_eq!(alone.loss_rise(&alone.heads[0]), None);
            assert_eq!(
                alone.whole.next_token().map(|next| next.probability),
                alone.whole.next.iter().copied().reduce(f64::max)
            );
        });
    }

    #[test]
    fn what_cannot_be_ablated_is_named() {
        pollster::block_on(async {
            let (config, mut parameters) = model("reference");
            let refused = async |parameters: &[Tensor], tokens: &[u32], layer, head| {
                let choice = HeadChoice { layer, head };
                ablate(&config, parameters, tokens, choice, &RunOn::Cpu).await.unwrap_err().to_string()
            };
            for (tokens, layer, head, expected) in [
                (&[][..], None, None, "the text has 0 tokens, and the model reads 1 to 9"),
                (&[1; 10], None, None, "the text has 10 tokens, and the model reads 1 to 9"),
                (&[1, 11], None, None, "token 1 is 11: ids of this model are below 11"),
                (&[1], Some(2), None, "there is no layer 2: the model has 2, counted from 0"),
                (&[1], Some(0), Some(3), "there is no head 3: the model has 3, counted from 0"),
            ] {
                let error = refused(&parameters, tokens, layer, head).await;
                assert_eq!(error, format!("no head is ablated, because {expected}"));
            }
            let last = parameters.len() - 1;
            parameters[last] = Tensor::real([12], vec![f64::MAX; 12]);
            let error = refused(&parameters, &[1], None, None).await;
            assert!(error.starts_with("no head is ablated, because the logit of token 0 at position 0 is "), "{error}");
        });
    }
}
