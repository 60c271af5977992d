//! Headlight trains small GPTs on hand-written WGSL kernels and proves every kernel, element by element,
//! against a CPU reference.
//!
//! Imports run downwards only: `train` and `check` use `model` and `data`, those use `graph`, which lowers to
//! `kernel`s on a `tape`, which the `gpu` (or the CPU) executes.

// What a user or a device can cause is an error, never a panic; the few exceptions give their reason.
#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used))]

pub mod atomic;
pub mod bench;
pub mod check;
#[cfg(feature = "cli")]
pub mod cli;
pub mod data;
mod fingerprint;
pub mod gpu;
pub mod graph;
mod json;
pub mod kernel;
pub mod maps;
pub mod model;
pub mod op;
mod printable;
pub mod random;
pub mod script;
pub mod tape;
pub mod train;
