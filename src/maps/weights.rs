//! The attention weights of a model's forward pass over one text.

use super::map::{HeadMap, Maps};
use super::sources::{NoSource, Source, sources};
use crate::graph::ops::AttentionSpec;
use crate::graph::{EvaluationError, Graph, Value, evaluate};
use crate::model::GptConfig;
use crate::model::gpt::{BuildError, build};
use crate::tape::{RunOn, Tensor, stray_id};

/// Which heads are wanted; `None` stands for all. Counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadChoice {
    pub layer: Option<usize>,
    pub head: Option<usize>,
}

/// A layer or a head that the model does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {what} {index}: the model has {count}, counted from 0")]
pub struct NoSuchHead {
    pub what: &'static str,
    pub index: usize,
    pub count: usize,
}

impl HeadChoice {
    /// The layers and the heads that are meant, of a model with so many.
    pub(super) fn within(self, layers: usize, heads: usize) -> Result<[Vec<usize>; 2], NoSuchHead> {
        let chosen = |what, wanted, count| match wanted {
            Some(index) if index >= count => Err(NoSuchHead { what, index, count }),
            Some(index) => Ok(vec![index]),
            None => Ok((0..count).collect()),
        };
        Ok([chosen("layer", self.layer, layers)?, chosen("head", self.head, heads)?])
    }
}

/// The most that the maps of one call may take.
const MAP_BYTES: u64 = 1 << 30;

/// Why there is no map.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    #[error("no map, because {0}")]
    Build(#[from] BuildError),
    #[error("no map, because {0}")]
    Evaluation(#[from] EvaluationError),
    #[error("no map, because the text has {found} tokens, and the model reads 1 to {context}")]
    Length { found: usize, context: usize },
    #[error("no map, because token {index} is {found}: ids of this model are below {vocabulary}")]
    Id { index: usize, found: i64, vocabulary: usize },
    #[error("no map, because {0}")]
    Missing(#[from] NoSuchHead),
    #[error(
        "no map, because layer {layer} multiplies its values by {} of shape [T, T] a head: in {file}, name the \
         [B, H, T, T] tensor with ops.observe(\"weights\", ..)",
        match products { 0 => "nothing".into(), _ => format!("{products} tensors") }
    )]
    NoWeights { layer: usize, file: String, products: usize },
    #[error(
        "no map, because the weight of query {query} and key {key} in layer {layer}, head {head} is {value}: the model \
         is damaged, or its training diverged"
    )]
    NotFinite { layer: usize, head: usize, query: usize, key: usize, value: f32 },
    #[error(
        "no map, because {maps} maps of {tokens} tokens take {bytes} bytes, of which {MAP_BYTES} are allowed: choose a \
         layer, a head, or a shorter text"
    )]
    TooLarge { maps: usize, tokens: usize, bytes: u64 },
}

/// Runs a model over one text and gives the attention weights of the chosen heads.
///
/// The model runs fused wherever its attention can be. Weights that no tensor holds are rebuilt row by row from query, key
/// and softmax statistics (Dao et al. 2022, appendix B.4); otherwise they are the tensor observed as 'weights', or else
/// the operand that multiplies what is made of the values. `tokens` are ids, `text` gives the text of each, `parameters`
/// are in the order of [`GptConfig::parameters`].
///
/// # Errors
/// A text, a layer or a head that the model does not have, an attention that shows no weights or does not run at this
/// length, weights that are not finite, a device that fails.
pub async fn attention_maps(
    config: &GptConfig,
    parameters: &[Tensor],
    (tokens, text): (&[u32], impl Fn(u32) -> String),
    choice: HeadChoice,
    on: &RunOn,
) -> Result<Maps, MapError> {
    let (length, context, vocabulary) = (tokens.len(), config.context_length, config.vocabulary_size);
    if length == 0 || length > context {
        return Err(MapError::Length { found: length, context });
    }
    if let Some((index, found)) = stray_id(tokens, vocabulary, false) {
        return Err(MapError::Id { index, found, vocabulary });
    }
    let [layers, heads] = choice.within(config.layers, config.heads)?;
    let count = layers.len().saturating_mul(heads.len());
    let bytes = [length, length, 4].iter().fold(count as u64, |bytes, &size| bytes.saturating_mul(size as u64));
    if bytes > MAP_BYTES {
        return Err(MapError::TooLarge { maps: count, tokens: length, bytes });
    }

    let gpt = build(config, 1, length)?;
    let (graph, sources) = sources(&gpt, &layers, (config.heads, length)).map_err(|NoSource { layer, products }| {
        MapError::NoWeights { layer, file: config.attention_file(), products }
    })?;
    let mut roots: Vec<Value> = sources.iter().flat_map(|(_, source)| source.roots(&graph)).collect();
    roots.sort_unstable();
    // Queries that are their own keys are one value.
    roots.dedup();
    let ids = Tensor::words([1, length], tokens.to_vec());
    let mut inputs: Vec<(Value, &Tensor)> = gpt.parameters.iter().copied().zip(parameters).collect();
    inputs.push((gpt.tokens, &ids));
    let computed = evaluate(&graph, &inputs, &roots, on).await?;
    let result = |value: Value| roots.binary_search(&value).ok().and_then(|at| computed.get(at));

    let mut maps = Vec::with_capacity(count);
    for (layer, source) in &sources {
        let tensors: Vec<&Tensor> = source.roots(&graph).into_iter().filter_map(result).collect();
        for &head in &heads {
            let (weights, causal) = match (source, &tensors[..]) {
                (Source::Fused { spec, .. }, &[query, key, statistics]) => {
                    (rebuilt(spec, query, key, statistics, head), spec.causal)
                }
                (_, tensors) => {
                    let all = tensors.first().map_or(&[][..], |tensor| tensor.values());
                    let own = all.iter().skip(head * length * length).take(length * length);
                    let weights: Vec<f32> = own.map(|&weight| weight as f32).collect();
                    let causal = is_lower_triangle(&weights, length);
                    (weights, causal)
                }
            };
            if let Some(at) = weights.iter().position(|weight| !weight.is_finite()) {
                let (query, key, value) = (at / length, at % length, weights[at]);
                return Err(MapError::NotFinite { layer: *layer, head, query, key, value });
            }
            maps.push(HeadMap { layer: *layer, head, queries: length, keys: length, weights, causal });
        }
    }
    Ok(Maps {
        tokens: tokens.iter().map(|&id| text(id)).collect(),
        layers: config.layers,
        heads: config.heads,
        maps,
        source: described(&graph, &sources),
    })
}

/// The weights `[Tq, Tk]` of a head of fused attention: `exp(scale * query . key - largest) / sum` where visible. Query is
/// `[B, H, Tq, D]`, key `[B, Hkv, Tk, D]`, the statistics are `[2, B, H, Tq]`; `head` counts over batch and heads.
fn rebuilt(spec: &AttentionSpec, query: &Tensor, key: &Tensor, statistics: &Tensor, head: usize) -> Vec<f32> {
    let (&[_, heads, queries, width], &[_, key_heads, keys, _]) = (&query.shape[..], &key.shape[..]) else {
        return Vec::new();
    };
    let key_head = (head / heads) * key_heads + head % heads / (heads / key_heads);
    let rows = query.values()[head * queries * width..].chunks(width).take(queries);
    let columns = &key.values()[key_head * keys * width..][..keys * width];
    let (largest, sums) = statistics.values().split_at(statistics.len() / 2);
    let mut weights = vec![0.0; queries * keys];
    for (i, row) in rows.enumerate() {
        let visible = if spec.causal { (i + keys + 1).saturating_sub(queries).min(keys) } else { keys };
        let (largest, sum) = (largest[head * queries + i], sums[head * queries + i]);
        for (weight, column) in weights[i * keys..].iter_mut().zip(columns.chunks(width)).take(visible) {
            let score: f64 = spec.scale * row.iter().zip(column).map(|(a, b)| a * b).sum::<f64>();
            // A sum of 0 belongs to a query that sees nothing.
            *weight = if sum == 0.0 { 0.0 } else { ((score - largest).exp() / sum) as f32 };
        }
    }
    weights
}

/// Whether the weight of every later key is exactly 0, as a mask leaves it.
fn is_lower_triangle(weights: &[f32], length: usize) -> bool {
    weights.chunks(length).enumerate().all(|(i, row)| row.iter().skip(i + 1).all(|&weight| weight == 0.0))
}

/// Where the weights come from, one clause a kind of source.
fn described(graph: &Graph, sources: &[(usize, Source)]) -> String {
    let mut clauses: Vec<(String, Vec<usize>)> = Vec::new();
    for (layer, source) in sources {
        let place = |value: &Value| match &graph.nodes[value.node].span {
            Some(span) => format!(" in {span}"),
            None => String::new(),
        };
        let clause = match source {
            Source::Fused { .. } => "rebuilt from query, key and log-sum-exp of the fused pass".to_string(),
            Source::Tensor { value, observed: true } => format!("observed as 'weights'{}", place(value)),
            Source::Tensor { value, observed: false } => format!("what the values are multiplied by{}", place(value)),
        };
        match clauses.iter_mut().find(|(known, _)| *known == clause) {
            Some((_, layers)) => layers.push(*layer),
            None => clauses.push((clause, vec![*layer])),
        }
    }
    match &clauses[..] {
        [(clause, _)] => clause.clone(),
        several => {
            let in_layers = |(clause, layers): &(String, Vec<usize>)| {
                let layers: Vec<String> = layers.iter().map(usize::to_string).collect();
                format!("layer {}: {clause}", layers.join(", "))
            };
            several.iter().map(in_layers).collect::<Vec<_>>().join("; ")
        }
    }
}
