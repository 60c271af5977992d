//! `trainer.json`: how far a run has come, and what a resumed run must find unchanged.

use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::atomic::{FileError, read_bounded, write_file};
use crate::printable::printable;

pub const TRAINER_FILE: &str = "trainer.json";

/// The form of the file that this program writes, and the only one it reads.
const VERSION: u32 = 1;

const FILE_LIMIT: u64 = 1 << 20;

/// How an error cuts the parser's reason, which may quote the file.
const REASON_LIMIT: usize = 500;

/// How an error cuts the value of a setting.
const VALUE_LIMIT: usize = 100;

/// The state of a run between two steps, besides weights and moments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainerState {
    /// Optimizer steps taken. Draws are keyed by it: nothing else of the random numbers is kept.
    pub step: u64,
    pub seed: u64,
    /// [`Settings::trajectory`](crate::train::Settings::trajectory) of the run.
    #[serde(deserialize_with = "crate::json::object")]
    pub settings: Map<String, Value>,
    /// The lowest validation loss so far; `None` before the first measurement.
    pub best_validation_loss: Option<f64>,
    /// Names kernels, designs, constants and order of what ran. Equal fingerprints on one device continue bit for bit.
    pub plan_fingerprint: String,
    /// Names the tokenizer.
    pub tokenizer_fingerprint: String,
    /// Names the text.
    pub text_fingerprint: String,
    /// Seconds spent training, resumed parts included.
    pub elapsed_seconds: f64,
    /// Tokens learnt from.
    pub tokens: u64,
    /// Bytes of `samples.txt` that were written by then.
    pub samples_length: u64,
}

/// The file: the state under the version of its form.
#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    state: T,
}

/// Why `trainer.json` could not be read or does not fit the run.
#[derive(Debug, thiserror::Error)]
pub enum TrainerStateError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is not the state of a trainer: {reason}", path.display())]
    Json { path: PathBuf, reason: String },
    #[error("{} has {field} {value:?}: it must be a finite number of at least 0", path.display())]
    Number { path: PathBuf, field: &'static str, value: f64 },
    #[error("{} has version {version}: this program reads version {VERSION}", path.display())]
    Version { path: PathBuf, version: u32 },
    #[error("a resumed run keeps its settings, but {}: leave them out, or start a new run", changes.join(", "))]
    SettingsChanged { changes: Vec<String> },
}

impl TrainerState {
    /// Reads the file in a checkpoint directory.
    pub fn read(directory: &Path) -> Result<Self, TrainerStateError> {
        let path = directory.join(TRAINER_FILE);
        let bytes = read_bounded(&path, FILE_LIMIT)?;
        Self::parse(&bytes, &path)
    }

    /// [`Self::read`] of bytes at hand; `path` is for the errors.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, TrainerStateError> {
        let malformed = |error: serde_json::Error| TrainerStateError::Json {
            path: path.to_path_buf(),
            reason: printable(&error.to_string(), REASON_LIMIT),
        };
        // The version first: what a later one holds is not this program's to judge.
        let Versioned::<IgnoredAny> { version, .. } = serde_json::from_slice(bytes).map_err(malformed)?;
        if version != VERSION {
            return Err(TrainerStateError::Version { path: path.to_path_buf(), version });
        }
        let Versioned::<Self> { state, .. } = serde_json::from_slice(bytes).map_err(malformed)?;
        for (field, value) in [
            ("elapsed_seconds", state.elapsed_seconds),
            ("best_validation_loss", state.best_validation_loss.unwrap_or(0.0)),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(TrainerStateError::Number { path: path.to_path_buf(), field, value });
            }
        }
        Ok(state)
    }

    /// Writes the file into a checkpoint directory, which exists.
    pub fn write_into(&self, directory: &Path) -> Result<(), TrainerStateError> {
        let path = directory.join(TRAINER_FILE);
        let mut bytes = serde_json::to_vec_pretty(&Versioned { version: VERSION, state: self })
            .map_err(|error| TrainerStateError::Json { path: path.clone(), reason: error.to_string() })?;
        bytes.push(b'\n');
        Ok(write_file(&path, &bytes)?)
    }

    /// Refuses settings under which the run would go on differently from how it began, naming each with both values.
    pub fn check_settings(&self, trajectory: &Map<String, Value>) -> Result<(), TrainerStateError> {
        let shown = |value: &Value| printable(&value.to_string(), VALUE_LIMIT);
        let absent = Value::Null;
        let mut changes: Vec<String> = trajectory
            .iter()
            .filter_map(|(name, asked)| {
                let kept = self.settings.get(name).unwrap_or(&absent);
                (kept != asked).then(|| format!("{name} was {} and is now {}", shown(kept), shown(asked)))
            })
            .collect();
        let unknown = self.settings.keys().find(|name| !trajectory.contains_key(*name));
        changes.extend(unknown.map(|name| format!("{} is none that this program has", printable(name, VALUE_LIMIT))));
        if changes.is_empty() { Ok(()) } else { Err(TrainerStateError::SettingsChanged { changes }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::presets::Preset;

    fn state() -> TrainerState {
        TrainerState {
            step: 250,
            seed: u64::MAX,
            settings: Preset::Nano.settings().trajectory(),
            best_validation_loss: Some(0.1 + 0.2),
            plan_fingerprint: "abc".into(),
            tokenizer_fingerprint: "def".into(),
            text_fingerprint: "\u{e9}".into(),
            elapsed_seconds: 12.345678901234567,
            tokens: 192_000,
            samples_length: 3,
        }
    }

    #[test]
    fn a_state_reads_back_bit_for_bit() {
        let room = tempfile::tempdir().unwrap();
        for best_validation_loss in [None, Some(1.0 / 3.0), Some(2.225_073_858_507_201e-308)] {
            let state = TrainerState { best_validation_loss, ..state() };
            state.write_into(room.path()).unwrap();
            assert_eq!(TrainerState::read(room.path()).unwrap(), state);
        }
    }

    #[test]
    fn settings_that_were_stored_and_read_are_unchanged() {
        let room = tempfile::tempdir().unwrap();
        for preset in Preset::ALL {
            let mut settings = preset.settings();
            settings.learning_rate = 0.1 + 0.2;
            TrainerState { settings: settings.trajectory(), ..state() }.write_into(room.path()).unwrap();
            let read = TrainerState::read(room.path()).unwrap();
            read.check_settings(&settings.trajectory()).unwrap();
            settings.device = "cpu".into();
            settings.log_every += 1;
            read.check_settings(&settings.trajectory()).unwrap();
        }
    }

    #[test]
    fn a_setting_is_the_number_that_it_equals_and_no_object() {
        let room = tempfile::tempdir().unwrap();
        state().write_into(room.path()).unwrap();
        let good = std::fs::read_to_string(room.path().join(TRAINER_FILE)).unwrap();
        for (to, unchanged) in [
            ("0.0010", true),
            ("1e-3", true),
            ("0.0011", false),
            (r#"{"$serde_json::private::Number": "0.001"}"#, false),
            (r#"{"$serde_json::private::RawValue": "0.001"}"#, false),
        ] {
            let text = good.replacen("\"learning_rate\": 0.001", &format!("\"learning_rate\": {to}"), 1);
            assert_ne!(text, good);
            let read = TrainerState::parse(text.as_bytes(), Path::new("trainer.json")).unwrap();
            assert_eq!(read.check_settings(&Preset::Nano.settings().trajectory()).is_ok(), unchanged, "{to}");
        }
    }

    #[test]
    fn a_changed_setting_is_named_with_both_values() {
        let mut settings = Preset::Nano.settings();
        settings.batch = 13;
        settings.learning_rate = 3e-4;
        let error = state().check_settings(&settings.trajectory()).unwrap_err().to_string();
        assert_eq!(
            error,
            "a resumed run keeps its settings, but batch was 12 and is now 13, learning_rate was 0.001 and is now 0.0003: \
             leave them out, or start a new run"
        );
        let mut state = state();
        state.settings.insert("\u{1b}x".into(), Value::Null);
        let error = state.check_settings(&Preset::Nano.settings().trajectory()).unwrap_err().to_string();
        assert!(error.contains("but \\u{1b}x is none that this program has: "), "{error}");
    }

    #[test]
    fn numbers_that_no_run_can_have_are_refused_by_their_name() {
        let room = tempfile::tempdir().unwrap();
        state().write_into(room.path()).unwrap();
        let good = std::fs::read_to_string(room.path().join(TRAINER_FILE)).unwrap();
        for (from, to, expected) in [
            ("12.345678901234567", "-1.0", "has elapsed_seconds -1.0: it must be a finite number of at least 0"),
            (
                "0.30000000000000004",
                "-1e300",
                "has best_validation_loss -1e300: it must be a finite number of at least 0",
            ),
            ("12.345678901234567", "1e999", "is not the state of a trainer: number out of range"),
            ("\"step\": 250", "\"step\": -1", "invalid value: integer `-1`, expected u64"),
            ("\"step\": 250", "\"step\": 1e3", "invalid type: floating point `1000.0`, expected u64"),
            ("\"step\": 250", "\"step\": 1, \"step\": 2", "duplicate field `step`"),
            ("\"tokens\": 192000", "\"tokens\": 18446744073709551616", "invalid type: floating point"),
            ("\"tokens\": 192000", "\"tokens\": -0", "invalid type: floating point `-0.0`, expected u64"),
            (
                "\"tokens\": 192000",
                "\"tokens\": {\"$serde_json::private::Number\": \"1\"}",
                "invalid type: map, expected u64",
            ),
            ("\"batch\": 12", "\"batch\": 1e400", "number out of range"),
            ("\"batch\": 12", "\"batch\": 12, \"batch\": 12", "the key \"batch\" stands twice in the object"),
        ] {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good);
            let error = TrainerState::parse(text.as_bytes(), Path::new("trainer.json")).unwrap_err().to_string();
            assert!(error.starts_with("trainer.json ") && error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_file_of_another_form_is_refused() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join(TRAINER_FILE);
        for (text, expected) in [
            ("", "trainer.json is not the state of a trainer: EOF"),
            ("{\"version\": 1, \"state\": {\"step\": 3}}", "trainer.json is not the state of a trainer: missing field"),
            ("{\"version\": 1}", "trainer.json is not the state of a trainer: missing field `state`"),
            ("{\"version\": 2, \"state\": {}}", "trainer.json has version 2: this program reads version 1"),
            ("{\"version\": 4294967296, \"state\": {}}", "trainer: invalid value: integer `4294967296`, expected u32"),
            ("{\"version\": 1, \"version\": 1, \"state\": {}}", "trainer: duplicate field `version`"),
            (
                "{\"version\": 1, \"state\": {\"\\u001b[2J\": 1}}",
                "trainer: unknown field `\\u{1b}[2J`, expected one of",
            ),
            ("{\"version\": 1, \"state\": [[[[", "trainer: EOF while parsing a list"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = TrainerState::read(room.path()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains(['\n', '\u{1b}']) && error.len() < 700, "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(TrainerState::read(room.path()).unwrap_err().to_string().starts_with("cannot open "));
    }
}
