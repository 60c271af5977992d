//! The GPT: its configuration, parameters, checkpoints and graph.
