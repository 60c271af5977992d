//! A checkpoint that training can go on from: a model directory with the optimizer's and the trainer's state in it,
//! replaced as a whole.

use std::path::Path;
use std::sync::Arc;

use crate::atomic::{FileError, replace_directory};
use crate::model::checkpoint::{Checkpoint, CheckpointError};
use crate::script::Tracer;
use crate::train::optimizer_state::OptimizerState;
use crate::train::trainer_state::{TrainerState, TrainerStateError};

/// Everything of a run between two steps.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingCheckpoint {
    pub model: Checkpoint,
    pub optimizer: OptimizerState,
    pub trainer: TrainerState,
}

/// Why a training checkpoint could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TrainingCheckpointError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Tensors(#[from] CheckpointError),
    #[error(transparent)]
    Trainer(#[from] TrainerStateError),
}

impl TrainingCheckpoint {
    /// Reads a checkpoint directory, small files first: what they are refused for takes no memory.
    pub fn read(directory: &Path, tracer: &Arc<dyn Tracer>) -> Result<Self, TrainingCheckpointError> {
        let trainer = TrainerState::read(directory)?;
        let model = Checkpoint::read(directory, tracer)?;
        let optimizer = OptimizerState::read(directory, &model.config)?;
        Ok(Self { model, optimizer, trainer })
    }

    /// Replaces the directory as a whole, or creates it: after a crash at any moment its files belong together.
    pub fn save(&self, directory: &Path) -> Result<(), TrainingCheckpointError> {
        replace_directory(directory, |room| {
            self.model.write_into(room)?;
            self.optimizer.write_into(room, &self.model.config)?;
            Ok(self.trainer.write_into(room)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::GptConfig;
    use crate::model::initialisation::Initialisation;

    fn here() -> Arc<dyn Tracer> {
        Arc::new(crate::script::TraceHere)
    }

    fn checkpoint(step: u64) -> TrainingCheckpoint {
        let config = GptConfig::new(11, 6, 1, 2, 4).unwrap();
        let parameters = Initialisation { seed: step, ..Default::default() }.values(&config);
        let squares = parameters.iter().map(|values| values.iter().map(|value| value * value).collect()).collect();
        let optimizer = OptimizerState { first_moments: parameters.clone(), second_moments: squares };
        let trainer = TrainerState {
            step,
            seed: 1,
            settings: Default::default(),
            best_validation_loss: None,
            plan_fingerprint: String::new(),
            tokenizer_fingerprint: String::new(),
            text_fingerprint: String::new(),
            elapsed_seconds: 0.0,
            tokens: 0,
            samples_length: 0,
        };
        TrainingCheckpoint {
            model: Checkpoint { config, parameters, tokenizer: Some("{}".into()) },
            optimizer,
            trainer,
        }
    }

    #[test]
    fn what_is_saved_reads_back_the_same_in_five_files() {
        let room = tempfile::tempdir().unwrap();
        let last = room.path().join("last");
        for step in [1, 2] {
            checkpoint(step).save(&last).unwrap();
            assert_eq!(TrainingCheckpoint::read(&last, &here()).unwrap(), checkpoint(step));
        }
        let mut names: Vec<_> =
            std::fs::read_dir(&last).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(
            names,
            ["config.json", "model.safetensors", "optimizer.safetensors", "tokenizer.json", "trainer.json"]
        );
        assert_eq!(Checkpoint::read(&last, &here()).unwrap(), checkpoint(2).model, "it is a model directory as well");
    }

    #[test]
    fn a_checkpoint_that_cannot_be_written_leaves_the_last_one() {
        let room = tempfile::tempdir().unwrap();
        let last = room.path().join("last");
        checkpoint(1).save(&last).unwrap();
        let mut bad = checkpoint(2);
        bad.optimizer.second_moments.pop();
        assert!(bad.save(&last).is_err());
        assert_eq!(TrainingCheckpoint::read(&last, &here()).unwrap(), checkpoint(1));
    }
}
