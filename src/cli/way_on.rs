//! What to do after a run that ended before its time: the second half of its error line.

use std::io::ErrorKind;

use crate::train::run::RunError;
use crate::train::run_directory::RunDirectory;
use crate::train::settings::Settings;
use crate::train::trainer::TrainerError;
use crate::train::trainer_state::TrainerState;

/// What is left in the run's directory, and how to go on from it; `None` where the error says what would be right.
pub fn way_on(directory: &RunDirectory, settings: &Settings, error: &RunError) -> Option<String> {
    let ended = matches!(error, RunError::Trainer(_) | RunError::AtStep { .. });
    (ended || error.file().is_some()).then(|| after(directory, settings, error))
}

fn after(directory: &RunDirectory, settings: &Settings, error: &RunError) -> String {
    let place = directory.path().display();
    let resume = format!("headlight train --resume {place}");
    let Ok(state) = TrainerState::read(&directory.last()) else {
        return format!("nothing was saved yet: train anew with another --out, or remove {place}");
    };
    let whole = format!("the checkpoint of step {} is whole", state.step);
    let gentler = match settings.clip {
        _ if settings.attention.file.is_some() => {
            "see what headlight check says of the attention file, or train anew with a lower --learning-rate"
        }
        // 0 turns clipping off.
        clip if clip > 1.0 || clip == 0.0 => "train anew with a lower --learning-rate or with --clip 1",
        _ => "train anew with a lower --learning-rate",
    };
    match error.cause() {
        // A resumed run repeats what the settings made of the weights.
        RunError::Trainer(TrainerError::NotFinite { weight: None, .. } | TrainerError::StateNotFinite { .. }) => {
            format!("{whole}, but going on from it leads here again: {gentler}")
        }
        RunError::Trainer(TrainerError::NotFinite { .. }) => {
            format!("{whole}, go on with: {resume} (if it ends at the same step again, {gentler})")
        }
        _ => match error.file().map(|file| file.source.kind()) {
            Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge) => {
                format!("{whole}, make room on the disk and go on with: {resume}")
            }
            _ => format!("{whole}, go on with: {resume}"),
        },
    }
}
