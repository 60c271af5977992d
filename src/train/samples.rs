//! `samples.txt`: what the model wrote at each sampled step, appended while the run goes on.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::atomic::{FileError, append_line};

/// The open file of a run.
pub struct SampleLog {
    path: PathBuf,
    file: File,
    length: u64,
}

impl SampleLog {
    /// Opens the file for appending, or creates it. What lies beyond its first `kept` bytes is dropped: a resumed run
    /// passes the [`length`](Self::length) its checkpoint remembers, a new one 0.
    pub fn open(path: &Path, kept: u64) -> Result<Self, FileError> {
        let file = File::options().create(true).append(true).open(path).map_err(FileError::at("open", path))?;
        let length = file.metadata().map_err(FileError::at("read", path))?.len().min(kept);
        file.set_len(length).map_err(FileError::at("shorten", path))?;
        Ok(Self { path: path.to_path_buf(), file, length })
    }

    /// Appends a sample under a line that names its step.
    pub fn append(&mut self, step: u64, text: &str) -> Result<(), FileError> {
        let entry = format!("=== step {step} ===\n{text}\n");
        append_line(&mut self.file, &self.path, &entry)?;
        self.length += entry.len() as u64 + 1;
        Ok(())
    }

    /// Makes every sample durable; call it before a checkpoint that remembers the length.
    pub fn sync(&self) -> Result<(), FileError> {
        self.file.sync_data().map_err(FileError::at("sync", &self.path))
    }

    /// Bytes in the file.
    pub fn length(&self) -> u64 {
        self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_run_drops_the_samples_after_its_checkpoint_and_goes_on() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("samples.txt");
        let mut samples = SampleLog::open(&path, 0).unwrap();
        samples.append(0, "t\u{e9}xt\n=== step 7 ===").unwrap();
        let remembered = samples.length();
        samples.append(10, "later").unwrap();
        samples.sync().unwrap();
        drop(samples);
        let mut samples = SampleLog::open(&path, remembered).unwrap();
        assert_eq!(samples.length(), remembered);
        samples.append(10, "again").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "=== step 0 ===\nt\u{e9}xt\n=== step 7 ===\n\n=== step 10 ===\nagain\n\n");
        assert_eq!(samples.length(), text.len() as u64);
    }

    #[test]
    fn a_file_shorter_than_remembered_is_not_filled_up() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("samples.txt");
        std::fs::write(&path, "abc").unwrap();
        assert_eq!(SampleLog::open(&path, 100).unwrap().length(), 3);
        assert_eq!(std::fs::read(&path).unwrap(), b"abc");
    }
}
