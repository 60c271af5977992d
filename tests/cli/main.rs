//! The program from outside: what it prints, what it leaves behind, and how it ends.

mod bad_input;
mod commands;
mod generation;
// Limits on memory are the shell's and the system's.
#[cfg(target_os = "linux")]
mod hostile;
mod room;
mod training;
