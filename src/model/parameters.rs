//! The parameters of a GPT-2 in order, under the names Hugging Face gives them. The output layer has none of its
//! own: it is the token embedding, stored once.

use crate::model::config::GptConfig;
use crate::script::Initial;

/// What a parameter is for; decides how it is initialised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParameterKind {
    /// `wte.weight` `[V, E]`, used by the embedding and by the output layer.
    TokenEmbedding,
    /// `wpe.weight` `[T, E]`.
    PositionEmbedding,
    /// The weight of a layer norm `[E]`.
    NormWeight,
    /// `attn.c_attn.weight` `[E, 3E]`: columns query, key, value, each with its heads side by side.
    QueryKeyValueWeight,
    /// `attn.c_proj.weight` `[E, E]` or `mlp.c_proj.weight` `[M, E]`: what is added to the residual stream.
    ResidualWeight,
    /// `mlp.c_fc.weight` `[E, M]`.
    HiddenWeight,
    /// Any bias, a layer norm's included.
    Bias,
    /// `attn.NAME`: declared by an edited attention.
    Declared(Initial),
}

/// One parameter: a tensor that is trained, stored and initialised under one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Hugging Face's name with its `transformer.` prefix.
    pub name: String,
    /// Row-major; a weight is `[in, out]`, as in GPT-2's own Conv1D.
    pub shape: Vec<usize>,
    pub kind: ParameterKind,
}

impl Parameter {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether weight decay applies: to tensors of two or more dimensions, embeddings included. Sizes of 1, which only
    /// tell how to broadcast, do not count.
    pub fn decays(&self) -> bool {
        match self.kind {
            ParameterKind::Declared(_) => self.shape.iter().filter(|&&size| size > 1).count() >= 2,
            _ => self.shape.len() >= 2,
        }
    }
}

impl GptConfig {
    /// Every parameter: GPT-2's in the order of the forward pass, then those of an edited attention by layer. Expects a validated configuration.
    pub fn parameters(&self) -> Vec<Parameter> {
        use ParameterKind::*;
        let (width, mlp) = (self.width, self.mlp_width);
        let mut list = Vec::with_capacity(self.layers * 12 + 4);
        let mut add = |name: String, shape: &[usize], kind| {
            list.push(Parameter { name: format!("transformer.{name}"), shape: shape.to_vec(), kind });
        };
        add("wte.weight".into(), &[self.vocabulary_size, width], TokenEmbedding);
        add("wpe.weight".into(), &[self.context_length, width], PositionEmbedding);
        for layer in 0..self.layers {
            add(format!("h.{layer}.ln_1.weight"), &[width], NormWeight);
            add(format!("h.{layer}.ln_1.bias"), &[width], Bias);
            add(format!("h.{layer}.attn.c_attn.weight"), &[width, 3 * width], QueryKeyValueWeight);
            add(format!("h.{layer}.attn.c_attn.bias"), &[3 * width], Bias);
            add(format!("h.{layer}.attn.c_proj.weight"), &[width, width], ResidualWeight);
            add(format!("h.{layer}.attn.c_proj.bias"), &[width], Bias);
            add(format!("h.{layer}.ln_2.weight"), &[width], NormWeight);
            add(format!("h.{layer}.ln_2.bias"), &[width], Bias);
            add(format!("h.{layer}.mlp.c_fc.weight"), &[width, mlp], HiddenWeight);
            add(format!("h.{layer}.mlp.c_fc.bias"), &[mlp], Bias);
            add(format!("h.{layer}.mlp.c_proj.weight"), &[mlp, width], ResidualWeight);
            add(format!("h.{layer}.mlp.c_proj.bias"), &[width], Bias);
        }
        add("ln_f.weight".into(), &[width], NormWeight);
        add("ln_f.bias".into(), &[width], Bias);
        // Behind all others, so that those begin alike whatever the attention: each is drawn by its place.
        for (layer, declared) in self.attention.iter().flat_map(|edited| edited.parameters.iter().enumerate()) {
            for parameter in declared {
                add(format!("h.{layer}.attn.{}", parameter.name), &parameter.shape, Declared(parameter.initial));
            }
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_adds_up_to_the_counted_parameters() {
        for mut config in [
            GptConfig::new(65, 64, 4, 4, 128).unwrap(),
            GptConfig::new(1, 1, 1, 1, 1).unwrap(),
            GptConfig::new(50257, 1024, 12, 12, 768).unwrap(),
        ] {
            for mlp_width in [config.mlp_width, 7] {
                config.mlp_width = mlp_width;
                let parameters = config.parameters();
                assert_eq!(parameters.len(), config.layers * 12 + 4);
                let total: u64 = parameters.iter().map(|parameter| parameter.len() as u64).sum();
                assert_eq!(total, config.parameter_count());
            }
        }
    }

    #[test]
    fn names_are_distinct_and_only_matrices_decay() {
        let parameters = GptConfig::new(65, 32, 2, 4, 32).unwrap().parameters();
        let mut names: Vec<_> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), parameters.len());
        for parameter in &parameters {
            let vector = parameter.name.contains(".ln_") || parameter.name.ends_with(".bias");
            assert_eq!(parameter.decays(), !vector, "{}", parameter.name);
        }
    }
}
