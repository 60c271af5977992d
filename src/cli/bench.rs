//! `headlight bench`: how long things take on this adapter, and how near that is to what it can do.

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};

use super::device::DeviceArgument;
use super::{Outcome, bench_attention, bench_kernels, bench_train};
use crate::bench::Limits;
use crate::gpu::Choice;

/// How to read what is printed.
const READING: &str = "Times are medians with half their 95% interval, and the spread between their quartiles, in percent. \
    The clock is the adapter's own (gpu) where it has one that agrees with the host's, and the host's (wall) elsewhere, from \
    queueing to the end. GFLOP/s and GB/s count what an op must at least compute and move; behind them stands their share of \
    what this adapter was measured to do at most. Shares of GB/s above 100% mean that caches hold the data. An 'x' is how \
    many times as fast a row is as the first of its kind: below 1 it is slower, with a ~ the difference is noise.";

#[derive(clap::Args)]
#[command(after_help = READING)]
pub struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Time attention alone, forward and backward, naive against fused, at many context lengths
    Attention(bench_attention::Arguments),
    /// Time every design of matrix multiplication on a training step's shapes
    Matmul(bench_kernels::Arguments),
    /// Time every design of the kernels that take the most of a training step
    Kernels(bench_kernels::Arguments),
    /// Take a training step apart: each kernel's share of it, and what lies between the launches
    Train(Box<bench_train::Arguments>),
}

/// What all benches are told.
#[derive(clap::Args)]
pub struct CommonArguments {
    /// How rows are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Compare with the rows of this earlier report, the .json of --out or --format json
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// What times are taken by: the adapter's own clock where it can be believed, or the host's in any case
    #[arg(long, value_enum, default_value_t = ClockChoice::Auto)]
    pub clock: ClockChoice,
    /// Seconds of samples a row at most, once it has ten; it ends before where its interval is narrow
    #[arg(long, default_value_t = Limits::default().seconds, value_name = "S", value_parser = positive)]
    pub seconds: f64,
    /// Half the width of a 95% interval at which a row is done, in percent
    #[arg(long, default_value_t = 100.0 * Limits::default().spread, value_name = "P", value_parser = positive)]
    pub precision: f64,
}

/// `--format`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Csv,
    Json,
}

/// `--clock`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockChoice {
    Auto,
    Wall,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("a number above 0 is needed".into()),
    }
}

impl CommonArguments {
    pub fn limits(&self) -> Limits {
        let timestamps = self.clock == ClockChoice::Auto;
        Limits { seconds: self.seconds, spread: self.precision / 100.0, timestamps, ..Limits::default() }
    }
}

/// What `--out` is for, wherever it is declared.
pub const OUT_HELP: &str = "Also write the rows as they come, as bench-NAME.json and bench-NAME.csv in this directory";

/// What `bench train` has among its settings.
#[derive(clap::Args)]
pub struct PlaceArguments {
    #[arg(long, value_name = "DIR", help = OUT_HELP)]
    pub out: Option<PathBuf>,
    /// The seed of inputs and of the order of the samples
    #[arg(long, default_value_t = 1337, value_name = "N")]
    pub seed: u64,
    #[command(flatten)]
    pub device: DeviceArgument,
}

impl PlaceArguments {
    /// Device, seed and directory.
    pub fn of_run(&self) -> (&Choice, u64, Option<&Path>) {
        (&self.device.device, self.seed, self.out.as_deref())
    }
}

pub async fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    match arguments.bench {
        Bench::Attention(arguments) => bench_attention::run(arguments).await,
        Bench::Matmul(arguments) => bench_kernels::run(arguments, "matmul").await,
        Bench::Kernels(arguments) => bench_kernels::run(arguments, "kernels").await,
        Bench::Train(arguments) => bench_train::run(*arguments).await,
    }
}
