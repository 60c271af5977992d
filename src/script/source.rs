//! The text of a script.

use std::path::Path;

use super::ScriptError;
use crate::printable::printable;

/// Bytes that a script may have. Real ones have a few thousand.
pub const SOURCE_LIMIT: usize = 1 << 20;

/// A script and the name that its errors use.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Script {
    pub file: String,
    pub source: String,
}

impl Script {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, is too long, or is no UTF-8.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        use std::io::Read;
        let file = path.display().to_string();
        let failed = |reason: String| ScriptError::whole(&file, reason);
        let mut bytes = Vec::new();
        // One that is no file, such as a pipe, might never end.
        let found = std::fs::metadata(path).map_err(|error| failed(format!("cannot be opened: {error}")))?;
        if !found.is_file() {
            return Err(failed("it is no file".into()));
        }
        let opened = std::fs::File::open(path).map_err(|error| failed(format!("cannot be opened: {error}")))?;
        let mut limited = opened.take(SOURCE_LIMIT as u64 + 1);
        limited.read_to_end(&mut bytes).map_err(|error| failed(format!("cannot be read: {error}")))?;
        if bytes.len() > SOURCE_LIMIT {
            return Err(failed(format!("it is longer than the {SOURCE_LIMIT} bytes that an attention file may have")));
        }
        let source = String::from_utf8(bytes)
            .map_err(|error| failed(format!("it is not UTF-8 at byte {}", error.utf8_error().valid_up_to())))?;
        Ok(Self { file: printable(&file, 200), source })
    }
}
