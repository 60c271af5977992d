//! The models that a run keeps of its steps, a directory a step: for whoever wants to see how a model came to be.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::atomic::{FileError, recover_directory, surviving_directory};

/// Where they lie in a run's directory.
pub(super) const STEPS: &str = "steps";

/// The kept models of the run in `run`, each with its step, in order. One that a crash left half swapped is found under its
/// temporary name. A run that keeps none has none.
///
/// # Errors
/// A directory that cannot be listed.
pub fn kept_models(run: &Path) -> Result<Vec<(u64, PathBuf)>, FileError> {
    let places = steps(run)?.into_iter().map(|step| (step, run.join(STEPS).join(step.to_string())));
    Ok(places.filter_map(|(step, place)| Some((step, surviving_directory(&place)?))).collect())
}

/// Finishes what a crash interrupted in the kept models of a run.
pub(super) fn recover_kept_models(run: &Path) -> Result<(), FileError> {
    steps(run)?.into_iter().try_for_each(|step| recover_directory(&run.join(STEPS).join(step.to_string())))
}

/// The steps of which something lies there, whole or not. What is named otherwise is not the run's.
fn steps(run: &Path) -> Result<BTreeSet<u64>, FileError> {
    let directory = run.join(STEPS);
    let mut steps = BTreeSet::new();
    if !directory.is_dir() {
        return Ok(steps);
    }
    for entry in std::fs::read_dir(&directory).map_err(FileError::at("list", &directory))? {
        let name = entry.map_err(FileError::at("list", &directory))?.file_name();
        let number = name.to_str().and_then(|name| name.split('.').next()).unwrap_or_default();
        steps.extend(number.parse::<u64>().ok().filter(|step| step.to_string() == number));
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_models_are_found_in_the_order_of_their_steps_and_repaired() {
        let room = tempfile::tempdir().unwrap();
        assert_eq!(kept_models(room.path()).unwrap(), [], "a run that keeps none");
        recover_kept_models(room.path()).unwrap();
        let steps = room.path().join("steps");
        for name in ["100", "20", "0.new", "60.old", "80.partial", "007", "+5", "notes", "notes.old"] {
            std::fs::create_dir_all(steps.join(name)).unwrap();
        }
        let found = |expected: [(u64, &str); 4]| expected.map(|(step, name)| (step, steps.join(name)));
        assert_eq!(kept_models(room.path()).unwrap(), found([(0, "0.new"), (20, "20"), (60, "60.old"), (100, "100")]));
        recover_kept_models(room.path()).unwrap();
        assert_eq!(kept_models(room.path()).unwrap(), found([(0, "0"), (20, "20"), (60, "60"), (100, "100")]));
        let mut left: Vec<_> =
            std::fs::read_dir(&steps).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["+5", "0", "007", "100", "20", "60", "notes", "notes.old"]);
    }
}
