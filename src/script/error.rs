//! What is wrong with a script, in one line with its place.

use serde::{Deserialize, Serialize};

/// A script that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{file}{}: {message}", place(.line, .column))]
pub struct ScriptError {
    pub file: String,
    /// Counted from 1; 0 where the whole file is meant.
    pub line: u32,
    /// Counted from 1; 0 where the whole line is meant.
    pub column: u32,
    pub message: String,
}

fn place(line: &u32, column: &u32) -> String {
    match (line, column) {
        (0, _) => String::new(),
        (line, 0) => format!(":{line}"),
        (line, column) => format!(":{line}:{column}"),
    }
}

impl ScriptError {
    /// About the file as a whole.
    pub fn whole(file: &str, message: impl Into<String>) -> Self {
        Self { file: file.into(), line: 0, column: 0, message: message.into() }
    }
}
