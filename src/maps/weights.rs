//! The attention weights of a model's forward pass over one text.

use super::map::{HeadMap, Maps, Quantity};
use super::readable::{Unreadable, readable};
use super::sources::{NoSource, Source, sources};
use crate::graph::ops::AttentionSpec;
use crate::graph::{EvaluationError, Graph, GraphError, Value, evaluate};
use crate::model::GptConfig;
use crate::model::gpt::{BuildError, Gpt, build};
use crate::model::trace::next_tokens;
use crate::tape::{RunOn, Tensor};

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

/// The most that maps may take together.
pub const MAP_BYTES: u64 = 1 << 30;

/// Why there is no map.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    #[error("no map, because {0}")]
    Build(#[from] BuildError),
    #[error("no map, because {0}")]
    Evaluation(#[from] EvaluationError),
    #[error("no gradients, because {0}")]
    Differentiation(#[from] GraphError),
    #[error("no gradients, because one token predicts nothing: give a longer text")]
    NoLoss,
    #[error("no map, because {0}")]
    Unreadable(#[from] Unreadable),
    #[error("no map, because {0}")]
    Missing(#[from] NoSuchHead),
    #[error(
        "no map, because layer {layer} multiplies its values by {} of shape [T, T] a head: in {file}, name the \
         [B, H, T, T] tensor with ops.observe(\"weights\", ..)",
        match products { 0 => "nothing".into(), _ => format!("{products} tensors") }
    )]
    NoWeights { layer: usize, file: String, products: usize },
    #[error(
        "no map, because the {what} of query {query} and key {key} in layer {layer}, head {head} is {value}: the model \
         is damaged, or its training diverged"
    )]
    NotFinite { what: &'static str, layer: usize, head: usize, query: usize, key: usize, value: f32 },
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
    let traced = Traced::new(config, tokens, choice)?;
    let roots = traced.sources.iter().flat_map(|(_, source)| source.roots(&traced.graph));
    let results = traced.run(parameters, tokens, roots.collect(), on).await?;
    traced.maps(config, tokens.iter().map(|&id| text(id)).collect(), &results)
}

/// A model's graph over a text, and where the weights of the chosen heads are in it.
pub(super) struct Traced {
    pub gpt: Gpt,
    /// With attention fused where that leaves the weights to be had.
    pub graph: Graph,
    /// By layer.
    pub sources: Vec<(usize, Source)>,
    heads: Vec<usize>,
    length: usize,
}

/// The values that a graph was asked for.
pub(super) struct Results {
    /// Sorted.
    values: Vec<Value>,
    tensors: Vec<Tensor>,
}

impl Results {
    pub fn get(&self, value: Value) -> Option<&Tensor> {
        self.values.binary_search(&value).ok().and_then(|at| self.tensors.get(at))
    }
}

impl Traced {
    /// # Errors
    /// A text, a layer or a head that the model does not have, an attention that shows no weights.
    pub fn new(config: &GptConfig, tokens: &[u32], choice: HeadChoice) -> Result<Self, MapError> {
        readable(config, tokens)?;
        let length = tokens.len();
        let [layers, heads] = choice.within(config.layers, config.heads)?;
        let count = layers.len().saturating_mul(heads.len());
        let bytes = [length, length, 4].iter().fold(count as u64, |bytes, &size| bytes.saturating_mul(size as u64));
        if bytes > MAP_BYTES {
            return Err(MapError::TooLarge { maps: count, tokens: length, bytes });
        }
        let gpt = build(config, 1, length)?;
        let found = sources(&gpt, &layers, (config.heads, length));
        let (graph, sources) = found.map_err(|NoSource { layer, products }| MapError::NoWeights {
            layer,
            file: config.attention_file(),
            products,
        })?;
        Ok(Self { gpt, graph, sources, heads, length })
    }

    /// Computes `wanted`, in whose order and number nothing lies. Each token's target is the next one; the last has none.
    pub async fn run(
        &self,
        parameters: &[Tensor],
        tokens: &[u32],
        wanted: Vec<Value>,
        on: &RunOn,
    ) -> Result<Results, EvaluationError> {
        let mut values = wanted;
        values.sort_unstable();
        // Queries that are their own keys are one value.
        values.dedup();
        let ids = Tensor::words([1, self.length], tokens.to_vec());
        let targets = Tensor::words([self.length], next_tokens(tokens, self.length));
        let mut inputs: Vec<(Value, &Tensor)> = self.gpt.parameters.iter().copied().zip(parameters).collect();
        inputs.extend([(self.gpt.tokens, &ids), (self.gpt.targets, &targets)]);
        let tensors = evaluate(&self.graph, &inputs, &values, on).await?;
        Ok(Results { values, tensors })
    }

    /// The weights of the chosen heads.
    ///
    /// # Errors
    /// One that is not finite.
    pub fn maps(&self, config: &GptConfig, tokens: Vec<String>, results: &Results) -> Result<Maps, MapError> {
        let length = self.length;
        let mut maps = Vec::with_capacity(self.sources.len() * self.heads.len());
        for (layer, source) in &self.sources {
            let tensors: Vec<&Tensor> =
                source.roots(&self.graph).into_iter().filter_map(|value| results.get(value)).collect();
            for &head in &self.heads {
                let (weights, causal) = match (source, &tensors[..]) {
                    (Source::Fused { spec, .. }, &[query, key, statistics]) => {
                        (rebuilt(spec, query, key, statistics, head), spec.causal)
                    }
                    (_, tensors) => {
                        let weights = tensors.first().map_or_else(Vec::new, |tensor| matrix(tensor, head, length));
                        let causal = is_lower_triangle(&weights, length);
                        (weights, causal)
                    }
                };
                let map = HeadMap { layer: *layer, head, queries: length, keys: length, weights, causal };
                maps.push(finite(map, "weight")?);
            }
        }
        let (layers, heads) = (config.layers, config.heads);
        let source = described(&self.graph, &self.sources);
        Ok(Maps { tokens, layers, heads, maps, quantity: Quantity::Weight, source })
    }
}

/// The matrix `[T, T]` of a head.
pub(super) fn matrix(tensor: &Tensor, head: usize, length: usize) -> Vec<f32> {
    let own = tensor.values().iter().skip(head * length * length).take(length * length);
    own.map(|&number| number as f32).collect()
}

/// The map, unless one of its numbers is no number.
pub(super) fn finite(map: HeadMap, what: &'static str) -> Result<HeadMap, MapError> {
    let HeadMap { layer, head, keys, .. } = map;
    match map.weights.iter().position(|number| !number.is_finite()) {
        None => Ok(map),
        Some(at) => {
            Err(MapError::NotFinite { what, layer, head, query: at / keys, key: at % keys, value: map.weights[at] })
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::TensorType;
    use crate::graph::ops::{attention, causal_mask, input, matmul, scale, softmax, transpose};
    use crate::maps::toy::{CONTEXT, SCORES, model, model_of, script, text};
    use crate::model::trace::{TraceRequest, trace};
    use crate::script::{BUGS, GALLERY};
    use crate::tape::normal;

    fn maps(
        (config, parameters): &(GptConfig, Vec<Tensor>),
        tokens: &[u32],
        choice: HeadChoice,
    ) -> Result<Maps, MapError> {
        let text = |id: u32| id.to_string();
        pollster::block_on(attention_maps(config, parameters, (tokens, text), choice, &RunOn::Cpu))
    }

    /// `attn.L [H, T, T]` of each layer, as the model without fusion computes them.
    fn naive((config, parameters): &(GptConfig, Vec<Tensor>), tokens: &[u32]) -> Vec<Tensor> {
        let request = TraceRequest { attention: true, ..TraceRequest::default() };
        let (shape, targets) = ([1, tokens.len()], next_tokens(tokens, tokens.len()));
        let traced = trace(config, parameters, (tokens, shape), &targets, request, &RunOn::Cpu);
        let traced = pollster::block_on(traced).unwrap().into_iter();
        traced.filter(|(name, _)| name.starts_with("attn.")).map(|(_, tensor)| tensor).collect()
    }

    fn farthest(maps: &Maps, expected: &[Tensor]) -> f64 {
        let of_map = |map: &HeadMap| {
            let size = map.queries * map.keys;
            let expected = &expected[map.layer].values()[map.head * size..][..size];
            map.weights.iter().zip(expected).map(|(&a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max)
        };
        maps.maps.iter().map(of_map).fold(0.0, f64::max)
    }

    #[test]
    fn weights_rebuilt_from_the_fused_pass_are_those_of_the_naive_one() {
        for (heads, width, length) in [(1, 8, 1), (2, 8, 2), (3, 39, 7), (2, 32, 33), (4, 32, CONTEXT)] {
            let model = model(heads, width, None);
            let tokens = text(length);
            let found = maps(&model, &tokens, HeadChoice::default()).unwrap();
            assert_eq!(found.source, "rebuilt from query, key and log-sum-exp of the fused pass");
            assert_eq!((found.layers, found.heads, found.maps.len()), (2, heads, 2 * heads));
            assert_eq!(found.tokens, tokens.iter().map(u32::to_string).collect::<Vec<_>>());
            let distance = farthest(&found, &naive(&model, &tokens));
            assert!(distance <= 1e-5, "{heads} heads of {width} over {length}: {distance:e}");
            for map in &found.maps {
                assert!(map.causal && (map.queries, map.keys) == (length, length));
                for query in 0..length {
                    let row = (0..length).map(|key| (key, map.weight(query, key)));
                    assert!(row.filter(|&(key, _)| map.is_masked(query, key)).all(|(_, weight)| weight == 0.0));
                }
            }
        }
    }

    #[test]
    fn a_chosen_head_is_the_same_as_among_all() {
        let model = model(3, 24, None);
        let tokens = text(9);
        let all = maps(&model, &tokens, HeadChoice::default()).unwrap().maps;
        for (layer, head, expected) in [
            (Some(1), Some(2), &all[5..6]),
            (Some(0), None, &all[..3]),
            (None, Some(1), &[all[1].clone(), all[4].clone()]),
        ] {
            assert_eq!(maps(&model, &tokens, HeadChoice { layer, head }).unwrap().maps, expected);
        }
    }

    #[test]
    fn an_edited_attention_shows_what_it_observes_or_is_rebuilt() {
        for file in GALLERY.iter().chain(BUGS).filter(|file| file.name != "infinity_times_zero") {
            // One is written for T = d_head alone.
            let length = if file.name == "missing_transpose" { 16 } else { 13 };
            let model = model_of(GptConfig::new(11, 16, 2, 2, 32).unwrap(), Some(file.script()));
            let tokens = text(length);
            let found = maps(&model, &tokens, HeadChoice::default()).unwrap();
            let distance = farthest(&found, &naive(&model, &tokens));
            assert!(distance <= 1e-5, "{}: {distance:e}", file.name);
            let observed = format!("observed as 'weights' in {}.star:", file.name);
            assert!(found.source.starts_with(&observed) || found.source.starts_with("rebuilt"), "{}", found.source);
        }
    }

    #[test]
    fn weights_that_nobody_observes_are_found_by_what_they_multiply() {
        let expected = naive(&model(2, 16, None), &text(9));
        for (what, body, source) in [
            ("fused", format!("{SCORES}    return ops.merge_heads(ops.softmax(s) @ v)\n"), "rebuilt from query"),
            ("called", "    return ops.merge_heads(ops.attention(q, k, v))\n".into(), "rebuilt from query"),
            (
                "added to",
                format!("{SCORES}    return ops.merge_heads(ops.softmax(s + 0.0 * s) @ v)\n"),
                "what the values are multiplied by in mine.star:4",
            ),
            (
                "the wrong tensor observed",
                format!("{SCORES}    return ops.merge_heads(ops.softmax(s) @ ops.observe(\"weights\", v))\n"),
                "rebuilt from query",
            ),
        ] {
            let model = model(2, 16, Some(script(&body)));
            let found = maps(&model, &text(9), HeadChoice::default()).unwrap();
            assert!(found.source.starts_with(source), "{what}: {}", found.source);
            assert!(found.maps.iter().all(|map| map.causal), "{what}");
            let distance = farthest(&found, &expected);
            assert!(distance <= 1e-5, "{what}: {distance:e}");
        }
    }

    #[test]
    fn what_sees_the_future_is_not_called_causal() {
        let body = "    return ops.merge_heads(ops.softmax(ops.bmm(q, k, transpose_b=True)) @ v)\n";
        let model = model(2, 16, Some(script(body)));
        let found = maps(&model, &text(9), HeadChoice::default()).unwrap();
        assert!(found.maps.iter().all(|map| !map.causal && map.weight(0, 8) > 0.0));
        let body = format!("{SCORES}    w = ops.softmax(s) + 0.01\n    return ops.merge_heads(w @ v)\n");
        let found = maps(&self::model(2, 16, Some(script(&body))), &text(9), HeadChoice::default()).unwrap();
        assert!(found.maps.iter().all(|map| !map.causal && map.weight(0, 8) == 0.01));
    }

    #[test]
    fn where_there_is_no_map_one_line_says_why() {
        let nothing = script("    return ops.merge_heads(v)\n");
        let both =
            format!("{SCORES}    both = ops.softmax(s) @ v + ops.softmax(-s) @ v\n    return ops.merge_heads(both)\n");
        let choose = |layer, head| HeadChoice { layer, head };
        let damaged = {
            let (config, mut parameters) = model(2, 16, None);
            parameters[0] = Tensor::real(parameters[0].shape.clone(), vec![f64::NAN; parameters[0].len()]);
            (config, parameters)
        };
        for (model, tokens, choice, expected) in [
            (model(2, 16, None), vec![], choose(None, None), "the text has 0 tokens, and the model reads 1 to 40"),
            (model(2, 16, None), text(41), choose(None, None), "the text has 41 tokens, and the model reads 1 to 40"),
            (model(2, 16, None), vec![3, 11], choose(None, None), "token 1 is 11: ids of this model are below 11"),
            (
                model(2, 16, None),
                text(4),
                choose(Some(2), None),
                "there is no layer 2: the model has 2, counted from 0",
            ),
            (model(2, 16, None), text(4), choose(None, Some(7)), "there is no head 7: the model has 2, counted from 0"),
            (
                model(2, 16, Some(nothing)),
                text(4),
                choose(Some(1), None),
                "layer 1 multiplies its values by nothing of shape [T, T] a head: in mine.star, name the [B, H, T, T] \
                 tensor with ops.observe(\"weights\", ..)",
            ),
            (
                model(2, 16, Some(script(&both))),
                text(4),
                choose(None, None),
                "layer 0 multiplies its values by 2 tensors of shape [T, T] a head: in mine.star, name the [B, H, T, T] \
                 tensor with ops.observe(\"weights\", ..)",
            ),
            (
                damaged,
                text(4),
                choose(None, None),
                "the weight of query 0 and key 0 in layer 0, head 0 is NaN: the model is damaged, or its training diverged",
            ),
        ] {
            let error = maps(&model, &tokens, choice).unwrap_err().to_string();
            assert_eq!(error, format!("no map, because {expected}"));
        }
        let large = GptConfig::new(11, 4096, 4, 8, 16).unwrap();
        let error = maps(&(large, Vec::new()), &text(4096), HeadChoice::default()).unwrap_err().to_string();
        assert!(
            error.contains("32 maps of 4096 tokens take 2147483648 bytes, of which 1073741824 are allowed"),
            "{error}"
        );
    }

    #[test]
    fn rows_and_columns_of_other_lengths_are_aligned_at_the_bottom_right() {
        for (queries, keys, heads, key_heads, causal) in
            [(4, 2, 2, 2, true), (2, 5, 4, 2, true), (1, 7, 2, 1, true), (5, 3, 2, 2, false), (6, 6, 6, 3, true)]
        {
            let (batch, width) = (2, 8);
            let mut graph = Graph::new();
            let g = &mut graph;
            let mut leaf = |name: &str, heads: usize, length: usize, seed: u64| {
                let shape = [batch, heads, length, width];
                let value = input(g, name, TensorType::real(shape)).unwrap();
                let drawn = normal(seed, 0, shape.iter().product(), 1.0).into_iter().map(f64::from);
                (value, Tensor::real(shape, drawn.collect()))
            };
            let leaves = [leaf("q", heads, queries, 1), leaf("k", key_heads, keys, 2), leaf("v", key_heads, keys, 3)];
            let [query, key, value] = [0, 1, 2].map(|leaf| leaves[leaf].0);
            let spec = AttentionSpec { scale: 0.4, causal };
            let fused = attention(g, query, key, value, spec).unwrap();
            let statistics = Value { node: fused.node, output: 2 };
            let bound: Vec<(Value, &Tensor)> = leaves.iter().map(|(value, tensor)| (*value, tensor)).collect();
            let computed = pollster::block_on(evaluate(&graph, &bound, &[statistics], &RunOn::Cpu)).unwrap();

            for head in 0..batch * heads {
                let found = rebuilt(&spec, &leaves[0].1, &leaves[1].1, &computed[0], head);
                let (of_batch, own) = (head / heads, head % heads);
                let key_head = of_batch * key_heads + own / (heads / key_heads);
                // The same head, alone and written out.
                let mut graph = Graph::new();
                let g = &mut graph;
                let part = |tensor: &Tensor, at: usize, length: usize| {
                    let size = length * width;
                    Tensor::real([1, 1, length, width], tensor.values()[at * size..][..size].to_vec())
                };
                let tensors = [part(&leaves[0].1, head, queries), part(&leaves[1].1, key_head, keys)];
                let leaf =
                    |g: &mut Graph, at: usize| input(g, "leaf", TensorType::real(tensors[at].shape.clone())).unwrap();
                let (query, key) = (leaf(g, 0), leaf(g, 1));
                let transposed = transpose(g, key).unwrap();
                let scores = matmul(g, query, transposed).unwrap();
                let scaled = scale(g, scores, spec.scale).unwrap();
                let masked = if causal { causal_mask(g, scaled).unwrap() } else { scaled };
                let weights = softmax(g, masked, 3).unwrap();
                let bound = [(query, &tensors[0]), (key, &tensors[1])];
                let expected = pollster::block_on(evaluate(&graph, &bound, &[weights], &RunOn::Cpu)).unwrap();
                for (at, (&a, b)) in found.iter().zip(expected[0].values()).enumerate() {
                    let place = format!("{queries} by {keys}, head {head}, element {at}");
                    assert!((f64::from(a) - b).abs() <= 1e-5, "{place}: {a} against {b}");
                }
                assert_eq!(found.len(), queries * keys);
                let map = HeadMap { layer: 0, head, queries, keys, weights: found, causal };
                let cells = (0..queries).flat_map(|query| (0..keys).map(move |key| (query, key)));
                assert!(cells.clone().filter(|&(i, j)| map.is_masked(i, j)).all(|(i, j)| map.weight(i, j) == 0.0));
                assert!(cells.filter(|&(i, j)| !map.is_masked(i, j)).all(|(i, j)| map.weight(i, j) > 0.0));
            }
        }
    }
}
