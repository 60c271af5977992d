//! The program from outside: what it prints, what it leaves behind, and how it ends.

mod bad_input;
mod commands;
mod faults;
#[cfg(target_os = "linux")]
mod full_disk;
mod generation;
mod golden;
mod op;
mod resume;
mod room;
mod tensors;
mod trace;
mod training;
