//! The one place that changes the process's environment.

/// Mesa's device-selection layer looks for a Wayland server and, on machines without a desktop session, prints an
/// error that is none. This program ranks adapters itself, so there the layer is told to stay out.
pub fn quiet_device_selection() {
    if cfg!(target_os = "linux") && std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        // SAFETY: called first thing in `main`, while the process has a single thread.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
}
