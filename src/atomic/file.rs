//! One file: replaced by write, sync and rename; read with a bound on its size.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use super::{FileError, neighbour, parent, sync_directory};

/// Replaces `path` by `bytes`: a neighbour `PATH.partial` is written and synced, then renamed over it, then the
/// directory is synced. A crash leaves the old content (or none) and at most a stale `.partial`, which the next
/// write overwrites.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let partial = neighbour(path, ".partial");
    let write = || {
        let mut file = File::create(&partial)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    if let Err(source) = write() {
        // The first error is the one to report; a leftover does no harm.
        let _ = std::fs::remove_file(&partial);
        return Err(FileError { action: "write", path: path.to_path_buf(), source });
    }
    std::fs::rename(&partial, path).map_err(FileError::at("replace", path))?;
    sync_directory(parent(path))
}

/// Removes what an interrupted [`write_file`] of `path` left beside it. Call it only by the file's one writer.
pub fn recover_file(path: &Path) -> Result<(), FileError> {
    let partial = neighbour(path, ".partial");
    match std::fs::remove_file(&partial) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(FileError { action: "remove", path: partial, source })
        }
        _ => Ok(()),
    }
}

/// Appends `line` and a newline in one write, so that a crash can tear only the last line.
pub fn append_line(file: &mut File, path: &Path, line: &str) -> Result<(), FileError> {
    let mut bytes = Vec::with_capacity(line.len() + 1);
    bytes.extend_from_slice(line.as_bytes());
    bytes.push(b'\n');
    file.write_all(&bytes).map_err(FileError::at("append to", path))
}

/// Reads a whole file of at most `limit` bytes. A longer one is an error before its content is in memory.
pub fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let file = File::open(path).map_err(FileError::at("open", path))?;
    // A byte more than there is, so that the end is seen without growing.
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = Vec::with_capacity(usize::try_from(length.min(limit)).map_or(0, |length| length + 1));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(FileError::at("read", path))?;
    if bytes.len() as u64 > limit {
        let source = std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            format!("larger than the {limit} bytes that such a file may have"),
        );
        return Err(FileError { action: "read", path: path.to_path_buf(), source });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_leaves_no_neighbour() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("a.json");
        std::fs::write(neighbour(&path, ".partial"), b"stale").unwrap();
        write_file(&path, b"one").unwrap();
        write_file(&path, b"").unwrap();
        write_file(&path, b"three").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"three");
        assert_eq!(std::fs::read_dir(room.path()).unwrap().count(), 1);
    }

    #[test]
    fn recovery_removes_what_an_interrupted_write_left_and_nothing_else() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("a.json");
        recover_file(&path).unwrap();
        std::fs::write(&path, b"whole").unwrap();
        std::fs::write(neighbour(&path, ".partial"), b"half").unwrap();
        recover_file(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(std::fs::read_dir(room.path()).unwrap().count(), 1);
        std::fs::create_dir(neighbour(&path, ".partial")).unwrap();
        let error = recover_file(&path).unwrap_err().to_string();
        assert!(error.starts_with("cannot remove ") && error.contains("a.json.partial"), "{error}");
    }

    #[test]
    fn an_error_names_the_path() {
        let room = tempfile::tempdir().unwrap();
        let missing = room.path().join("nowhere").join("a.json");
        let error = write_file(&missing, b"x").unwrap_err().to_string();
        assert!(error.starts_with("cannot write ") && error.contains("nowhere"), "{error}");
        let error = read_bounded(&missing, 10).unwrap_err().to_string();
        assert!(error.starts_with("cannot open ") && error.contains("nowhere"), "{error}");
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_not_a_byte_beyond() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("a");
        std::fs::write(&path, [7u8; 10]).unwrap();
        assert_eq!(read_bounded(&path, 10).unwrap(), [7u8; 10]);
        let error = read_bounded(&path, 9).unwrap_err().to_string();
        assert!(error.contains("larger than the 9 bytes"), "{error}");
    }
}
