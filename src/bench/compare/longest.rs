//! The longest context that fits, found by planning alone.

use serde::Serialize;

use super::Refusal;

/// The longest context that fits, and why one more does not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Longest {
    /// 0 where none does.
    pub context_length: u64,
    /// Of the next longer one.
    pub refusal: Refusal,
}

impl Longest {
    /// The longest context up to `limit`, by bisection: what refuses a length refuses all longer ones. `None` where
    /// `limit` itself fits. `refusal` asks for one length.
    pub fn search(limit: u64, mut refusal: impl FnMut(u64) -> Option<Refusal>) -> Option<Self> {
        let mut found = Self { context_length: 0, refusal: refusal(limit)? };
        let mut refused = limit;
        while found.context_length + 1 < refused {
            let middle = found.context_length.midpoint(refused);
            match refusal(middle) {
                None => found.context_length = middle,
                Some(reason) => {
                    refused = middle;
                    found.refusal = reason;
                }
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_the_last_before_the_first_that_is_refused() {
        let limit = 1 << 20;
        for longest in [0, 1, 2, 2896, limit - 1] {
            let mut asked = 0;
            let found = Longest::search(limit, |length| {
                asked += 1;
                (length > longest).then(|| Refusal::Other(length.to_string()))
            });
            let refusal = Refusal::Other((longest + 1).to_string());
            assert_eq!(found, Some(Longest { context_length: longest, refusal }));
            assert!(asked <= 21, "{longest} took {asked} plans");
        }
        assert_eq!(Longest::search(limit, |_| None), None);
    }
}
