//! Settings as TOML: the file a user writes, and the `config.toml` a run keeps.

use std::path::Path;

use crate::atomic::{read_bounded, write_file};
use crate::train::settings::{Settings, SettingsError, SettingsOverride};

const FILE_LIMIT: u64 = 1 << 20;

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
                reason: error.message().replace('\n', ", "),
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
            ("attention = \"flash\"\n", 1, "unknown variant `flash`, expected `naive` or `fused`"),
            ("preset = \"huge\"\n", 1, "unknown variant `huge`, expected one of `tiny`, `heads`, `nano`, `baby`"),
            ("steps = 3\nsteps = 4\n", 2, "duplicate key"),
            ("steps = 3\nbatch 4\n", 2, ""),
            ("[model]\nlayers = 2\n", 1, "unknown field `model`"),
        ] {
            let error = SettingsOverride::parse(text, Path::new("my.toml")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("my.toml:{line}: ")) && error.contains(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn numbers_that_are_not_finite_reach_validation() {
        let read = SettingsOverride::parse("learning_rate = nan\nclip = inf\n", Path::new("my.toml")).unwrap();
        let settings = Settings::resolve(read, SettingsOverride::default());
        assert_eq!(settings.validate().unwrap_err().to_string().lines().count(), 2);
    }

    #[test]
    fn an_empty_file_changes_nothing_and_a_missing_one_is_named() {
        assert_eq!(SettingsOverride::parse("", Path::new("my.toml")).unwrap(), SettingsOverride::default());
        let error = SettingsOverride::read(Path::new("no/such.toml")).unwrap_err().to_string();
        assert!(error.starts_with("cannot open no/such.toml: "), "{error}");
    }
}
