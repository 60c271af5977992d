//! Lines for whoever reads along. The work does not depend on them: where the reader has gone, as `head` does after its
//! lines, or a terminal is closed, it goes on in silence.

use std::fmt::Display;
use std::io::Write;

/// A line on standard output.
pub fn say(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A line on standard error.
pub fn warn(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
