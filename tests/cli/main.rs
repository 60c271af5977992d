//! The program from outside: what it prints, what it leaves behind, and how it ends.

mod bad_input;
mod commands;
mod faults;
#[cfg(target_os = "linux")]
mod full_disk;
mod generation;
mod resume;
mod room;
mod training;
