//! `optimizer.safetensors`: AdamW's two running means for each parameter, `m.NAME` of the gradient and `v.NAME` of
//! its square.

use std::path::Path;

use crate::atomic::write_file;
use crate::model::checkpoint::CheckpointError;
use crate::model::config::GptConfig;
use crate::model::tensor_file::{TensorFile, TensorFileError, TensorView, encode};

pub const OPTIMIZER_FILE: &str = "optimizer.safetensors";

/// The moments of every parameter, in the order of [`GptConfig::parameters`].
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerState {
    /// m, the running mean of the gradient.
    pub first_moments: Vec<Vec<f32>>,
    /// v, the running mean of the squared gradient.
    pub second_moments: Vec<Vec<f32>>,
}

impl OptimizerState {
    /// The state before the first step.
    pub fn zeros(config: &GptConfig) -> Self {
        let zeros: Vec<Vec<f32>> = config.parameters().iter().map(|parameter| vec![0.0; parameter.len()]).collect();
        Self { first_moments: zeros.clone(), second_moments: zeros }
    }

    /// Reads the file in a checkpoint directory. Missing, unexpected, misshapen and non-finite tensors are refused by
    /// name.
    pub fn read(directory: &Path, config: &GptConfig) -> Result<Self, CheckpointError> {
        let path = directory.join(OPTIMIZER_FILE);
        let expected: Vec<(String, Vec<usize>)> = ["m", "v"]
            .iter()
            .flat_map(|moment| {
                let parameters = config.parameters().into_iter();
                parameters.map(move |parameter| (format!("{moment}.{}", parameter.name), parameter.shape))
            })
            .collect();
        let located = |source: TensorFileError| match source {
            // It carries the path already.
            TensorFileError::File(error) => CheckpointError::File(error),
            source => CheckpointError::Tensors { path: path.clone(), source },
        };
        let mut file = TensorFile::open(&path).map_err(located)?;
        let mut first_moments = file.read_exactly(&expected, str::to_string, |_| false).map_err(located)?;
        let second_moments = first_moments.split_off(expected.len() / 2);
        // A root is taken of them.
        for ((name, _), values) in expected[expected.len() / 2..].iter().zip(&second_moments) {
            if let Some((index, &value)) = values.iter().enumerate().find(|(_, value)| **value < 0.0) {
                return Err(located(TensorFileError::Negative { name: name.clone(), index, value }));
            }
        }
        Ok(Self { first_moments, second_moments })
    }

    /// Writes the file into a checkpoint directory, which exists.
    pub fn write_into(&self, directory: &Path, config: &GptConfig) -> Result<(), CheckpointError> {
        let path = directory.join(OPTIMIZER_FILE);
        let parameters = config.parameters();
        let mut views = Vec::with_capacity(2 * parameters.len());
        for (moment, all) in [("m", &self.first_moments), ("v", &self.second_moments)] {
            if all.len() != parameters.len() {
                let (expected, actual) = (parameters.len(), all.len());
                return Err(CheckpointError::ParameterCount { path, expected, actual });
            }
            for (parameter, values) in parameters.iter().zip(all) {
                views.push((format!("{moment}.{}", parameter.name), TensorView { shape: &parameter.shape, values }));
            }
        }
        let bytes = encode(views).map_err(|source| CheckpointError::Tensors { path: path.clone(), source })?;
        Ok(write_file(&path, &bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(config: &GptConfig) -> OptimizerState {
        let mut state = OptimizerState::zeros(config);
        for (index, values) in state.first_moments.iter_mut().enumerate() {
            values.fill(-(index as f32) - 0.5);
        }
        for (index, values) in state.second_moments.iter_mut().enumerate() {
            values.fill(index as f32 * 1e-12);
        }
        state
    }

    #[test]
    fn moments_read_back_the_same() {
        let room = tempfile::tempdir().unwrap();
        let config = GptConfig::new(11, 6, 2, 2, 4).unwrap();
        for state in [OptimizerState::zeros(&config), state(&config)] {
            state.write_into(room.path(), &config).unwrap();
            assert_eq!(OptimizerState::read(room.path(), &config).unwrap(), state);
        }
    }

    #[test]
    fn a_negative_mean_of_squares_is_refused_with_its_place() {
        let room = tempfile::tempdir().unwrap();
        let config = GptConfig::new(11, 6, 1, 2, 4).unwrap();
        let mut state = state(&config);
        state.first_moments[1][2] = -1.0;
        state.second_moments[1][2] = -1e-9;
        state.write_into(room.path(), &config).unwrap();
        let error = OptimizerState::read(room.path(), &config).unwrap_err().to_string();
        let expected = "tensor v.transformer.wpe.weight has -0.000000001 at element 2: a mean of squares is at least 0";
        assert!(error.ends_with(expected), "{error}");
    }

    #[test]
    fn moments_of_another_model_are_refused_by_name() {
        let room = tempfile::tempdir().unwrap();
        let config = GptConfig::new(11, 6, 1, 2, 4).unwrap();
        state(&config).write_into(room.path(), &config).unwrap();
        let wider = GptConfig::new(12, 6, 1, 2, 4).unwrap();
        let error = OptimizerState::read(room.path(), &wider).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "m.transformer.wte.weight has shape [11, 4] where [12, 4] is needed; \
                 v.transformer.wte.weight has shape [11, 4] where [12, 4] is needed"
            ),
            "{error}"
        );
        let deeper = GptConfig::new(11, 6, 2, 2, 4).unwrap();
        let error = OptimizerState::read(room.path(), &deeper).unwrap_err().to_string();
        assert!(error.contains("m.transformer.h.1.ln_1.weight is missing"), "{error}");
        let error = state(&config).write_into(room.path(), &deeper).unwrap_err();
        assert!(matches!(error, CheckpointError::ParameterCount { expected: 28, actual: 16, .. }), "{error}");
    }
}
