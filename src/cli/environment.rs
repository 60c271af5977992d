//! The one place that reads and changes the process's environment.

use std::io::IsTerminal;

use anyhow::anyhow;

use super::faults::{self, Faults};
use crate::maps::picture::Ink;

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

/// What standard output shows: characters alone where it is no terminal, or where `NO_COLOR` is set to anything
/// (no-color.org); else what the terminal says of itself.
pub fn ink() -> Ink {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let terminal = std::io::stdout().is_terminal() && variable("NO_COLOR").is_empty();
    if terminal { ink_of(&variable("COLORTERM"), &variable("TERM")) } else { Ink::Plain }
}

fn ink_of(colours: &str, terminal: &str) -> Ink {
    match (colours, terminal) {
        (_, "dumb") => Ink::Plain,
        ("truecolor" | "24bit", _) => Ink::TrueColour,
        // Terminals that say nothing of themselves are older than colours, or Windows, which knows 24 bits.
        (_, "") => {
            if cfg!(windows) {
                Ink::TrueColour
            } else {
                Ink::Plain
            }
        }
        _ if terminal.ends_with("-direct") => Ink::TrueColour,
        _ if terminal.contains("256") => Ink::Indexed,
        _ => Ink::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_the_colours_that_it_claims() {
        for (colours, terminal, expected) in [
            ("truecolor", "xterm-256color", Ink::TrueColour),
            ("24bit", "screen", Ink::TrueColour),
            ("", "xterm-direct", Ink::TrueColour),
            ("", "xterm-256color", Ink::Indexed),
            ("", "linux", Ink::Plain),
            ("truecolor", "dumb", Ink::Plain),
        ] {
            assert_eq!(ink_of(colours, terminal), expected, "{colours} {terminal}");
        }
    }
}
