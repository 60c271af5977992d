//! The weights before the first step: GPT-2's, with two variations that make small models' attention visible sooner.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::model::config::GptConfig;
use crate::model::parameters::{Parameter, ParameterKind};
use crate::random::{Stream, generator};
use crate::script::Initial;

/// The standard deviation of GPT-2's initial weights (Radford et al. 2018, section 4.1; 2019, section 2.3).
const STANDARD_DEVIATION: f64 = 0.02;

/// The amplitude of sinusoidal initial positions: comparable to the token embeddings they are added to.
const SINUSOID_AMPLITUDE: f64 = 0.04;

/// How the query and key columns of `c_attn` begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum QueryKeyInit {
    /// Standard deviation 0.02, as every other weight: attention begins nearly uniform.
    #[default]
    Gpt2,
    /// Standard deviation 1/sqrt(E): queries and keys of unit variance from a normalised input.
    Unit,
}

/// How the position embedding begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum PositionInit {
    /// Standard deviation 0.02.
    #[default]
    Gpt2,
    /// The sinusoids of Vaswani et al. 2017, section 3.5, with amplitude 0.04; trained from there on.
    Sinusoidal,
}

/// The choices of an initialisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Initialisation {
    pub query_key: QueryKeyInit,
    pub position: PositionInit,
    pub seed: u64,
}

impl Initialisation {
    /// The values of every parameter, in the order of [`GptConfig::parameters`]. Each is drawn from a generator of
    /// its own, keyed by its index, so that one parameter's values do not depend on another's size.
    pub fn values(&self, config: &GptConfig) -> Vec<Vec<f32>> {
        let parameters = config.parameters();
        parameters.iter().enumerate().map(|(index, parameter)| self.parameter(config, parameter, index)).collect()
    }

    fn parameter(&self, config: &GptConfig, parameter: &Parameter, index: usize) -> Vec<f32> {
        let mut normal = Normal::new(generator(self.seed, Stream::Initialisation, 0, index as u64));
        let count = parameter.len();
        let mut draw = |deviation: f64| (0..count).map(|_| (deviation * normal.next()) as f32).collect::<Vec<f32>>();
        match parameter.kind {
            ParameterKind::Bias => vec![0.0; count],
            ParameterKind::NormWeight => vec![1.0; count],
            ParameterKind::Declared(Initial::Constant(value)) => vec![value as f32; count],
            ParameterKind::Declared(Initial::Normal(deviation)) => draw(deviation),
            ParameterKind::TokenEmbedding | ParameterKind::HiddenWeight => draw(STANDARD_DEVIATION),
            // Two such projections a layer add to the residual stream; this keeps its variance from growing with depth.
            ParameterKind::ResidualWeight => draw(STANDARD_DEVIATION / (2.0 * config.layers as f64).sqrt()),
            ParameterKind::PositionEmbedding => match self.position {
                PositionInit::Gpt2 => draw(STANDARD_DEVIATION),
                PositionInit::Sinusoidal => sinusoids(config.context_length, config.width),
            },
            ParameterKind::QueryKeyValueWeight => {
                let query_key_deviation = match self.query_key {
                    QueryKeyInit::Gpt2 => STANDARD_DEVIATION,
                    QueryKeyInit::Unit => 1.0 / (config.width as f64).sqrt(),
                };
                let columns = 3 * config.width;
                (0..count)
                    .map(|element| match element % columns < 2 * config.width {
                        true => (query_key_deviation * normal.next()) as f32,
                        false => (STANDARD_DEVIATION * normal.next()) as f32,
                    })
                    .collect()
            }
        }
    }
}

/// `[T, E]`: `sin(t / 10000^(2i/E))` in column 2i and the cosine of the same angle in column 2i + 1, times the amplitude.
fn sinusoids(context_length: usize, width: usize) -> Vec<f32> {
    let element = |position: usize, column: usize| {
        let exponent = (column - column % 2) as f64 / width as f64;
        let angle = position as f64 / 10_000f64.powf(exponent);
        let wave = if column.is_multiple_of(2) { angle.sin() } else { angle.cos() };
        (SINUSOID_AMPLITUDE * wave) as f32
    };
    (0..context_length).flat_map(|position| (0..width).map(move |column| element(position, column))).collect()
}

/// Standard normal numbers by the transform of Box and Muller (1958), in f64:
/// `r = sqrt(-2 ln u1)`, then `r cos(2 pi u2)` and `r sin(2 pi u2)`, with u1 in (0, 1] and u2 in [0, 1).
pub(crate) struct Normal {
    generator: ChaCha8Rng,
    /// The second number of the last pair.
    waiting: Option<f64>,
}

impl Normal {
    pub(crate) fn new(generator: ChaCha8Rng) -> Self {
        Self { generator, waiting: None }
    }

    pub(crate) fn next(&mut self) -> f64 {
        if let Some(number) = self.waiting.take() {
            return number;
        }
        // The 53 high bits fill the mantissa; one is added for u1 so that its logarithm is finite.
        let unit = 1.0 / (1u64 << 53) as f64;
        let u1 = ((self.generator.next_u64() >> 11) + 1) as f64 * unit;
        let u2 = (self.generator.next_u64() >> 11) as f64 * unit;
        let radius = (-2.0 * u1.ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * u2).sin_cos();
        self.waiting = Some(radius * sine);
        radius * cosine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and standard deviation.
    fn moments(values: impl Iterator<Item = f32> + Clone) -> (f64, f64) {
        let count = values.clone().count() as f64;
        let mean = values.clone().map(f64::from).sum::<f64>() / count;
        let variance = values.map(|value| (f64::from(value) - mean).powi(2)).sum::<f64>() / count;
        (mean, variance.sqrt())
    }

    #[test]
    fn normal_numbers_have_the_moments_and_the_tails_of_a_normal() {
        let mut normal = Normal::new(generator(1, Stream::Initialisation, 0, 0));
        let sample: Vec<f64> = (0..200_000).map(|_| normal.next()).collect();
        let power = |exponent: i32| sample.iter().map(|z| z.powi(exponent)).sum::<f64>() / sample.len() as f64;
        for (exponent, expected, tolerance) in [(1, 0.0, 0.01), (2, 1.0, 0.02), (3, 0.0, 0.04), (4, 3.0, 0.12)] {
            assert!((power(exponent) - expected).abs() < tolerance, "moment {exponent}: {}", power(exponent));
        }
        let beyond_two = sample.iter().filter(|z| z.abs() > 2.0).count() as f64 / sample.len() as f64;
        assert!((beyond_two - 0.0455).abs() < 0.002, "{beyond_two}");
        // Neighbours come from one pair: they must not move together.
        let products = sample.chunks_exact(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / (sample.len() / 2) as f64;
        assert!(products.abs() < 0.01, "{products}");
    }

    #[test]
    fn each_kind_of_parameter_has_its_own_deviation() {
        let config = GptConfig::new(200, 100, 3, 4, 64).unwrap();
        let initial = Initialisation { query_key: QueryKeyInit::Unit, ..Default::default() };
        let columns = |values: &[f32], from: usize, to: usize| -> Vec<f32> {
            values.chunks_exact(192).flat_map(|row| row[from..to].to_vec()).collect()
        };
        for (parameter, values) in config.parameters().iter().zip(initial.values(&config)) {
            assert_eq!(values.len(), parameter.len());
            let close = |values: &[f32], expected: f64| {
                let (mean, deviation) = moments(values.iter().copied());
                assert!(mean.abs() < expected * 0.06, "{}: mean {mean}", parameter.name);
                assert!((deviation / expected - 1.0).abs() < 0.05, "{}: deviation {deviation}", parameter.name);
            };
            match parameter.kind {
                ParameterKind::Bias => assert!(values.iter().all(|&value| value == 0.0)),
                ParameterKind::NormWeight => assert!(values.iter().all(|&value| value == 1.0)),
                ParameterKind::ResidualWeight => close(&values, 0.02 / 6f64.sqrt()),
                ParameterKind::QueryKeyValueWeight => {
                    close(&columns(&values, 0, 128), 0.125);
                    close(&columns(&values, 128, 192), 0.02);
                }
                _ => close(&values, 0.02),
            }
        }
    }

    #[test]
    fn gpt2_draws_queries_and_keys_like_values() {
        let config = GptConfig::new(16, 16, 1, 1, 96).unwrap();
        let values = Initialisation::default().values(&config);
        let (_, deviation) = moments(values[4].iter().copied());
        assert_eq!(config.parameters()[4].kind, ParameterKind::QueryKeyValueWeight);
        assert!((deviation / 0.02 - 1.0).abs() < 0.05, "{deviation}");
    }

    #[test]
    fn sinusoidal_positions_turn_at_the_published_rates() {
        let table = sinusoids(3, 5);
        let expected = |position: f64, column: usize| {
            let angle = position / 10_000f64.powf([0.0, 0.0, 0.4, 0.4, 0.8][column]);
            (0.04 * if column.is_multiple_of(2) { angle.sin() } else { angle.cos() }) as f32
        };
        for position in 0..3 {
            for column in 0..5 {
                assert_eq!(table[position * 5 + column], expected(position as f64, column));
            }
        }
        assert_eq!(table[..5], [0.0, 0.04, 0.0, 0.04, 0.0]);
    }

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let config = GptConfig::new(16, 8, 1, 2, 8).unwrap();
        let values = |seed| Initialisation { seed, ..Default::default() }.values(&config);
        assert_eq!(values(7), values(7));
        assert_ne!(values(7)[0], values(8)[0]);
        // Two parameters of equal shape and kind are drawn apart.
        assert_ne!(values(7)[0][..64], values(7)[1][..64]);
    }

    #[test]
    fn a_longer_context_leaves_the_other_parameters_alone() {
        let values = |context| Initialisation::default().values(&GptConfig::new(16, context, 1, 2, 8).unwrap());
        let (short, long) = (values(8), values(16));
        for index in (0..short.len()).filter(|&index| index != 1) {
            assert_eq!(short[index], long[index]);
        }
    }
}
