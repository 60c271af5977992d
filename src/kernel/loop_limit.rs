//! How many loop iterations one invocation may take.
//!
//! llvmpipe counts the iterations of all loops of an invocation together, nested ones included, and after 65,535 of
//! them leaves every loop without a word (`LP_MAX_TGSI_LOOP_ITERATIONS` in Mesa's gallivm). A design whose loops grow
//! with a size says by [`within`] where it ends, so that a launch beyond is refused instead of wrong.

/// Iterations of all loops of one invocation.
pub const LOOP_ITERATIONS: u64 = 65_535;

/// Whether an invocation may take so many iterations.
///
/// # Errors
/// Both numbers.
pub fn within(iterations: u64) -> Result<(), String> {
    match iterations <= LOOP_ITERATIONS {
        true => Ok(()),
        false => Err(format!("takes {iterations} loop iterations, some adapters end after {LOOP_ITERATIONS}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_allowed() {
        assert_eq!(within(LOOP_ITERATIONS), Ok(()));
        let refused = within(LOOP_ITERATIONS + 1).unwrap_err();
        assert_eq!(refused, "takes 65536 loop iterations, some adapters end after 65535");
    }
}
