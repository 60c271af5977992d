//! `headlight op`: one op on a user's own tensors.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::ValueEnum;

use super::Outcome;
use super::device::PrecisionArgument;
use super::output::{say, warn};
use super::tensor_files;
use crate::graph::EvaluationError;
use crate::model::tensor_file::Precision;
use crate::op::{AttentionForm, NamedTensor, OPS, OpError, OpOptions, Tensors, find};
use crate::tape::TapeError;

#[derive(clap::Args)]
#[command(after_help = list())]
pub struct Arguments {
    /// The op: see the list below
    name: String,
    /// The file with its tensors
    #[arg(long = "in", value_name = "X.safetensors")]
    input: PathBuf,
    /// Where the results go; the op's gradients too, where the gradient of its output is among the tensors
    #[arg(long = "out", value_name = "Y.safetensors")]
    output: PathBuf,
    #[command(flatten)]
    run_on: PrecisionArgument,
    /// sdpa: query i sees key j only if j <= i + Tk - Tq
    #[arg(long)]
    causal: bool,
    /// sdpa: multiplies the scores [default: 1/sqrt(D)]
    #[arg(long, allow_negative_numbers = true, value_name = "X")]
    scale: Option<f64>,
    /// sdpa: one kernel, or scores, mask, softmax and product one after the other [default: fused]
    #[arg(long, value_enum)]
    kernel: Option<Kernel>,
    /// layernorm [default: 1e-5], adamw [default: 1e-8]
    #[arg(long, allow_negative_numbers = true, value_name = "X")]
    epsilon: Option<f64>,
    /// adamw: one rate, or one a step, joined by commas [default: 1e-3]
    #[arg(long, value_delimiter = ',', allow_negative_numbers = true, value_name = "X,..")]
    learning_rate: Vec<f64>,
    /// adamw [default: 0.9,0.95]
    #[arg(long, value_parser = pair, value_name = "X,X")]
    betas: Option<[f64; 2]>,
    /// adamw: for tensors of two or more dimensions [default: 0.1]
    #[arg(long, allow_negative_numbers = true, value_name = "X")]
    weight_decay: Option<f64>,
    /// adamw: the largest norm of all gradients together, 0 for none [default: 0]
    #[arg(long, allow_negative_numbers = true, value_name = "X")]
    clip: Option<f64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kernel {
    Fused,
    Naive,
}

/// Two numbers joined by a comma.
fn pair(text: &str) -> Result<[f64; 2], String> {
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    let numbers = numbers.ok().and_then(|numbers| numbers.try_into().ok());
    numbers.ok_or_else(|| "two numbers joined by a comma are needed, as in 0.9,0.95".into())
}

/// Every op with its formula and tensors.
fn list() -> String {
    let mut text = String::from("Ops:\n");
    for op in OPS {
        let named = |tensor: &NamedTensor| match tensor {
            NamedTensor::Real(name) | NamedTensor::Ids { name, .. } => name.to_string(),
            NamedTensor::Optional(name) | NamedTensor::Gradient(name) => format!("[{name}]"),
        };
        let takes = match op.tensors {
            [] => "p0.NAME, g.NAME".to_string(),
            tensors => tensors.iter().map(named).collect::<Vec<_>>().join(", "),
        };
        let _ = writeln!(text, "  {:<14} {}", op.name, op.formula);
        let _ = writeln!(text, "  {:<14} takes {takes}; gives {}", "", op.gives);
    }
    text
}

impl Arguments {
    fn options(&self) -> OpOptions {
        OpOptions {
            causal: self.causal,
            scale: self.scale,
            kernel: self.kernel.map(|kernel| match kernel {
                Kernel::Fused => AttentionForm::Fused,
                Kernel::Naive => AttentionForm::Naive,
            }),
            epsilon: self.epsilon,
            learning_rates: self.learning_rate.clone(),
            betas: self.betas,
            weight_decay: self.weight_decay,
            clip: self.clip,
        }
    }
}

/// Queries that see no key, whose log-sum-exp is rightly -inf: with a causal mask the first `Tq - Tk` of each head.
fn unseen_queries(inputs: &Tensors, causal: bool) -> usize {
    match (inputs.get("q").map(|q| &q.shape[..]), inputs.get("k").map(|k| &k.shape[..])) {
        (Some(&[batch, heads, queries, _]), Some(&[_, _, keys, _])) if causal => {
            batch * heads * queries.saturating_sub(keys)
        }
        _ => 0,
    }
}

/// What an adapter cannot run, the twins can.
fn with_way_on(error: OpError) -> anyhow::Error {
    match error {
        OpError::Evaluation(EvaluationError::Tape(TapeError::Launch { .. })) => {
            anyhow!("{error}; --device cpu has no such limit")
        }
        error => error.into(),
    }
}

pub async fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let op = find(&arguments.name)?;
    let inputs = tensor_files::read(&arguments.input)?;
    let place = tensor_files::writable(&arguments.output, Some(&arguments.input))?;
    let (run_on, precision, line) = arguments.run_on.open().await?;
    warn(line);
    let outputs = op.run(&inputs, &arguments.options(), &run_on).await.map_err(with_way_on)?;
    for (name, tensor) in &outputs {
        let unseen = if name == "lse" { unseen_queries(&inputs, arguments.causal) } else { 0 };
        let lost: Vec<&f64> = tensor.values().iter().filter(|value| !value.is_finite()).collect();
        if lost.len() > unseen {
            let (count, all) = (lost.len() - unseen, tensor.len());
            let wider = if precision == Precision::F32 { "; --dtype f64 may hold it" } else { "" };
            warn(format_args!("note: {count} of {all} elements of {name} are not finite: something overflowed{wider}"));
        }
    }
    tensor_files::write(&place, &outputs, precision)?;
    let described: Vec<String> = outputs.iter().map(|(name, tensor)| tensor_files::described(name, tensor)).collect();
    say(format_args!("{}: {} written to {}", op.name, described.join(", "), arguments.output.display()));
    Ok(Outcome::Fine)
}
