//! The one place that reads and changes the process's environment.

use anyhow::anyhow;

use super::faults::{self, Faults};

/// Mesa's device-selection layer looks for a Wayland server and, on machines without a desktop session, prints an
/// error that is none. This program ranks adapters itself, so there the layer is told to stay out.
pub fn quiet_device_selection() {
    if cfg!(target_os = "linux") && std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        // SAFETY: called first thing in `main`, while the process has a single thread.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
}

/// The faults that a test asks for; none where the variable is not set.
///
/// # Errors
/// A fault that there is not, with the list of those there are.
pub fn planted_faults() -> anyhow::Result<Faults> {
    let Some(text) = std::env::var_os(faults::VARIABLE) else { return Ok(Faults::default()) };
    text.to_str().ok_or_else(|| anyhow!("{} is not UTF-8", faults::VARIABLE))?.parse()
}
