//! Ctrl-C: the first asks a run to finish what it is at and save, the second ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::output::warn;

/// Listens from now on; the flag becomes true with the first signal, which is answered with what is still `done`.
///
/// # Errors
/// The system refuses a handler.
pub fn listen(done: &'static str) -> anyhow::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    let flag = asked.clone();
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        warn(format_args!("\ninterrupted: {done} (once more to quit at once)"));
    })?;
    Ok(asked)
}
