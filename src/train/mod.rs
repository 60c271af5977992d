//! The training job: configuration, schedule, loop and the files of a run.

pub mod answers;
pub mod attention_choice;
pub mod causality;
#[cfg(feature = "cli")]
pub mod chart;
pub mod faults;
pub mod fit;
pub mod kept_models;
pub mod longest;
pub mod memory;
pub mod metrics;
pub mod non_finite;
pub mod optimizer_state;
pub mod presets;
pub mod program;
#[cfg(feature = "cli")]
pub mod run;
pub mod run_directory;
pub mod samples;
pub mod schedule;
pub mod settings;
#[cfg(feature = "cli")]
mod settings_toml;
mod settings_validation;
pub mod text;
pub mod trainer;
pub mod trainer_state;
pub mod training_checkpoint;
pub mod update;

pub use faults::{NanFault, TrainingFaults};
pub use metrics::{MetricsLog, MetricsRecord};
pub use optimizer_state::OptimizerState;
pub use presets::Preset;
pub use run_directory::RunDirectory;
pub use samples::SampleLog;
pub use schedule::LearningRateSchedule;
pub use settings::{Settings, SettingsError, SettingsOverride};
pub use trainer_state::TrainerState;
pub use training_checkpoint::TrainingCheckpoint;
