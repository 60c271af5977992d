//! `headlight trace`: what a model computes for a text, tensor by tensor.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};

use super::Outcome;
use super::device::PrecisionArgument;
use super::model_text::{encode, tokenizer};
use super::output::{say, warn};
use super::sandbox::tracer;
use super::tensor_files;
use crate::model::checkpoint::{Checkpoint, resolve_model};
use crate::model::trace::{TraceRequest, next_tokens, trace};
use crate::op::Tensors;
use crate::tape::{Contents, Tensor};

#[derive(clap::Args)]
pub struct Arguments {
    /// A model directory, or a run directory (its best model is taken)
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    #[command(flatten)]
    tokens: Tokens,
    /// Where the tensors go: logits, row_loss, loss, attn.L of every layer, and the tokens and targets
    #[arg(long, value_name = "Y.safetensors")]
    out: PathBuf,
    /// Also grad.NAME: the gradient of the mean loss for every parameter
    #[arg(long)]
    grads: bool,
    /// Also act.embed, act.L.resid_mid and act.L.resid_post: the residual stream
    #[arg(long)]
    activations: bool,
    #[command(flatten)]
    run_on: PrecisionArgument,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Tokens {
    /// The text to look at
    #[arg(long, allow_hyphen_values = true)]
    text: Option<String>,
    /// A file with `tokens` [B,T] and, if each position is not to predict the next token, `targets` [B,T]
    #[arg(long, value_name = "X.safetensors")]
    tokens: Option<PathBuf>,
}

/// Rows of tokens, and what they are to predict.
struct Batch {
    shape: [usize; 2],
    tokens: Vec<u32>,
    targets: Vec<u32>,
}

fn encoded(text: &str, directory: &Path, checkpoint: &Checkpoint) -> anyhow::Result<Batch> {
    let tokens = encode(text, &tokenizer(directory, checkpoint)?, &checkpoint.config)?;
    let shape = [1, tokens.len()];
    Ok(Batch { shape, targets: next_tokens(&tokens, tokens.len()), tokens })
}

fn read(path: &Path) -> anyhow::Result<Batch> {
    let mut given = tensor_files::read(path)?;
    let mut take = |name: &str| match given.remove(name) {
        None => Ok(None),
        Some(Tensor { shape, contents: Contents::Words(words) }) => Ok(Some((shape, words))),
        Some(_) => Err(anyhow!("{}: {name} holds numbers where integers are needed (I32, I64 or U32)", path.display())),
    };
    let tokens = take("tokens")?;
    let targets = take("targets")?;
    if let Some(extra) = given.keys().next() {
        bail!("{}: {} is neither tokens nor targets", path.display(), extra.escape_debug());
    }
    let Some((shape, tokens)) = tokens else { bail!("{}: tokens is missing", path.display()) };
    let Ok(shape) = <[usize; 2]>::try_from(&shape[..]) else {
        bail!("{}: tokens has shape {shape:?} where [B, T] is needed", path.display());
    };
    let targets = match targets {
        None => next_tokens(&tokens, shape[1]),
        Some((own, targets)) if own == shape => targets,
        Some((own, _)) => {
            bail!("{}: targets has shape {own:?} where that of tokens, {shape:?}, is needed", path.display())
        }
    };
    Ok(Batch { shape, tokens, targets })
}

pub async fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let directory = resolve_model(&arguments.model)?;
    let checkpoint = Checkpoint::read(&directory, &tracer())?;
    let config = &checkpoint.config;
    let batch = match (&arguments.tokens.text, &arguments.tokens.tokens) {
        (Some(text), _) => encoded(text, &directory, &checkpoint)?,
        (None, Some(path)) => read(path)?,
        (None, None) => bail!("one of --text and --tokens is needed"),
    };
    let place = tensor_files::writable(&arguments.out, arguments.tokens.tokens.as_deref())?;
    let (run_on, precision, line) = arguments.run_on.open().await?;
    warn(line);
    let parameters = checkpoint.tensors();
    let request =
        TraceRequest { attention: true, activations: arguments.activations, gradients: arguments.grads, fused: false };
    let traced = trace(config, &parameters, (&batch.tokens, batch.shape), &batch.targets, request, &run_on).await?;
    let mut outputs: Tensors = traced.into_iter().collect();
    let counted = batch.targets.iter().filter(|&&target| target != u32::MAX).count();
    let loss = outputs.get("loss").and_then(|loss| loss.values().first().copied()).unwrap_or(f64::NAN);
    outputs.insert("tokens".into(), Tensor::words(batch.shape, batch.tokens));
    outputs.insert("targets".into(), Tensor::words(batch.shape, batch.targets));
    tensor_files::write(&place, &outputs, precision)?;
    match counted {
        0 => say("there is no target to predict: the loss says nothing"),
        _ => say(format_args!("loss {loss:.4} over {counted} targets")),
    }
    let gradients = outputs.keys().filter(|name| name.starts_with("grad.")).count();
    let mut described: Vec<String> = outputs
        .iter()
        .filter(|(name, _)| !name.starts_with("grad."))
        .map(|(name, tensor)| tensor_files::described(name, tensor))
        .collect();
    if gradients > 0 {
        described.push(format!("{gradients} gradients grad.NAME"));
    }
    say(format_args!("{} written to {}", described.join(", "), arguments.out.display()));
    Ok(Outcome::Fine)
}
