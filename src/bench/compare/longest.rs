//! The longest context that fits, found by planning alone.

use serde::Serialize;

use super::Refusal;

/// The longest context that fits, and why one more does not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Longest {
    /// 0 where none does.
    pub context_length: u64,
    /// Of the next longer one; `None` where nobody looked further.
    pub refusal: Option<Refusal>,
}

impl Longest {
    /// The longest context up to `most`, by bisection: what refuses a length refuses all longer ones. `refusal` asks for
    /// one length.
    ///
    /// # Errors
    /// Those of `refusal`.
    pub fn search<E>(most: u64, mut refusal: impl FnMut(u64) -> Result<Option<Refusal>, E>) -> Result<Self, E> {
        let Some(first) = refusal(most)? else { return Ok(Self { context_length: most, refusal: None }) };
        let (mut fitting, mut refused, mut reason) = (0, most, first);
        while refused - fitting > 1 {
            let middle = u64::midpoint(fitting, refused);
            match refusal(middle)? {
                None => fitting = middle,
                Some(nearer) => (refused, reason) = (middle, nearer),
            }
        }
        Ok(Self { context_length: fitting, refusal: Some(reason) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_the_last_before_the_first_that_is_refused() {
        let most = 1 << 20;
        for longest in [0, 1, 2, 2896, most - 1, most, most + 1] {
            let mut asked = 0;
            let found = Longest::search(most, |length| {
                asked += 1;
                Ok::<_, ()>((length > longest).then(|| Refusal::Other(length.to_string())))
            });
            let refusal = (longest < most).then(|| Refusal::Other((longest + 1).to_string()));
            assert_eq!(found, Ok(Longest { context_length: longest.min(most), refusal }));
            assert!(asked <= 21, "{longest} took {asked} plans");
        }
        assert_eq!(Longest::search(most, |_| Err("no plan")), Err("no plan"));
    }
}
