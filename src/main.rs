//! The `headlight` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    headlight::cli::main()
}
