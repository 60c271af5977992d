//! The program from outside: what it prints, what it leaves behind, and how it ends.

mod ablation;
mod attention;
mod bad_input;
mod bench;
mod check;
mod commands;
mod compare;
mod faults;
#[cfg(target_os = "linux")]
mod full_disk;
mod generation;
mod golden;
// Limits on memory are the shell's and the system's.
#[cfg(target_os = "linux")]
mod hostile;
mod logits;
mod map;
mod memory;
mod mutants;
mod op;
mod resume;
mod room;
mod steps;
mod tensors;
mod trace;
mod training;
