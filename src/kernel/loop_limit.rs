//! A limit that no API reports: Mesa's software driver (llvmpipe and lavapipe) ends the loops of an invocation after
//! 65,535 iterations of all of them together (`LP_MAX_TGSI_LOOP_ITERATIONS` in its `lp_bld_limits.h`), and the shader
//! goes on with what it has by then: a wrong result and no error. Loops over a size are bounded here.

/// Iterations of all loops of an invocation together. Leaving a loop counts as one.
pub const LOOP_ITERATIONS: u64 = 65_535;

/// Whether an invocation's loops stay within [`LOOP_ITERATIONS`].
///
/// # Errors
/// What would need fewer, in words: `what` is the size that drives the loops and `given` its value.
pub fn within_loop_limit(iterations: u64, what: &str, given: u32) -> Result<(), String> {
    match iterations <= LOOP_ITERATIONS {
        true => Ok(()),
        false => Err(format!(
            "{given} {what} take {iterations} loop iterations of one invocation, software adapters end after {LOOP_ITERATIONS}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_would_be_cut_short_is_refused_with_its_numbers() {
        assert_eq!(within_loop_limit(LOOP_ITERATIONS, "columns", 9), Ok(()));
        let refused = within_loop_limit(LOOP_ITERATIONS + 1, "columns", 70_000).unwrap_err();
        assert!(refused.contains("70000 columns") && refused.contains("65536"), "{refused}");
    }
}
