//! The program from outside: what it prints, what it leaves behind, and how it ends.

mod bad_input;
mod commands;
mod generation;
mod mutants;
mod room;
mod training;
