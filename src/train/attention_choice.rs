//! Which attention a run trains with, as a setting.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::graph::Rewrites;
use crate::script::{BUGS, GALLERY, REFERENCE, Script, ScriptError, builtin};

/// How attention is computed. Both give the same numbers up to rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttentionKind {
    /// Scores, mask, softmax and weighted sum as separate kernels, with the scores in memory.
    Naive,
    /// One kernel that never stores the scores, where the function is one that it computes.
    #[default]
    Fused,
}

impl From<AttentionKind> for Rewrites {
    fn from(kind: AttentionKind) -> Self {
        match kind {
            AttentionKind::Naive => Self::Naive,
            AttentionKind::Fused => Self::Fused,
        }
    }
}

/// `naive`, `fused`, or a file, fused where it can be; `FILE,naive` never fuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttentionChoice {
    /// A path, or `builtin:NAME`; `None` for the reference.
    pub file: Option<String>,
    pub kind: AttentionKind,
}

impl From<AttentionKind> for AttentionChoice {
    fn from(kind: AttentionKind) -> Self {
        Self { file: None, kind }
    }
}

/// The prefix of the files that come with the program.
const BUILTIN: &str = "builtin:";

/// A word that names no attention.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no attention: it may be naive, fused, FILE.star or builtin:NAME, and FILE.star,naive is not fused")]
pub struct UnknownAttention(String);

impl FromStr for AttentionChoice {
    type Err = UnknownAttention;

    fn from_str(text: &str) -> Result<Self, UnknownAttention> {
        let kind = |word: &str| match word {
            "naive" => Some(AttentionKind::Naive),
            "fused" => Some(AttentionKind::Fused),
            _ => None,
        };
        if let Some(kind) = kind(text) {
            return Ok(kind.into());
        }
        let (file, kind) = match text.rsplit_once(',').map(|(file, word)| (file, kind(word))) {
            Some((file, Some(kind))) => (file, kind),
            _ => (text, AttentionKind::Fused),
        };
        match file.starts_with(BUILTIN) || file.ends_with(".star") {
            true => Ok(Self { file: Some(file.into()), kind }),
            false => Err(UnknownAttention(text.into())),
        }
    }
}

impl fmt::Display for AttentionChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.kind) {
            (None, AttentionKind::Naive) => formatter.write_str("naive"),
            (None, AttentionKind::Fused) => formatter.write_str("fused"),
            (Some(file), AttentionKind::Naive) => write!(formatter, "{file},naive"),
            (Some(file), AttentionKind::Fused) => formatter.write_str(file),
        }
    }
}

impl Serialize for AttentionChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AttentionChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl AttentionChoice {
    /// The text of the chosen file; `None` for the reference.
    ///
    /// # Errors
    /// A file that cannot be read, a built-in one that does not exist.
    pub fn script(&self) -> Result<Option<Script>, ScriptError> {
        self.file.as_deref().map(read_script).transpose()
    }
}

/// The script of a path or of `builtin:NAME`.
///
/// # Errors
/// As [`AttentionChoice::script`].
pub fn read_script(file: &str) -> Result<Script, ScriptError> {
    let Some(name) = file.strip_prefix(BUILTIN) else { return Script::read(Path::new(file)) };
    builtin(name).map(|file| file.script()).ok_or_else(|| {
        let bugs = BUGS.iter().map(|file| format!("bugs/{}", file.name));
        let names = std::iter::once(REFERENCE).chain(GALLERY).map(|file| file.name.to_string()).chain(bugs);
        let names = names.collect::<Vec<_>>().join(", ");
        ScriptError::whole(file, format!("there is no such attention; there are {names}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_written_as_it_is_read() {
        for (text, file, kind) in [
            ("naive", None, AttentionKind::Naive),
            ("fused", None, AttentionKind::Fused),
            ("mine.star", Some("mine.star"), AttentionKind::Fused),
            ("a,b.star,naive", Some("a,b.star"), AttentionKind::Naive),
            ("builtin:relu", Some("builtin:relu"), AttentionKind::Fused),
        ] {
            let choice: AttentionChoice = text.parse().unwrap();
            assert_eq!(choice, AttentionChoice { file: file.map(str::to_string), kind });
            assert_eq!(choice.to_string(), text);
        }
        assert_eq!("mine.star,fused".parse::<AttentionChoice>().unwrap().to_string(), "mine.star");
        let error = "flash".parse::<AttentionChoice>().unwrap_err().to_string();
        assert!(error.starts_with("'flash' is no attention: it may be naive, fused, FILE.star"), "{error}");
    }

    #[test]
    fn a_built_in_attention_that_does_not_exist_is_answered_with_those_that_do() {
        let error = read_script("builtin:rleu").unwrap_err().to_string();
        assert!(error.starts_with("builtin:rleu: there is no such attention; there are reference, "), "{error}");
        assert!(error.contains("relu") && error.contains("bugs/no_scale"), "{error}");
    }
}
