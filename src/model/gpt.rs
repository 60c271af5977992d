//! GPT-2 as a graph: what a reader should look at to see the whole model.

use crate::graph::ops::{
    Losses, add, causal_mask, cross_entropy, embedding, gelu, input, layer_norm, linear, matmul, permute, reshape,
    scale, slice, softmax, transpose,
};
use crate::graph::{Graph, GraphError, TensorType, Value};
use crate::model::config::GptConfig;
use crate::tape::Category;

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
    /// The attention weights `[B, H, T, T]`, before any rewrite: requesting them keeps this block from being fused.
    pub weights: Value,
    /// The residual stream after the attention `[B, T, E]`.
    pub after_attention: Value,
    /// The residual stream after the MLP `[B, T, E]`.
    pub after_mlp: Value,
}

/// What attention is computed from: the input of its projections and the three projections, all `[B, T, E]`.
#[derive(Clone, Copy, Debug)]
pub struct Projections {
    pub x: Value,
    pub query: Value,
    pub key: Value,
    pub value: Value,
}

/// Builds GPT-2 (Radford et al. 2019, section 2.3) over `batch` rows of `length` tokens.
///
/// # Errors
/// [`GraphError::Shape`] where `length` exceeds the configuration's context.
pub fn build(config: &GptConfig, batch: usize, length: usize) -> Result<Gpt, GraphError> {
    let mut graph = Graph::new();
    let g = &mut graph;
    let mut parameters = Vec::new();
    for parameter in config.parameters() {
        parameters.push(input(g, &parameter.name, TensorType::real(parameter.shape))?);
    }
    let tokens = input(g, "tokens", TensorType::words([batch, length]))?;
    let targets = input(g, "targets", TensorType::words([batch * length]))?;
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
    for layer in 0..config.layers {
        g.set_scope(format!("h.{layer}.ln_1"));
        let normed = layer_norm(g, stream, next()?, next()?, config.layer_norm_epsilon)?;
        g.set_scope(format!("h.{layer}.attn.c_attn"));
        let projected = linear(g, normed, next()?, next()?)?;
        g.set_scope(format!("h.{layer}.attn"));
        let width = config.width;
        let [query, key, value] = [0, 1, 2].map(|part| slice(g, projected, 2, part * width, (part + 1) * width));
        let projections = Projections { x: normed, query: query?, key: key?, value: value? };
        let (mixed, weights) = attention(g, &projections, config.heads)?;
        g.set_scope(format!("h.{layer}.attn.c_proj"));
        let projected = linear(g, mixed, next()?, next()?)?;
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
        blocks.push(Block { weights, after_attention, after_mlp: stream });
    }

    g.set_scope("ln_f");
    let normed = layer_norm(g, stream, next()?, next()?, config.layer_norm_epsilon)?;
    g.set_scope("head");
    g.set_category(Some(Category::Logits));
    let flat = reshape(g, normed, &[batch * length, config.width])?;
    let output = transpose(g, token_embedding)?;
    let logits = matmul(g, flat, output)?;
    g.set_scope("loss");
    g.set_category(None);
    let losses = cross_entropy(g, logits, targets)?;
    g.set_scope("");
    Ok(Gpt { graph, parameters, tokens, targets, logits, losses, embedded, blocks })
}

/// Multi-head causal attention (Vaswani et al. 2017, section 3.2), written out. Returns the mixed values `[B, T, E]`
/// and the attention weights `[B, H, T, T]`.
///
/// # Errors
/// [`GraphError::Shape`] where the heads do not divide the width.
pub fn attention(g: &mut Graph, inputs: &Projections, heads: usize) -> Result<(Value, Value), GraphError> {
    let shape = g.shape(inputs.query).to_vec();
    let [batch, length, width] = [shape[0], shape[1], shape[2]];
    let head_width = width / heads;
    let split = |g: &mut Graph, x: Value| {
        let apart = reshape(g, x, &[batch, length, heads, head_width])?;
        permute(g, apart, &[0, 2, 1, 3])
    };
    let query = split(g, inputs.query)?;
    let key = split(g, inputs.key)?;
    let value = split(g, inputs.value)?;
    let transposed = transpose(g, key)?;
    g.set_category(Some(Category::AttentionScores));
    let scores = matmul(g, query, transposed)?;
    let scaled = scale(g, scores, 1.0 / (head_width as f64).sqrt())?;
    let masked = causal_mask(g, scaled)?;
    let weights = softmax(g, masked, 3)?;
    g.set_category(None);
    let mixed = matmul(g, weights, value)?;
    let together = permute(g, mixed, &[0, 2, 1, 3])?;
    Ok((reshape(g, together, &[batch, length, width])?, weights))
}
