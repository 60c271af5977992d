//! Text to tokens to batches: files and built-in corpora, tokenizers, the train/validation split, windows of
//! tokens, and the losses that a model must beat. Knows nothing of models or devices.

pub mod batches;
pub mod corpus;
pub mod reference_loss;
pub mod split;
pub mod text;
pub mod tokenizer;
