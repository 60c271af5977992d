//! The longest context that something can be had for.

/// The longest context up to `most` that is not refused, 0 where each is, and why one more is; `None` where `most` itself
/// is not. By bisection: what refuses a length refuses all longer ones. `refusal` asks for one length.
///
/// # Errors
/// Those of `refusal`.
pub fn longest<R, E>(most: u64, mut refusal: impl FnMut(u64) -> Result<Option<R>, E>) -> Result<(u64, Option<R>), E> {
    let Some(first) = refusal(most)? else { return Ok((most, None)) };
    let (mut fitting, mut refused, mut reason) = (0, most, first);
    while refused - fitting > 1 {
        let middle = u64::midpoint(fitting, refused);
        match refusal(middle)? {
            None => fitting = middle,
            Some(nearer) => (refused, reason) = (middle, nearer),
        }
    }
    Ok((fitting, Some(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_the_last_before_the_first_that_is_refused() {
        for most in [1, 2, 7, 64, 1000, 1 << 20] {
            for limit in [0, 1, 2, 3, 63, 64, 65, 999, 1000, 2896, 1 << 20, u64::MAX] {
                let mut asked = 0;
                let found = longest(most, |length| {
                    asked += 1;
                    Ok::<_, ()>((length > limit).then_some(length))
                });
                assert_eq!(found, Ok((limit.min(most), (limit < most).then(|| limit + 1))), "{most} {limit}");
                assert!(asked <= 21, "{most} {limit} took {asked}");
            }
        }
        assert_eq!(longest(5, |_| Err::<Option<()>, _>("no plan")), Err("no plan"));
    }
}
