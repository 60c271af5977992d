//! Attention maps: which token each head of a model looks at in a text, and what there is to see in them.

mod map;
pub mod picture;

pub use map::{HeadMap, Maps};
