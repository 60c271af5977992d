//! The longest context that fits, found by planning alone.

use serde::Serialize;

use super::Refusal;
use crate::train::longest::longest;

/// The longest context that fits, and why one more does not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Longest {
    /// 0 where none does.
    pub context_length: u64,
    /// Of the next longer one; `None` where nobody looked further.
    pub refusal: Option<Refusal>,
}

impl Longest {
    /// The longest context up to `most`; `refusal` asks for one length.
    ///
    /// # Errors
    /// Those of `refusal`.
    pub fn search<E>(most: u64, refusal: impl FnMut(u64) -> Result<Option<Refusal>, E>) -> Result<Self, E> {
        let (context_length, refusal) = longest(most, refusal)?;
        Ok(Self { context_length, refusal })
    }
}
