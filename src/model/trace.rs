//! Looking inside a model: what it computes for given tokens, tensor by tensor.

use crate::graph::{EvaluationError, GraphError, Rewrites, Value, differentiate, evaluate, rewrite};
use crate::model::config::GptConfig;
use crate::model::gpt::{BuildError, build};
use crate::tape::{RunOn, Tensor, stray_id};

/// What of a model is wanted, beside logits and losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceRequest {
    /// `attn.L [B, H, T, T]` of every layer, query by key; exactly 0 where masked. Attention is then not fused.
    pub attention: bool,
    /// `act.embed`, `act.L.resid_mid` and `act.L.resid_post`, each `[B, T, E]`.
    pub activations: bool,
    /// `grad.NAME`: the gradient of the mean loss for every parameter.
    pub gradients: bool,
    /// Compute with fused attention; [`TraceRequest::attention`] then gives nothing.
    pub fused: bool,
}

/// Why nothing could be traced.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(
        "layer {layer} shows no attention weights: in {file}, name the [B, H, T, T] tensor with ops.observe(\"weights\", ..)"
    )]
    NoWeights { layer: usize, file: String },
    #[error(transparent)]
    Evaluation(#[from] EvaluationError),
    #[error("{what} has shape {shape:?} where {wanted} is needed")]
    Shape { what: &'static str, shape: Vec<usize>, wanted: String },
    #[error("{what} has {found} at element {index}: ids of this model are below {vocabulary}{ignored}")]
    Id { what: &'static str, index: usize, found: i64, vocabulary: usize, ignored: &'static str },
}

/// The targets of `[B, T]` tokens that predict each next token; the last of each row has none (all bits set).
pub fn next_tokens(tokens: &[u32], length: usize) -> Vec<u32> {
    let mut targets = Vec::with_capacity(tokens.len());
    for row in tokens.chunks(length.max(1)) {
        targets.extend(row.iter().skip(1).copied().chain([u32::MAX]));
    }
    targets
}

fn check_ids(what: &'static str, words: &[u32], config: &GptConfig, may_ignore: bool) -> Result<(), TraceError> {
    let vocabulary = config.vocabulary_size;
    let Some((index, found)) = stray_id(words, vocabulary, may_ignore) else { return Ok(()) };
    let ignored = if may_ignore { ", or -1 where there is none" } else { "" };
    Err(TraceError::Id { what, index, found, vocabulary, ignored })
}

/// Runs a model over `tokens [B, T]` (words) with `targets` of as many words. Gives, under the names of
/// `tests/golden/README.md`: `logits [B, T, V]`, `row_loss [B, T]` (0 where the target is ignored), `loss [1]` (their mean
/// over the targets that count), and what `request` asks for. `parameters` are in the order of
/// [`GptConfig::parameters`].
///
/// # Errors
/// Tokens of another shape than `[B, T]` with `T` within the context, ids beyond the vocabulary, a device that fails.
pub async fn trace(
    config: &GptConfig,
    parameters: &[Tensor],
    (tokens, shape): (&[u32], [usize; 2]),
    targets: &[u32],
    request: TraceRequest,
    on: &RunOn,
) -> Result<Vec<(String, Tensor)>, TraceError> {
    let [batch, length] = shape;
    let context = config.context_length;
    if batch == 0 || length == 0 || length > context || tokens.len() != batch * length {
        let wanted = format!("[B, T] with T from 1 to the context of {context}");
        return Err(TraceError::Shape { what: "tokens", shape: shape.into(), wanted });
    }
    if targets.len() != tokens.len() {
        let (what, shape) = ("targets", vec![targets.len()]);
        return Err(TraceError::Shape { what, shape, wanted: format!("as many as the {} tokens", tokens.len()) });
    }
    check_ids("tokens", tokens, config, false)?;
    check_ids("targets", targets, config, true)?;

    let mut gpt = build(config, batch, length)?;
    let weights: Vec<Value> = match request.attention && !request.fused {
        true => {
            let missing = |layer| TraceError::NoWeights { layer, file: config.attention_file() };
            let weights = gpt.blocks.iter().enumerate();
            weights.map(|(layer, block)| block.weights.ok_or_else(|| missing(layer))).collect::<Result<_, _>>()?
        }
        false => Vec::new(),
    };
    rewrite(&mut gpt.graph, if request.fused { Rewrites::Fused } else { Rewrites::Naive }, &weights);
    let vocabulary = config.vocabulary_size;
    let mut wanted: Vec<(String, Value, Vec<usize>)> = vec![
        ("logits".into(), gpt.logits, vec![batch, length, vocabulary]),
        ("row_loss".into(), gpt.losses.rows, vec![batch, length]),
        ("loss".into(), gpt.losses.mean, vec![1]),
    ];
    let whole = |name: String, value: Value, graph: &crate::graph::Graph| (name, value, graph.shape(value).to_vec());
    if request.activations {
        wanted.push(whole("act.embed".into(), gpt.embedded, &gpt.graph));
        for (layer, block) in gpt.blocks.iter().enumerate() {
            wanted.push(whole(format!("act.{layer}.resid_mid"), block.after_attention, &gpt.graph));
            wanted.push(whole(format!("act.{layer}.resid_post"), block.after_mlp, &gpt.graph));
        }
    }
    for (layer, &value) in weights.iter().enumerate() {
        wanted.push(whole(format!("attn.{layer}"), value, &gpt.graph));
    }
    if request.gradients {
        let gradients = differentiate(&mut gpt.graph, gpt.losses.mean, &gpt.parameters)?;
        for (parameter, value) in config.parameters().iter().zip(gradients) {
            wanted.push(whole(format!("grad.{}", parameter.name), value, &gpt.graph));
        }
    }

    let tokens = Tensor::words(shape, tokens.to_vec());
    let targets = Tensor::words([batch * length], targets.to_vec());
    let mut inputs: Vec<(Value, &Tensor)> = gpt.parameters.iter().copied().zip(parameters).collect();
    inputs.extend([(gpt.tokens, &tokens), (gpt.targets, &targets)]);
    let values: Vec<Value> = wanted.iter().map(|&(_, value, _)| value).collect();
    let results = evaluate(&gpt.graph, &inputs, &values, on).await?;
    Ok(wanted.into_iter().zip(results).map(|((name, _, shape), tensor)| (name, Tensor { shape, ..tensor })).collect())
}
