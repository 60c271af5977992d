//! GPT-2 as a graph: what a reader should look at to see the whole model.

use crate::graph::ops::{
    Losses, add, cross_entropy, embedding, gelu, input, layer_norm, linear, matmul, multiply, reshape, slice, transpose,
};
use crate::graph::{Graph, GraphError, Place, TensorType, Value};
use crate::model::attention::traced;
use crate::model::config::GptConfig;
use crate::script::{Inputs, ScriptError, replay};
use crate::tape::Category;

/// A model that does not become a graph.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Script(#[from] ScriptError),
}

/// A forward pass over `[batch, length]` tokens.
#[derive(Clone, Debug)]
pub struct Gpt {
    pub graph: Graph,
    /// In the order of [`GptConfig::parameters`].
    pub parameters: Vec<Value>,
    /// Words `[B, T]`.
    pub tokens: Value,
    /// Words `[B * T]`; all bits set where there is none.
    pub targets: Value,
    /// `[B * T, V]`
    pub logits: Value,
    pub losses: Losses,
    /// Token plus position embeddings `[B, T, E]`.
    pub embedded: Value,
    pub blocks: Vec<Block>,
}

/// The values of one block that somebody may want to look at.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// What the attention is given as values `[B, T, E]`.
    pub value: Value,
    /// What the attention observes as 'weights', `[B, H, T, T]` in the reference; `None` where it observes no such
    /// thing. Requesting them keeps this block from being fused.
    pub weights: Option<Value>,
    /// The residual stream after the attention `[B, T, E]`.
    pub after_attention: Value,
    /// The residual stream after the MLP `[B, T, E]`.
    pub after_mlp: Value,
}

/// Builds GPT-2 (Radford et al. 2019, section 2.3) over `batch` rows of `length` tokens.
///
/// # Errors
/// [`GraphError::Shape`] where `length` exceeds the configuration's context; an attention that cannot be traced.
pub fn build(config: &GptConfig, batch: usize, length: usize) -> Result<Gpt, BuildError> {
    build_in(Graph::new(), config, (batch, length), None)
}

/// As [`build`], with the output of each head multiplied by a factor before the output projection. Also gives the factors,
/// a leaf `[L, H]`: the model as it is where all are 1, without a head where that one is 0. The head `h` of an edited
/// attention is what it returns in the columns from `h * D` to `(h + 1) * D`.
///
/// # Errors
/// As [`build`].
pub fn build_with_head_factors(config: &GptConfig, batch: usize, length: usize) -> Result<(Gpt, Value), BuildError> {
    let mut graph = Graph::new();
    let factors = input(&mut graph, "head_factors", TensorType::real([config.layers, config.heads]))?;
    Ok((build_in(graph, config, (batch, length), Some(factors))?, factors))
}

fn build_in(
    mut graph: Graph,
    config: &GptConfig,
    (batch, length): (usize, usize),
    head_factors: Option<Value>,
) -> Result<Gpt, BuildError> {
    let (script, recordings) = traced(config, batch, length)?;
    let g = &mut graph;
    let mut parameters = Vec::new();
    for parameter in config.parameters() {
        parameters.push(input(g, &parameter.name, TensorType::real(parameter.shape))?);
    }
    let tokens = input(g, "tokens", TensorType::words([batch, length]))?;
    let targets = input(g, "targets", TensorType::words([batch * length]))?;
    // Those of an edited attention stand at the end.
    let declared: usize = recordings.iter().map(|recording| recording.parameters.len()).sum();
    let mut unused_declared = parameters.iter().copied().skip(parameters.len().saturating_sub(declared));
    let mut unused = parameters.iter().copied();
    let mut next =
        || unused.next().ok_or(GraphError::NoGradient { op: "gpt", what: "a parameter that does not exist" });

    let token_embedding = next()?;
    let position_embedding = next()?;
    g.set_scope("embed");
    let positions = slice(g, position_embedding, 0, 0, length)?;
    let of_tokens = embedding(g, token_embedding, tokens)?;
    let embedded = add(g, of_tokens, positions)?;

    let mut stream = embedded;
    let mut blocks = Vec::new();
    for (layer, recording) in recordings.iter().enumerate() {
        let place = Place { block: Some(layer), ..Place::default() };
        g.set_place(place);
        g.set_scope(format!("h.{layer}.ln_1"));
        let normed = layer_norm(g, stream, next()?, next()?, config.layer_norm_epsilon)?;
        g.set_scope(format!("h.{layer}.attn.c_attn"));
        let projected = linear(g, normed, next()?, next()?)?;
        g.set_scope(format!("h.{layer}.attn"));
        let width = config.width;
        let [query, key, value] = [0, 1, 2].map(|part| slice(g, projected, 2, part * width, (part + 1) * width));
        let value = value?;
        let inputs = Inputs { x: normed, query: query?, key: key?, value };
        let own: Vec<Value> = unused_declared.by_ref().take(recording.parameters.len()).collect();
        g.set_place(Place { attention: true, ..place });
        let attended = replay(g, &script, recording, &inputs, &own)?;
        g.set_place(place);
        // Whatever else is named so is no map.
        let square =
            |value: &Value| matches!(*g.shape(*value), [_, _, rows, columns] if (rows, columns) == (length, length));
        let weights = attended.observed("weights").filter(square);
        let output = match head_factors {
            Some(factors) => {
                g.set_scope(format!("h.{layer}.attn.head_factors"));
                let own = slice(g, factors, 0, layer, layer + 1)?;
                multiply_heads(g, attended.output, own)?
            }
            None => attended.output,
        };
        g.set_scope(format!("h.{layer}.attn.c_proj"));
        let projected = linear(g, output, next()?, next()?)?;
        let after_attention = add(g, stream, projected)?;

        g.set_scope(format!("h.{layer}.ln_2"));
        let normed = layer_norm(g, after_attention, next()?, next()?, config.layer_norm_epsilon)?;
        g.set_scope(format!("h.{layer}.mlp.c_fc"));
        let hidden = linear(g, normed, next()?, next()?)?;
        g.set_scope(format!("h.{layer}.mlp"));
        let active = gelu(g, hidden)?;
        g.set_scope(format!("h.{layer}.mlp.c_proj"));
        let projected = linear(g, active, next()?, next()?)?;
        stream = add(g, after_attention, projected)?;
        blocks.push(Block { value, weights, after_attention, after_mlp: stream });
    }

    g.set_place(Place::default());
    g.set_scope("ln_f");
    let normed = layer_norm(g, stream, next()?, next()?, config.layer_norm_epsilon)?;
    g.set_scope("head");
    let flat = reshape(g, normed, &[batch * length, config.width])?;
    let output = transpose(g, token_embedding)?;
    g.set_category(Some(Category::Logits));
    let logits = matmul(g, flat, output)?;
    g.set_category(None);
    g.set_scope("loss");
    let losses = cross_entropy(g, logits, targets)?;
    g.set_scope("");
    Ok(Gpt { graph, parameters, tokens, targets, logits, losses, embedded, blocks })
}

/// The heads of `[B, T, E]`, each multiplied by its own of the factors `[1, H]`.
fn multiply_heads(g: &mut Graph, output: Value, factors: Value) -> Result<Value, GraphError> {
    let (heads, shape) = (g.shape(factors)[1], g.shape(output).to_vec());
    let factors = reshape(g, factors, &[heads, 1])?;
    let apart = reshape(g, output, &[shape[0], shape[1], heads, shape[2] / heads])?;
    let multiplied = multiply(g, apart, factors)?;
    reshape(g, multiplied, &shape)
}
