//! Every choice of a training run, and the order in which its sources win: preset, then file, then flags.
//! Knows nothing of devices or of what the names of corpora mean.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::atomic::FileError;
use crate::data::tokenizer::TokenKind;
use crate::graph::Recompute;
use crate::model::config::{ConfigError, GptConfig};
use crate::model::initialisation::{Initialisation, PositionInit, QueryKeyInit};
use crate::train::attention_choice::AttentionChoice;
use crate::train::presets::Preset;
use crate::train::schedule::LearningRateSchedule;
use crate::train::settings_validation;

/// Declares the fields once, for the resolved settings and for what a file or the flags may override. A field's
/// comment is its help text; brackets hold what its flag needs beyond its name.
macro_rules! settings {
    ($($(#[doc = $text:literal])+ $([$($flag:tt)+])? $name:ident: $kind:ty,)+) => {
        /// Every choice of a run, resolved.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        pub struct Settings {
            $($(#[doc = $text])+ pub $name: $kind,)+
        }

        /// The choices that a file (its keys are the fields) or the flags make; the rest is left as it is.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[cfg_attr(feature = "cli", derive(clap::Args))]
        #[serde(deny_unknown_fields, default)]
        pub struct SettingsOverride {
            $($(#[doc = $text])+ #[cfg_attr(feature = "cli", arg(long $(, $($flag)+)?))] pub $name: Option<$kind>,)+
        }

        impl Settings {
            /// Takes every choice that `choices` makes.
            pub fn apply(&mut self, choices: SettingsOverride) {
                $(if let Some(value) = choices.$name {
                    self.$name = value;
                })+
            }
        }
    };
}

settings! {
    /// The named set of settings to start from
    preset: Preset,
    /// UTF-8 text files, read one after the other, or one of the built-in corpora as builtin:NAME
    [num_args = 1.., value_name = "FILE|builtin:NAME"]
    data: Vec<String>,
    /// What a token is: every character, or every word
    tokens: TokenKind,
    /// The share of the text that is held out to measure the validation loss, above 0 and below 1
    [allow_negative_numbers = true]
    validation_fraction: f64,
    /// Bytes of text that a built-in corpus makes
    corpus_bytes: u64,
    /// The run directory that is made
    [value_name = "DIR"]
    out: PathBuf,
    /// Transformer blocks
    layers: usize,
    /// Attention heads a block; they divide the width
    heads: usize,
    /// Width of the residual stream
    width: usize,
    /// The most tokens the model sees at once
    context_length: usize,
    /// Windows of text a micro-batch
    batch: usize,
    /// Micro-batches an optimizer step
    accumulation: usize,
    /// Optimizer steps of the whole run: the length of the learning rate's schedule
    steps: u64,
    /// The learning rate after the warm-up
    [allow_negative_numbers = true]
    learning_rate: f64,
    /// The learning rate at the end
    [allow_negative_numbers = true]
    minimum_learning_rate: f64,
    /// Optimizer steps over which the learning rate rises
    warm_up: u64,
    /// AdamW's decay of the mean of the gradients
    [allow_negative_numbers = true]
    beta1: f64,
    /// AdamW's decay of the mean of the squared gradients
    [allow_negative_numbers = true]
    beta2: f64,
    /// AdamW's addend to the root of the squared gradients
    [allow_negative_numbers = true]
    epsilon: f64,
    /// AdamW's decoupled weight decay, for tensors of two or more dimensions
    [allow_negative_numbers = true]
    weight_decay: f64,
    /// The largest norm of all gradients together; 0 turns clipping off
    [allow_negative_numbers = true]
    clip: f64,
    /// The seed of weights, batches, samples and built-in corpora
    [allow_negative_numbers = true]
    seed: u64,
    /// How attention is computed: one of two ways to compute the reference, or a function of your own, which is fused
    /// where it can be (FILE.star,naive never is)
    [value_name = "naive|fused|FILE.star|builtin:NAME"]
    attention: AttentionChoice,
    /// What the backward pass computes again instead of keeping it: less memory, more time, the same bits
    recompute: Recompute,
    /// The initial size of queries and keys
    [long = "qk-init"]
    query_key_init: QueryKeyInit,
    /// The initial position embedding
    position_init: PositionInit,
    /// Optimizer steps between two measurements of the validation loss; 0 measures at the end only
    evaluate_every: u64,
    /// Batches of held-out text a measurement; 0 takes all of it
    evaluation_batches: u64,
    /// Optimizer steps between two lines of metrics
    log_every: u64,
    /// Optimizer steps between two checkpoints; 0 saves at the end only
    checkpoint_every: u64,
    /// Optimizer steps between two models that are kept, the first and the last among them; 0 keeps none
    [value_name = "EVERY"]
    keep_checkpoints: u64,
    /// Optimizer steps between two samples; 0 samples at the end only
    sample_every: u64,
    /// Tokens a sample
    sample_length: usize,
    /// What to train on: auto, gpu, cpu, or a part of an adapter's name
    device: String,
}

/// The settings that the weights after a step depend on. A resumed run must keep them.
const TRAJECTORY: [&str; 23] = [
    "data",
    "tokens",
    "validation_fraction",
    "corpus_bytes",
    "layers",
    "heads",
    "width",
    "context_length",
    "batch",
    "accumulation",
    "steps",
    "learning_rate",
    "minimum_learning_rate",
    "warm_up",
    "beta1",
    "beta2",
    "epsilon",
    "weight_decay",
    "clip",
    "seed",
    "attention",
    "query_key_init",
    "position_init",
];

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}:{line}: {reason}", path.display())]
    Toml { path: PathBuf, line: usize, reason: String },
    #[error("{}: it is not UTF-8 at byte {offset}", path.display())]
    NotText { path: PathBuf, offset: usize },
    #[error("settings cannot be written as TOML: {reason}")]
    Unwritable { reason: String },
    /// One line a fault.
    #[error("{}", faults.join("\n"))]
    Invalid { faults: Vec<String> },
}

impl Settings {
    /// The settings that `file` and `flags` ask for, on top of the preset which the flags, else the file, else the
    /// default name. Not validated yet.
    pub fn resolve(file: SettingsOverride, flags: SettingsOverride) -> Self {
        let mut settings = flags.preset.or(file.preset).unwrap_or_default().settings();
        settings.apply(file);
        settings.apply(flags);
        settings
    }

    /// Refuses what no run can use; every fault is reported, a line each.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let faults = settings_validation::faults(self);
        if faults.is_empty() { Ok(()) } else { Err(SettingsError::Invalid { faults }) }
    }

    /// The model these settings describe for a vocabulary.
    pub fn model(&self, vocabulary_size: usize) -> Result<GptConfig, ConfigError> {
        GptConfig::new(vocabulary_size, self.context_length, self.layers, self.heads, self.width)
    }

    pub fn initialisation(&self) -> Initialisation {
        Initialisation { query_key: self.query_key_init, position: self.position_init, seed: self.seed }
    }

    pub fn schedule(&self) -> LearningRateSchedule {
        LearningRateSchedule {
            peak: self.learning_rate,
            minimum: self.minimum_learning_rate,
            warm_up: self.warm_up,
            steps: self.steps,
        }
    }

    /// Tokens that one optimizer step learns from.
    pub fn tokens_per_step(&self) -> u64 {
        (self.batch as u64).saturating_mul(self.accumulation as u64).saturating_mul(self.context_length as u64)
    }

    /// The settings that the weights depend on, by name, for a checkpoint to keep.
    pub fn trajectory(&self) -> Map<String, Value> {
        // Settings are plain fields: turning them into JSON cannot fail, and a name that is missing would show as null.
        let all = serde_json::to_value(self).unwrap_or_default();
        TRAJECTORY.iter().map(|&name| (name.to_string(), all[name].clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::attention_choice::AttentionKind;

    #[test]
    fn flags_win_over_the_file_and_the_file_over_the_preset() {
        let file = SettingsOverride {
            preset: Some(Preset::Nano),
            steps: Some(7),
            batch: Some(3),
            ..SettingsOverride::default()
        };
        let flags = SettingsOverride { steps: Some(9), ..SettingsOverride::default() };
        let settings = Settings::resolve(file.clone(), flags.clone());
        assert_eq!((settings.preset, settings.steps, settings.batch, settings.width), (Preset::Nano, 9, 3, 128));
        let flags = SettingsOverride { preset: Some(Preset::Baby), ..flags };
        let settings = Settings::resolve(file, flags);
        assert_eq!((settings.preset, settings.steps, settings.batch, settings.width), (Preset::Baby, 9, 3, 384));
        assert_eq!(
            Settings::resolve(SettingsOverride::default(), SettingsOverride::default()),
            Preset::default().settings()
        );
    }

    #[test]
    fn the_trajectory_names_fields_that_exist_and_leaves_out_what_does_not_move_weights() {
        let settings = Preset::Nano.settings();
        let trajectory = settings.trajectory();
        assert_eq!(trajectory.len(), TRAJECTORY.len());
        assert!(trajectory.values().all(|value| !value.is_null()), "{trajectory:?}");
        let all = serde_json::to_value(&settings).unwrap();
        let free: Vec<&String> = all.as_object().unwrap().keys().filter(|key| !trajectory.contains_key(*key)).collect();
        assert_eq!(
            free,
            [
                "preset",
                "out",
                "recompute",
                "evaluate_every",
                "evaluation_batches",
                "log_every",
                "checkpoint_every",
                "keep_checkpoints",
                "sample_every",
                "sample_length",
                "device"
            ]
        );
    }

    #[test]
    fn the_tokens_of_a_step_are_counted_over_its_micro_batches() {
        let mut settings = Preset::Nano.settings();
        settings.accumulation = 4;
        assert_eq!(settings.tokens_per_step(), 12 * 4 * 64);
        settings.batch = usize::MAX;
        assert_eq!(settings.tokens_per_step(), u64::MAX);
    }

    #[cfg(feature = "cli")]
    #[test]
    fn every_setting_is_a_flag() {
        use clap::{Args, FromArgMatches};
        let parse = |words: &[&str]| {
            let command = SettingsOverride::augment_args(clap::Command::new("test").no_binary_name(true));
            let matches = command.try_get_matches_from(words).map_err(|error| error.to_string())?;
            SettingsOverride::from_arg_matches(&matches).map_err(|error| error.to_string())
        };
        let flags = parse(&[
            "--preset",
            "heads",
            "--data",
            "a.txt",
            "b.txt",
            "--learning-rate",
            "-0.001",
            "--qk-init",
            "unit",
            "--position-init",
            "sinusoidal",
            "--attention",
            "naive",
            "--tokens",
            "word",
            "--out",
            "runs/x",
            "--seed",
            "3",
        ])
        .unwrap();
        let expected = SettingsOverride {
            preset: Some(Preset::Heads),
            data: Some(vec!["a.txt".to_string(), "b.txt".to_string()]),
            learning_rate: Some(-0.001),
            query_key_init: Some(QueryKeyInit::Unit),
            position_init: Some(PositionInit::Sinusoidal),
            attention: Some(AttentionKind::Naive.into()),
            tokens: Some(TokenKind::Word),
            out: Some("runs/x".into()),
            seed: Some(3),
            ..SettingsOverride::default()
        };
        assert_eq!(flags, expected);
        assert_eq!(parse(&[]), Ok(SettingsOverride::default()));
        assert!(parse(&["--query-key-init", "unit"]).is_err());
        assert!(parse(&["--batch", "many"]).unwrap_err().contains("invalid value 'many' for '--batch"));
        let all = serde_json::to_value(Preset::Tiny.settings()).unwrap();
        let command = SettingsOverride::augment_args(clap::Command::new("test"));
        let flags = command.get_arguments().filter(|argument| argument.get_help().is_some()).count();
        assert_eq!(flags, all.as_object().unwrap().len());
    }
}
