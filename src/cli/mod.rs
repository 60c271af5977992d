//! The command line: arguments, what is printed, exit codes. All the work is done below.

mod attention;
mod bench;
mod bench_attention;
mod bench_kernels;
mod bench_session;
mod bench_table;
mod bench_train;
mod byte_size;
mod check;
mod check_leak;
mod check_report;
mod columns;
mod compare;
mod compare_chart;
mod compare_files;
mod compare_table;
mod contexts;
mod csv;
mod device;
mod environment;
mod faults;
mod generate;
mod info;
mod interrupt;
mod logits;
mod map;
mod map_ablate;
mod map_file;
mod map_model;
mod map_views;
mod memory;
mod memory_ledger;
mod memory_limit;
mod memory_report;
mod model_text;
mod op;
mod output;
mod parity;
mod parity_golden;
mod parity_mutants;
mod parity_report;
mod parity_step;
mod progress;
mod resident;
mod sandbox;
mod shell;
mod tensor_files;
mod trace;
mod train;
mod way_on;

use std::process::ExitCode;

pub use memory_limit::LimitedAllocator;

use anyhow::bail;
use clap::{Parser, Subcommand};

/// Train small GPTs on hand-written WGSL kernels, each checked element by element against a CPU reference.
#[derive(Parser)]
#[command(name = "headlight", version, arg_required_else_help = true)]
pub struct Arguments {
    /// More detail on standard error (-v, -vv); HEADLIGHT_LOG takes tracing filters
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a GPT and write samples, a loss curve, metrics and checkpoints
    Train(Box<train::Arguments>),
    /// Print an attention file to edit, or list the files and the ops there are
    Attention(attention::Arguments),
    /// Continue a prompt with a trained model
    Generate(generate::Arguments),
    /// Check every kernel, design and case against its CPU twin, element by element
    Parity(parity::Arguments),
    /// Check an attention file against the closed form, and say what is wrong with it
    Check(check::Arguments),
    /// Run one op on tensors from a file, forward and backward, to compare with NumPy or PyTorch
    Op(op::Arguments),
    /// Write down what a model computes for a text: logits, losses, attention weights, gradients
    Trace(trace::Arguments),
    /// Show which tokens each head of a model looks at in a text, and say what stands out
    Map(map::Arguments),
    /// What a model expects next at each position of a text, and the loss of each token
    Logits(logits::Arguments),
    /// What training takes in memory, by context length: every buffer, naive and fused, predicted and measured
    Memory(memory::Arguments),
    /// Naive and fused attention side by side: memory, time and results at each context length
    Compare(compare::Arguments),
    /// Time attention, kernels and training steps on this adapter
    Bench(bench::Arguments),
    /// List the adapters, and say which one is used and why
    Info(info::Arguments),
    /// Print a completion script for a shell
    Completions(shell::Completions),
    /// Print the manual page, or write one page a command into a directory
    Man(shell::Man),
    /// Trace an attention file: a request on standard input, the answer on standard output
    #[command(hide = true, name = sandbox::COMMAND)]
    TraceAttention,
}

/// How a command ended, short of an error.
pub enum Outcome {
    Fine,
    /// A check did not hold.
    CheckFailed,
    /// The user interrupted it.
    Interrupted,
}

/// The longest line of an error: room for every setting with two values, and an end to what a file can make of it.
const ERROR_LIMIT: usize = 4000;

/// Runs the program: 0 fine, 1 a check failed, 2 wrong usage or input, 130 interrupted.
pub fn main() -> ExitCode {
    environment::quiet_device_selection();
    let arguments = Arguments::parse();
    start_tracing(arguments.verbose);
    let outcome = pollster::block_on(async {
        let faults = environment::planted_faults()?;
        match arguments.command {
            Command::Train(arguments) => train::run(*arguments, faults).await,
            Command::TraceAttention => sandbox::run().map(|()| Outcome::Fine),
            _ if !faults.is_empty() => bail!("{faults}: faults are planted in headlight train only"),
            Command::Attention(arguments) => attention::run(&arguments),
            Command::Generate(arguments) => generate::run(arguments).await,
            Command::Parity(arguments) => parity::run(arguments).await,
            Command::Check(arguments) => check::run(arguments).await,
            Command::Op(arguments) => op::run(arguments).await,
            Command::Trace(arguments) => trace::run(arguments).await,
            Command::Map(arguments) => map::run(arguments).await,
            Command::Logits(arguments) => logits::run(arguments).await,
            Command::Memory(arguments) => memory::run(arguments).await,
            Command::Compare(arguments) => compare::run(arguments).await,
            Command::Bench(arguments) => bench::run(arguments).await,
            Command::Info(arguments) => info::run(arguments).await,
            Command::Completions(arguments) => shell::completions(&arguments),
            Command::Man(arguments) => shell::man(&arguments),
        }
    });
    match outcome {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::CheckFailed) => ExitCode::from(1),
        Ok(Outcome::Interrupted) => ExitCode::from(130),
        // A reader that closed the pipe has read what it wanted.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::warn(format_args!("error: {}", output::printable_lines(&error.to_string(), ERROR_LIMIT)));
            ExitCode::from(2)
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

fn start_tracing(verbose: u8) {
    let level = match verbose {
        0 => "headlight=warn,error",
        1 => "headlight=debug,warn",
        _ => "trace",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env("HEADLIGHT_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().init();
}
