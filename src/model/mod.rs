//! The GPT: its configuration, parameters, checkpoints and graph.

pub mod attention;
pub mod causality;
pub mod checkpoint;
pub mod config;
mod config_json;
pub mod forward;
pub mod generate;
pub mod gpt;
pub mod initialisation;
pub mod parameters;
pub mod sampling;
pub mod tensor_file;
mod tensor_header;
pub mod trace;

pub use attention::EditedAttention;
pub use checkpoint::{Checkpoint, CheckpointError, resolve_model};
pub use config::{ConfigError, GptConfig};
pub use initialisation::{Initialisation, PositionInit, QueryKeyInit};
pub use parameters::{Parameter, ParameterKind};
