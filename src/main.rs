//! The `headlight` program.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: headlight::cli::LimitedAllocator = headlight::cli::LimitedAllocator;

fn main() -> ExitCode {
    headlight::cli::main()
}
