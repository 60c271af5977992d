//! `headlight logits`: what a model expects next at each position of a text, and what that cost it.

use std::fmt::Write as _;
use std::io::Write;

use clap::ValueEnum;
use serde::Serialize;

use super::Outcome;
use super::columns::columns;
use super::device::{DeviceArgument, open};
use super::model_text::{ModelText, encode, token_label, tokenizer};
use super::output::warn;
use super::sandbox::tracer;
use crate::data::tokenizer::Tokenizer;
use crate::maps::{Candidate, Prediction, predictions, text_loss};
use crate::model::checkpoint::{Checkpoint, resolve_model};
use crate::model::trace::{TraceRequest, next_tokens, trace};
use crate::tape::RunOn;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    read: ModelText,
    /// How many of the most likely next tokens to show at each position
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// A table to read, or JSON with every number in full
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    device: DeviceArgument,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    Table,
    Json,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let directory = resolve_model(&arguments.read.model)?;
    let checkpoint = Checkpoint::read(&directory, &tracer())?;
    let config = &checkpoint.config;
    let tokenizer = tokenizer(&directory, &checkpoint)?;
    let tokens = encode(&arguments.read.text, &tokenizer, config)?;
    let (gpu, line) = open(&arguments.device.device).await?;
    warn(line);
    let run_on = gpu.map_or(RunOn::Cpu, RunOn::Gpu);
    // At exactly the text's length: nothing stands behind it that an edited attention could look at.
    let shape = [1, tokens.len()];
    let targets = next_tokens(&tokens, tokens.len());
    let request = TraceRequest { fused: true, ..TraceRequest::default() };
    let traced = trace(config, &checkpoint.tensors(), (&tokens, shape), &targets, request, &run_on).await?;
    let logits = traced.iter().find(|(name, _)| name == "logits").map_or(&[][..], |(_, logits)| logits.values());
    let found = predictions(logits, &tokens, arguments.top as usize)?;
    let printed = match arguments.format {
        Format::Table => table(&tokenizer, &tokens, &found),
        Format::Json => serde_json::to_string_pretty(&report(&tokenizer, &tokens, &found))? + "\n",
    };
    std::io::stdout().write_all(printed.as_bytes())?;
    Ok(Outcome::Fine)
}

/// Which columns of the table hold numbers.
const NUMBERS: [bool; 7] = [true, false, false, true, true, true, false];

/// A row a position and, at the end, what the losses come to.
fn table(tokenizer: &Tokenizer, tokens: &[u32], predictions: &[Prediction]) -> String {
    let label = |token: u32| token_label(tokenizer, token);
    let mut rows = vec![["at", "token", "next", "loss", "probability", "rank", "most likely next"].map(String::from)];
    for (position, (&token, prediction)) in tokens.iter().zip(predictions).enumerate() {
        let [next, loss, probability, rank] = match prediction.following {
            Some(following) => [
                label(following.token),
                format!("{:.4}", following.loss),
                format!("{:.4}", following.probability),
                following.rank.to_string(),
            ],
            None => ["", "", "", ""].map(String::from),
        };
        let candidate = |candidate: &Candidate| format!("{} {:.4}", label(candidate.token), candidate.probability);
        let candidates: Vec<String> = prediction.candidates.iter().map(candidate).collect();
        rows.push([position.to_string(), label(token), next, loss, probability, rank, candidates.join("  ")]);
    }
    let mut printed = columns(&rows, NUMBERS);
    // Writing to a string cannot fail.
    let _ = match text_loss(predictions) {
        Some(loss) => writeln!(
            printed,
            "\nloss {:.4} over {} predicted tokens, {:.4} a token (nats); perplexity {:.2}",
            loss.sum,
            loss.tokens,
            loss.mean(),
            loss.perplexity()
        ),
        None => writeln!(printed, "\none token: there is nothing to predict, and no loss"),
    };
    printed
}

/// `--format json`
#[derive(Serialize)]
struct Report<'a> {
    positions: Vec<Position<'a>>,
    /// Tokens that were predicted: all but the first.
    predicted_tokens: usize,
    loss_sum: Option<f64>,
    loss_mean: Option<f64>,
    perplexity: Option<f64>,
}

#[derive(Serialize)]
struct Position<'a> {
    #[serde(flatten)]
    token: Named<'a>,
    next: Option<Next<'a>>,
    most_likely: Vec<Likely<'a>>,
}

/// A token; its text is `null` where the tokenizer has none for its id.
#[derive(Serialize)]
struct Named<'a> {
    id: u32,
    token: Option<&'a str>,
}

#[derive(Serialize)]
struct Next<'a> {
    #[serde(flatten)]
    token: Named<'a>,
    probability: f64,
    rank: usize,
    loss: f64,
}

#[derive(Serialize)]
struct Likely<'a> {
    #[serde(flatten)]
    token: Named<'a>,
    probability: f64,
}

fn report<'a>(tokenizer: &'a Tokenizer, tokens: &[u32], predictions: &[Prediction]) -> Report<'a> {
    let named = |id: u32| Named { id, token: tokenizer.token(id) };
    let positions = tokens.iter().zip(predictions).map(|(&token, prediction)| Position {
        token: named(token),
        next: prediction.following.map(|following| Next {
            token: named(following.token),
            probability: following.probability,
            rank: following.rank,
            loss: following.loss,
        }),
        most_likely: prediction
            .candidates
            .iter()
            .map(|candidate| Likely { token: named(candidate.token), probability: candidate.probability })
            .collect(),
    });
    let loss = text_loss(predictions);
    Report {
        positions: positions.collect(),
        predicted_tokens: loss.map_or(0, |loss| loss.tokens),
        loss_sum: loss.map(|loss| loss.sum),
        loss_mean: loss.map(|loss| loss.mean()),
        perplexity: loss.map(|loss| loss.perplexity()),
    }
}
