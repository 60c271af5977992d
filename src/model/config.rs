//! The sizes of a GPT-2 (Radford et al. 2019, section 2.3): pre-norm blocks, learned positions, biases, tanh-GELU,
//! an output layer that shares the token embedding.

use std::sync::Arc;

use crate::model::attention::EditedAttention;
use crate::model::config_json;
use crate::script::REFERENCE;

/// The sizes that make up a GPT-2, and its attention. Nothing else about it can vary.
#[derive(Clone, Debug, PartialEq)]
pub struct GptConfig {
    /// V, the number of tokens.
    pub vocabulary_size: usize,
    /// T, the largest number of tokens a position embedding exists for.
    pub context_length: usize,
    /// Transformer blocks.
    pub layers: usize,
    /// Attention heads a block; divides `width`.
    pub heads: usize,
    /// E, the width of the residual stream.
    pub width: usize,
    /// The hidden width of the MLP, `4 * width` unless asked otherwise.
    pub mlp_width: usize,
    /// Added to the variance inside the root of a layer norm.
    pub layer_norm_epsilon: f64,
    /// What attention computes; `None` for the reference.
    pub attention: Option<Arc<EditedAttention>>,
}

/// Why a configuration is not a GPT-2 that can be built.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ConfigError {
    #[error("{field} is 0: it must be at least 1")]
    Zero { field: &'static str },
    #[error("{field} is {value}: the largest supported is {limit}")]
    TooLarge { field: &'static str, value: usize, limit: usize },
    #[error("{heads} heads do not divide width {width}: choose a width that is a multiple of the heads")]
    HeadsDoNotDivideWidth { heads: usize, width: usize },
    #[error("layer_norm_epsilon is {value:?}: it must be at least {:e} and below 1", f32::MIN_POSITIVE)]
    LayerNormEpsilon { value: f64 },
    #[error(
        "the model would have {count} parameters, {bytes} bytes of weights: the largest supported is {limit} parameters"
    )]
    TooManyParameters { count: u64, bytes: u64, limit: u64 },
    #[error("it is not the JSON of a configuration: {reason}")]
    Json { reason: String },
    #[error("{key} is missing")]
    Missing { key: &'static str },
    #[error("{key} is {value}: it must be {expected}")]
    Type { key: &'static str, value: String, expected: &'static str },
    #[error("the model has an attention of its own, in attention.star beside its config.json: read the directory")]
    EditedAttention,
    #[error("{key} {value} is not supported: only {supported} is")]
    Unsupported { key: &'static str, value: String, supported: &'static str },
}

/// 2^32 parameters are 16 GiB of weights, and 64 GiB with gradients and both moments.
const PARAMETER_LIMIT: u64 = 1 << 32;

impl GptConfig {
    /// A configuration with GPT-2's proportions: an MLP four times as wide as the stream, epsilon 1e-5.
    pub fn new(
        vocabulary_size: usize,
        context_length: usize,
        layers: usize,
        heads: usize,
        width: usize,
    ) -> Result<Self, ConfigError> {
        let mlp_width = width.saturating_mul(4);
        let config = Self {
            vocabulary_size,
            context_length,
            layers,
            heads,
            width,
            mlp_width,
            layer_norm_epsilon: 1e-5,
            attention: None,
        };
        config.validate()?;
        Ok(config)
    }

    /// Refuses what cannot be built, before anything is allocated for it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (field, value, limit) in [
            ("vocabulary_size", self.vocabulary_size, 1 << 24),
            ("context_length", self.context_length, 1 << 20),
            ("layers", self.layers, 1 << 10),
            ("heads", self.heads, 1 << 16),
            ("width", self.width, 1 << 16),
            ("mlp_width", self.mlp_width, 1 << 20),
        ] {
            if value == 0 {
                return Err(ConfigError::Zero { field });
            }
            if value > limit {
                return Err(ConfigError::TooLarge { field, value, limit });
            }
        }
        if !self.width.is_multiple_of(self.heads) {
            return Err(ConfigError::HeadsDoNotDivideWidth { heads: self.heads, width: self.width });
        }
        // A smaller one could be 0 in f32, and divide 0 by 0 where a row is constant.
        let smallest = f64::from(f32::MIN_POSITIVE);
        if !(self.layer_norm_epsilon >= smallest && self.layer_norm_epsilon < 1.0) {
            return Err(ConfigError::LayerNormEpsilon { value: self.layer_norm_epsilon });
        }
        let count = self.parameter_count();
        if count > PARAMETER_LIMIT {
            let bytes = count.saturating_mul(4);
            return Err(ConfigError::TooManyParameters { count, bytes, limit: PARAMETER_LIMIT });
        }
        Ok(())
    }

    /// The number of weights, the shared embedding counted once; saturates at `u64::MAX`.
    ///
    /// `(V + T) E + L (4 E^2 + 2 E M + 9 E + M) + 2 E` with M the MLP's width, and what an edited attention adds.
    pub fn parameter_count(&self) -> u64 {
        let [vocabulary, context, layers, width, mlp] =
            [self.vocabulary_size, self.context_length, self.layers, self.width, self.mlp_width].map(|n| n as u128);
        // Each factor is below 2^64, so a product of three could pass 2^128: hence saturating.
        let block = (4 * width)
            .saturating_mul(width)
            .saturating_add((2 * width).saturating_mul(mlp))
            .saturating_add(9 * width + mlp);
        let count = (vocabulary + context)
            .saturating_mul(width)
            .saturating_add(layers.saturating_mul(block))
            .saturating_add(2 * width);
        u64::try_from(count).unwrap_or(u64::MAX).saturating_add(self.attention_parameter_count())
    }

    /// The number of weights that an edited attention adds.
    fn attention_parameter_count(&self) -> u64 {
        let declared = self.attention.iter().flat_map(|edited| edited.parameters.iter().flatten());
        let size = |shape: &[usize]| shape.iter().fold(1u64, |product, &size| product.saturating_mul(size as u64));
        declared.fold(0, |count, parameter| count.saturating_add(size(&parameter.shape)))
    }

    /// d_head, the width of one head.
    pub fn head_width(&self) -> usize {
        self.width / self.heads
    }

    /// The same sizes with another attention.
    ///
    /// # Errors
    /// More parameters than are supported.
    pub fn with_attention(self, attention: Option<Arc<EditedAttention>>) -> Result<Self, ConfigError> {
        let config = Self { attention, ..self };
        config.validate()?;
        Ok(config)
    }

    /// The name of the file that attention is written in.
    pub fn attention_file(&self) -> String {
        match &self.attention {
            Some(edited) => edited.script.file.clone(),
            None => REFERENCE.script().file,
        }
    }

    /// The text of Hugging Face's `config.json` for this model.
    pub fn to_json(&self) -> String {
        config_json::write(self)
    }

    /// Reads Hugging Face's `config.json`. A model of another type, or an option that changes what the model
    /// computes and is not built here, is refused by its name. Dropout rates are not kept: they act in training only.
    ///
    /// # Errors
    /// What is refused; a model with an attention of its own, which its text alone does not hold.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        match Self::sizes_from_json(text)? {
            (config, None) => Ok(config),
            (_, Some(_)) => Err(ConfigError::EditedAttention),
        }
    }

    /// As [`GptConfig::from_json`], and the fingerprint of an attention of its own, which is not in the text.
    pub(super) fn sizes_from_json(text: &str) -> Result<(Self, Option<String>), ConfigError> {
        let (config, fingerprint) = config_json::read(text)?;
        config.validate()?;
        Ok((config, fingerprint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(vocabulary: usize, context: usize, layers: usize, heads: usize, width: usize) -> Result<u64, String> {
        GptConfig::new(vocabulary, context, layers, heads, width)
            .map(|config| config.parameter_count())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn parameters_are_counted_as_the_published_models_count_them() {
        // GPT-2 small, medium and xl as Hugging Face counts them; nanoGPT's character model has 10.65 M without
        // positions and biases.
        assert_eq!(sized(50257, 1024, 12, 12, 768), Ok(124_439_808));
        assert_eq!(sized(50257, 1024, 24, 16, 1024), Ok(354_823_168));
        assert_eq!(sized(50257, 1024, 48, 25, 1600), Ok(1_557_611_200));
        assert_eq!(sized(1, 1, 1, 1, 1), Ok(1 + 1 + (4 + 8 + 9 + 4) + 2));
    }

    #[test]
    fn an_impossible_size_is_refused_in_one_line() {
        for ((vocabulary, context, layers, heads, width), expected) in [
            ((0, 8, 1, 1, 8), "vocabulary_size is 0: it must be at least 1"),
            ((8, 0, 1, 1, 8), "context_length is 0: it must be at least 1"),
            ((8, 8, 0, 1, 8), "layers is 0: it must be at least 1"),
            ((8, 8, 1, 0, 8), "heads is 0: it must be at least 1"),
            ((8, 8, 1, 1, 0), "width is 0: it must be at least 1"),
            ((8, 8, 1_000_000_000, 1, 8), "layers is 1000000000: the largest supported is 1024"),
            ((8, 8, 1, 1, usize::MAX), "width is 18446744073709551615: the largest supported is 65536"),
            ((65, 64, 4, 3, 128), "3 heads do not divide width 128: choose a width that is a multiple of the heads"),
            (
                (50257, 1024, 1024, 16, 65536),
                "the model would have 52780791431168 parameters, 211123165724672 bytes of weights: \
                 the largest supported is 4294967296 parameters",
            ),
        ] {
            assert_eq!(sized(vocabulary, context, layers, heads, width), Err(expected.to_string()));
        }
    }

    #[test]
    fn the_count_of_the_largest_numbers_saturates() {
        let config = GptConfig {
            vocabulary_size: usize::MAX,
            context_length: usize::MAX,
            layers: usize::MAX,
            heads: 1,
            width: usize::MAX,
            mlp_width: usize::MAX,
            layer_norm_epsilon: 1e-5,
            attention: None,
        };
        assert_eq!(config.parameter_count(), u64::MAX);
    }

    #[test]
    fn an_epsilon_that_is_no_small_positive_number_is_refused() {
        let mut config = GptConfig::new(8, 8, 1, 1, 8).unwrap();
        for value in [0.0, 1e-39, -1e-5, 1.0, f64::NAN, f64::INFINITY] {
            config.layer_norm_epsilon = value;
            assert!(config.validate().unwrap_err().to_string().contains(&format!("layer_norm_epsilon is {value:?}:")));
        }
    }
}
