//! The directory of a run: where its files lie, and that only one run at a time writes them.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use super::kept_models::{STEPS, recover_kept_models};
use crate::atomic::{FileError, recover_directory, recover_file, surviving_directory};

/// A run directory that this process alone writes to, for as long as the value lives.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    /// Holds the lock until it is closed.
    _lock: File,
}

/// Why a directory cannot be a run's.
#[derive(Debug, thiserror::Error)]
pub enum RunDirectoryError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path} is not a directory: choose another --out", path = path.display())]
    NotADirectory { path: PathBuf },
    #[error("{path} already holds a run ({found}): continue it with --resume {path}, or choose another --out", path = path.display())]
    Occupied { path: PathBuf, found: &'static str },
    #[error("{path} holds no run: it has no {missing}", path = path.display())]
    NoRun { path: PathBuf, missing: &'static str },
    #[error("the run in {path} ended before its first checkpoint: there is nothing to resume, train anew with another --out", path = path.display())]
    NoCheckpoint { path: PathBuf },
    #[error("another process is writing to the run in {path}: wait for it, or choose another directory", path = path.display())]
    InUse { path: PathBuf },
}

const CONFIG: &str = "config.toml";
const METRICS: &str = "metrics.jsonl";
const CHART: &str = "loss.svg";
const SAMPLES: &str = "samples.txt";
const LAST: &str = "last";
const BEST: &str = "best";
const LOCK: &str = ".lock";

impl RunDirectory {
    /// Makes the directory of a new run; one that holds a run already is refused.
    pub fn create(path: &Path) -> Result<Self, RunDirectoryError> {
        if path.exists() && !path.is_dir() {
            return Err(RunDirectoryError::NotADirectory { path: path.to_path_buf() });
        }
        // Before the lock, so that a refusal leaves nothing behind; after it, since another may have been quicker.
        refuse_occupied(path)?;
        std::fs::create_dir_all(path).map_err(FileError::at("create", path))?;
        let run = Self::locked(path)?;
        refuse_occupied(path)?;
        Ok(run)
    }

    /// Opens the directory of a run to continue it, and finishes what a crash interrupted in it.
    pub fn resume(path: &Path) -> Result<Self, RunDirectoryError> {
        if !path.join(CONFIG).is_file() {
            return Err(RunDirectoryError::NoRun { path: path.to_path_buf(), missing: CONFIG });
        }
        let run = Self::locked(path)?;
        for directory in [run.last(), run.best()] {
            recover_directory(&directory)?;
        }
        recover_kept_models(path)?;
        for file in [run.config(), run.metrics(), run.chart()] {
            recover_file(&file)?;
        }
        if !run.last().is_dir() {
            return Err(RunDirectoryError::NoCheckpoint { path: path.to_path_buf() });
        }
        Ok(run)
    }

    fn locked(path: &Path) -> Result<Self, RunDirectoryError> {
        let lock_path = path.join(LOCK);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(FileError::at("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(RunDirectoryError::InUse { path: path.to_path_buf() }),
            // Some network file systems have no locks: there the user sees to it.
            Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => {
                tracing::warn!("{} is on a file system without locks: start no second run in it", path.display());
            }
            Err(TryLockError::Error(error)) => return Err(FileError::at("lock", &lock_path)(error).into()),
        }
        Ok(Self { path: path.to_path_buf(), _lock: lock })
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The resolved settings.
    pub fn config(&self) -> PathBuf {
        self.path.join(CONFIG)
    }

    /// One line of measurements a logged step.
    pub fn metrics(&self) -> PathBuf {
        self.path.join(METRICS)
    }

    /// The loss curve.
    pub fn chart(&self) -> PathBuf {
        self.path.join(CHART)
    }

    /// What the model wrote at each sampled step.
    pub fn samples(&self) -> PathBuf {
        self.path.join(SAMPLES)
    }

    /// The newest checkpoint, with what resuming needs.
    pub fn last(&self) -> PathBuf {
        self.path.join(LAST)
    }

    /// The model with the lowest validation loss.
    pub fn best(&self) -> PathBuf {
        self.path.join(BEST)
    }

    /// The model that is kept of a step.
    pub fn kept(&self, step: u64) -> PathBuf {
        self.path.join(STEPS).join(step.to_string())
    }
}

/// Refuses a directory in which any file of a run lies, a half swapped checkpoint included.
fn refuse_occupied(path: &Path) -> Result<(), RunDirectoryError> {
    let file = [CONFIG, METRICS, CHART, SAMPLES].into_iter().find(|name| path.join(name).exists());
    let directory = || [LAST, BEST, STEPS].into_iter().find(|name| surviving_directory(&path.join(name)).is_some());
    match file.or_else(directory) {
        Some(found) => Err(RunDirectoryError::Occupied { path: path.to_path_buf(), found }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_run_makes_its_directory_and_names_its_files() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("runs").join("a");
        let run = RunDirectory::create(&path).unwrap();
        assert_eq!(run.path(), path);
        let files = [run.config(), run.metrics(), run.chart(), run.samples(), run.last(), run.best(), run.kept(20)];
        let names = ["config.toml", "metrics.jsonl", "loss.svg", "samples.txt", "last", "best", "steps/20"];
        assert_eq!(files, names.map(|name| path.join(name)));
    }

    #[test]
    fn a_directory_with_a_run_is_refused_and_left_as_it_is() {
        for found in
            ["config.toml", "metrics.jsonl", "loss.svg", "samples.txt", "last", "best", "steps", "last.old", "best.new"]
        {
            let room = tempfile::tempdir().unwrap();
            if found.contains('.') && !found.starts_with(['l', 'b']) || found == "loss.svg" {
                std::fs::write(room.path().join(found), "").unwrap();
            } else {
                std::fs::create_dir(room.path().join(found)).unwrap();
            }
            let error = RunDirectory::create(room.path()).unwrap_err().to_string();
            let path = room.path().display();
            let name = found.trim_end_matches(".old").trim_end_matches(".new");
            assert_eq!(
                error,
                format!(
                    "{path} already holds a run ({name}): continue it with --resume {path}, or choose another --out"
                )
            );
            assert_eq!(std::fs::read_dir(room.path()).unwrap().count(), 1, "something was left behind");
        }
    }

    #[test]
    fn a_directory_with_other_files_is_taken_and_a_file_is_not() {
        let room = tempfile::tempdir().unwrap();
        std::fs::write(room.path().join("notes.txt"), "mine").unwrap();
        RunDirectory::create(room.path()).unwrap();
        let error = RunDirectory::create(&room.path().join("notes.txt")).unwrap_err().to_string();
        assert!(error.ends_with("notes.txt is not a directory: choose another --out"), "{error}");
    }

    #[test]
    fn two_runs_do_not_share_a_directory() {
        let room = tempfile::tempdir().unwrap();
        let first = RunDirectory::create(room.path()).unwrap();
        let second = RunDirectory::create(room.path());
        assert!(matches!(second, Err(RunDirectoryError::InUse { .. })), "{second:?}");
        std::fs::write(first.config(), "").unwrap();
        let resumed = RunDirectory::resume(room.path());
        assert!(matches!(resumed, Err(RunDirectoryError::InUse { .. })), "{resumed:?}");
        drop(first);
        let resumed = RunDirectory::resume(room.path());
        assert!(matches!(resumed, Err(RunDirectoryError::NoCheckpoint { .. })), "{resumed:?}");
    }

    #[test]
    fn resume_needs_a_run_with_a_checkpoint_and_repairs_it() {
        let room = tempfile::tempdir().unwrap();
        let absent = RunDirectory::resume(&room.path().join("absent")).unwrap_err().to_string();
        assert!(absent.ends_with("absent holds no run: it has no config.toml"), "{absent}");
        std::fs::write(room.path().join("config.toml"), "").unwrap();
        std::fs::create_dir(room.path().join("last.old")).unwrap();
        std::fs::create_dir(room.path().join("best")).unwrap();
        std::fs::create_dir(room.path().join("best.partial")).unwrap();
        std::fs::create_dir_all(room.path().join("steps/40.partial")).unwrap();
        let stale =
            ["best.partial/model.safetensors", "config.toml.partial", "metrics.jsonl.partial", "loss.svg.partial"];
        for name in stale {
            std::fs::write(room.path().join(name), "half").unwrap();
        }
        let run = RunDirectory::resume(room.path()).unwrap();
        assert!(run.last().is_dir() && run.best().is_dir());
        let mut left: Vec<_> = std::fs::read_dir(room.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [".lock", "best", "config.toml", "last", "steps"]);
        assert_eq!(std::fs::read_dir(room.path().join("steps")).unwrap().count(), 0);
    }
}
