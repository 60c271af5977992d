//! Files and directories that are replaced as a whole: a reader, or the next start after a crash, sees the old
//! content or the new one, never a mixture. Knows nothing of what is written.

mod directory;
mod file;

pub use directory::{recover_directory, replace_directory, surviving_directory};
pub use file::{append_line, read_bounded, recover_file, write_file};

use std::path::{Path, PathBuf};

/// What could not be done to which path.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct FileError {
    /// The verb of the sentence: "write", "open", "rename".
    pub action: &'static str,
    pub path: PathBuf,
    pub source: std::io::Error,
}

impl FileError {
    /// For `map_err`: names the action and the path of a failed call.
    pub fn at(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self { action, path: path.to_path_buf(), source }
    }
}

/// Makes the directory's own entries (a rename, a new name) durable. Only Unix lets a directory be opened for it.
fn sync_directory(directory: &Path) -> Result<(), FileError> {
    if cfg!(unix) {
        std::fs::File::open(directory)
            .and_then(|handle| handle.sync_all())
            .map_err(FileError::at("sync", directory))?;
    }
    Ok(())
}

/// The directory that holds `path`: `.` for a bare name.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// `path` with `suffix` after its last name: a neighbour on the same file system, so that a rename stays atomic.
fn neighbour(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or(path.as_os_str()).to_os_string();
    name.push(suffix);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_shares_the_parent() {
        for (path, expected) in
            [("runs/a/last", "runs/a/last.new"), ("runs/a/last/", "runs/a/last.new"), ("last", "last.new")]
        {
            assert_eq!(neighbour(Path::new(path), ".new"), Path::new(expected));
        }
        assert_eq!(parent(Path::new("last")), Path::new("."));
    }
}
