//! Settings as TOML: the file a user writes, and the `config.toml` a run keeps.

use std::path::Path;

use crate::atomic::{read_bounded, write_file};
use crate::printable::printable;
use crate::train::settings::{Settings, SettingsError, SettingsOverride};

/// The largest file read. What a run writes is shorter: every setting takes a thousand bytes, and the names of texts are
/// bounded by the validation. (A parser needs two hundred times a file's size for the worst of files.)
const FILE_LIMIT: u64 = 1 << 19;

/// How an error cuts the parser's reason, which may quote the file; that for a misspelt key lists all there are.
const REASON_LIMIT: usize = 1000;

impl SettingsOverride {
    /// Reads a TOML file whose keys are the names of [`Settings`]. An unknown key or a value of the wrong type is an
    /// error that names file, line and key.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let text = String::from_utf8(read_bounded(path, FILE_LIMIT)?).map_err(|error| SettingsError::NotText {
            path: path.to_path_buf(),
            offset: error.utf8_error().valid_up_to(),
        })?;
        Self::parse(&text, path)
    }

    /// [`Self::read`] of text at hand; `path` is for the errors.
    pub fn parse(text: &str, path: &Path) -> Result<Self, SettingsError> {
        toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or("");
            SettingsError::Toml {
                path: path.to_path_buf(),
                line: 1 + before.matches('\n').count(),
                reason: printable(&error.message().replace('\n', ", "), REASON_LIMIT),
            }
        })
    }
}

impl Settings {
    /// Every setting as TOML. Reading it back and resolving it gives these settings again, bit for bit.
    pub fn to_toml(&self) -> Result<String, SettingsError> {
        toml::to_string(self).map_err(|error| SettingsError::Unwritable { reason: error.to_string() })
    }

    /// Writes `config.toml`.
    pub fn write(&self, path: &Path) -> Result<(), SettingsError> {
        Ok(write_file(path, self.to_toml()?.as_bytes())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::presets::Preset;

    #[test]
    fn every_preset_reads_back_from_its_own_file_bit_for_bit() {
        let room = tempfile::tempdir().unwrap();
        for preset in Preset::ALL {
            let mut settings = preset.settings();
            settings.learning_rate = 0.1 + 0.2;
            settings.data = vec!["a \"quoted\" name.txt".into(), "b.txt".into()];
            let path = room.path().join("config.toml");
            settings.write(&path).unwrap();
            let read = SettingsOverride::read(&path).unwrap();
            assert_eq!(Settings::resolve(read, SettingsOverride::default()), settings);
        }
    }

    #[test]
    fn a_mistake_in_the_file_is_named_with_its_line() {
        for (text, line, expected) in [
            ("steps = 3\nlearning_rat = 1e-3\n", 2, "unknown field `learning_rat`, expected one of `preset`"),
            ("# a comment\n\nsteps = \"many\"\n", 3, "invalid type: string \"many\", expected u64"),
            ("steps = -1\n", 1, "invalid value: integer `-1`, expected u64"),
            ("data = \"text.txt\"\n", 1, "invalid type: string \"text.txt\", expected a sequence"),
            (
                "attention = \"flash\"\n",
                1,
                "'flash' is no attention: it may be naive, fused, FILE.star or builtin:NAME",
            ),
            (
                "preset = \"huge\"\n",
                1,
                "unknown variant `huge`, expected one of `tiny`, `heads`, `induction`, `nano`, `baby`",
            ),
            ("steps = 3\nsteps = 4\n", 2, "duplicate key"),
            ("steps = 3\nbatch 4\n", 2, ""),
            ("[model]\nlayers = 2\n", 1, "unknown field `model`"),
            ("\"\\u001b[2J\" = 1\n", 1, "unknown field `\\u{1b}[2J`, expected one of `preset`"),
            ("steps = 99999999999999999999\n", 1, "invalid type: integer `99999999999999999999`"),
            ("heads = 1000000000000000000000.0\n", 1, "invalid type: floating point"),
            ("layers = 1e9\n", 1, "invalid type: floating point `1000000000.0`, expected usize"),
            ("data = [1]\n", 1, "invalid type: integer `1`, expected a string"),
            (&format!("data = {}\n", "[".repeat(10_000)), 1, "cannot recurse further; max recursion depth met"),
            (&format!("{}a = 1\n", "a.".repeat(10_000)), 1, "recursion limit"),
            (&format!("steps = \"{}\"\n", "x".repeat(100_000)), 1, "invalid type: string \"xxx"),
        ] {
            let error = SettingsOverride::parse(text, Path::new("my.toml")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("my.toml:{line}: ")) && error.contains(expected), "{error}");
            assert!(!error.contains(['\n', '\u{1b}']) && error.len() < 1200, "{error}");
        }
    }

    #[test]
    fn numbers_that_are_not_finite_reach_validation() {
        let read = SettingsOverride::parse("learning_rate = nan\nclip = inf\n", Path::new("my.toml")).unwrap();
        let settings = Settings::resolve(read, SettingsOverride::default());
        assert_eq!(settings.validate().unwrap_err().to_string().lines().count(), 2);
    }

    #[test]
    fn what_a_run_writes_is_short_enough_to_be_read_back() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("config.toml");
        let mut settings = Preset::Nano.settings();
        for name in ["\u{1}".repeat(65_536), "x".repeat(65_536)] {
            settings.data = vec![name];
            settings.validate().unwrap();
            settings.write(&path).unwrap();
            assert_eq!(SettingsOverride::read(&path).unwrap().data, Some(settings.data.clone()));
        }
        settings.data = vec!["x".into(); 65_536];
        settings.validate().unwrap();
        settings.write(&path).unwrap();
        assert_eq!(SettingsOverride::read(&path).unwrap().data, Some(settings.data));
    }

    #[test]
    fn an_empty_file_changes_nothing_and_a_missing_one_is_named() {
        assert_eq!(SettingsOverride::parse("", Path::new("my.toml")).unwrap(), SettingsOverride::default());
        let error = SettingsOverride::read(Path::new("no/such.toml")).unwrap_err().to_string();
        assert!(error.starts_with("cannot open no/such.toml: "), "{error}");
    }
}
