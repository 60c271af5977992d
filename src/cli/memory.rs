//! `headlight memory`: what training a model takes, at which context length, with which attention.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{anyhow, bail};

use super::byte_size::ByteSize;
use super::contexts::Contexts;
use super::device::{DeviceArgument, describe, open};
use super::memory_ledger;
use super::memory_report::{self, Column, Fits, Row};
use super::output::put;
use super::{Outcome, resident, sandbox};
use crate::atomic::write_file;
use crate::data::tokenizer::TokenKind;
use crate::gpu::{AdapterKind, Gpu, Profile};
use crate::graph::Recompute;
use crate::script::Tracer;
use crate::tape::available_for;
use crate::train::Preset;
use crate::train::attention_choice::{AttentionChoice, AttentionKind, UnknownAttention};
use crate::train::longest::longest;
use crate::train::memory::{Binding, Footprint, MemoryLimit, measure};
use crate::train::run::new_model;
use crate::train::settings::{Settings, SettingsOverride};
use crate::train::text::vocabulary_size;
use crate::train::trainer::program_spec;

/// The longest context that is looked at.
const MOST: usize = 1 << 20;

#[derive(clap::Args)]
pub struct Arguments {
    /// The model and its text: a named set of settings, of which the flags below change single ones
    #[arg(long, value_enum, default_value_t = Preset::Nano)]
    preset: Preset,
    /// Context lengths: a list, or doubled from one to another as 256..8192; the preset's where none is given
    #[arg(long, value_name = "T,T,..|A..B")]
    contexts: Option<Contexts>,
    /// Windows of text a micro-batch
    #[arg(long)]
    batch: Option<usize>,
    /// Micro-batches an optimizer step
    #[arg(long)]
    accumulation: Option<usize>,
    /// Transformer blocks
    #[arg(long)]
    layers: Option<usize>,
    /// Attention heads a block; they divide the width
    #[arg(long)]
    heads: Option<usize>,
    /// Width of the residual stream
    #[arg(long)]
    width: Option<usize>,
    /// The text whose vocabulary the model has
    #[arg(long, num_args = 1.., value_name = "FILE|builtin:NAME")]
    data: Option<Vec<String>>,
    /// What a token is: every character, or every word
    #[arg(long, value_enum)]
    tokens: Option<TokenKind>,
    /// Which attention: naive, fused, both beside each other, or both forms of a function of your own
    #[arg(long, default_value = "both", value_name = "naive|fused|both|FILE.star|builtin:NAME")]
    attention: Attentions,
    /// What the backward pass computes again instead of keeping it
    #[arg(long, value_enum, default_value_t = Recompute::None)]
    recompute: Recompute,
    /// Run one step of each, and hold what was really made against the prediction
    #[arg(long)]
    measure: bool,
    /// Print every buffer and every value in it: shape, bytes, first and last launch
    #[arg(long)]
    ledger: bool,
    /// Memory that a run may take, such as 2GiB; what the host has available where the adapter is a software adapter
    #[arg(long, value_name = "BYTES")]
    memory_limit: Option<ByteSize>,
    /// Also write the rows, as memory.json and memory.csv
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgument,
}

/// `--attention`: what stands beside each other.
#[derive(Clone, Debug, PartialEq)]
struct Attentions(Vec<AttentionChoice>);

impl FromStr for Attentions {
    type Err = UnknownAttention;

    fn from_str(text: &str) -> Result<Self, UnknownAttention> {
        let both = |file: Option<String>| {
            [AttentionKind::Naive, AttentionKind::Fused].map(|kind| AttentionChoice { file: file.clone(), kind })
        };
        if text == "both" {
            return Ok(Self(both(None).into()));
        }
        let choice: AttentionChoice = text.parse()?;
        Ok(match (&choice.file, choice.kind) {
            (Some(_), AttentionKind::Fused) => Self(both(choice.file).into()),
            _ => Self(vec![choice]),
        })
    }
}

impl fmt::Display for Attentions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choices: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        formatter.write_str(&choices.join(" and "))
    }
}

/// What all rows share.
struct Sweep {
    settings: Settings,
    vocabulary_size: usize,
    gpu: Option<Arc<Gpu>>,
    tracer: Arc<dyn Tracer>,
    limit: Option<MemoryLimit>,
}

impl Sweep {
    fn settings(&self, context_length: usize, attention: &AttentionChoice) -> Settings {
        Settings { context_length, attention: attention.clone(), ..self.settings.clone() }
    }

    fn profile(&self) -> Option<&Profile> {
        self.gpu.as_ref().map(|gpu| &gpu.profile)
    }

    fn predict(&self, context_length: usize, attention: &AttentionChoice) -> anyhow::Result<Footprint> {
        let settings = self.settings(context_length, attention);
        let config = new_model(&settings, self.vocabulary_size, &self.tracer)?;
        Ok(Footprint::predict(&program_spec(&settings, config), self.profile())?)
    }

    fn binding(&self, footprint: &Footprint) -> Binding {
        footprint.binding(self.limit)
    }

    /// The largest context that fits, and why the next does not.
    fn fits(&self, attention: &AttentionChoice) -> Fits {
        let Ok((largest, refusal)) = longest(MOST as u64, |context_length| {
            let footprint = self.predict(context_length as usize, attention);
            Ok::<_, Infallible>(match footprint.map(|footprint| self.binding(&footprint)) {
                Ok(Binding::Refused(refusal)) => Some(refusal.to_string()),
                Ok(Binding::Whole | Binding::Windows { .. }) => None,
                Err(error) => Some(error.to_string()),
            })
        });
        let next = refusal.map(|reason| (largest + 1, reason));
        Fits { attention: attention.to_string(), largest: (largest > 0).then_some(largest), next }
    }

    /// Runs a step, and says what it took.
    async fn measure(&self, context_length: usize, attention: &AttentionChoice) -> anyhow::Result<(u64, Option<u64>)> {
        let settings = self.settings(context_length, attention);
        let config = new_model(&settings, self.vocabulary_size, &self.tracer)?;
        resident::forget_peak();
        let measured = measure(self.gpu.as_ref(), &settings, config).await?;
        // On hardware the buffers lie elsewhere.
        let is_hosted = self.profile().is_none_or(|profile| profile.kind == AdapterKind::Software);
        Ok((measured.bytes, if is_hosted { resident::peak_bytes() } else { None }))
    }
}

pub async fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let flags = SettingsOverride {
        preset: Some(arguments.preset),
        data: arguments.data,
        tokens: arguments.tokens,
        batch: arguments.batch,
        accumulation: arguments.accumulation,
        layers: arguments.layers,
        heads: arguments.heads,
        width: arguments.width,
        recompute: Some(arguments.recompute),
        ..SettingsOverride::default()
    };
    let settings = Settings::resolve(SettingsOverride::default(), flags);
    let contexts = arguments.contexts.map_or(vec![settings.context_length], |contexts| contexts.0);
    for &context_length in &contexts {
        if context_length > MOST {
            bail!("--contexts names {context_length}: the longest is {MOST}");
        }
        Settings { context_length, ..settings.clone() }.validate()?;
    }
    let out = arguments.out.as_deref().map(memory_report::Files::create).transpose()?;
    let vocabulary_size = vocabulary_size(&settings)?;
    let (gpu, line) = open(&arguments.device.device).await?;
    let limit = match arguments.memory_limit {
        Some(ByteSize(bytes)) => Some(MemoryLimit { bytes, source: "by --memory-limit" }),
        None => available_for(gpu.as_ref().map(|gpu| &gpu.profile))
            .map(|bytes| MemoryLimit { bytes, source: "available on this host" }),
    };
    let sweep = Sweep { settings, vocabulary_size, gpu, tracer: sandbox::tracer(), limit };
    put(memory_report::heading(&sweep.settings, vocabulary_size, &line, sweep.profile(), limit))?;

    let attentions = arguments.attention.0;
    let mut rows: Vec<Row> = Vec::new();
    let mut differs = Vec::new();
    for &context_length in &contexts {
        let mut row = Row { context_length, columns: Vec::new() };
        for attention in &attentions {
            let footprint = sweep.predict(context_length, attention)?;
            let binding = sweep.binding(&footprint);
            let mut column = Column::new(attention.to_string(), &footprint, binding);
            if arguments.measure && !matches!(column.binding, Binding::Refused(_)) {
                let (bytes, peak) = sweep.measure(context_length, attention).await?;
                if column.total != Some(bytes) {
                    differs.push(format!(
                        "at T={context_length}, {attention}, {} bytes were predicted and {bytes} made",
                        column.total.unwrap_or(u64::MAX)
                    ));
                }
                (column.measured, column.peak_resident) = (Some(bytes), peak);
            }
            if arguments.ledger {
                put(memory_ledger::print(context_length, &column.attention, &footprint))?;
            }
            row.columns.push(column);
        }
        put(memory_report::row(&row))?;
        rows.push(row);
    }
    let fits: Vec<Fits> = attentions.iter().map(|attention| sweep.fits(attention)).collect();
    put(memory_report::ending(&rows, &fits))?;
    if let Some(files) = out {
        let adapter = sweep.profile().map_or_else(|| "CPU executor".to_string(), describe);
        write_file(
            &files.json,
            memory_report::json(&sweep.settings, vocabulary_size, &adapter, &rows, &fits).as_bytes(),
        )?;
        write_file(&files.csv, memory_report::csv(&rows).as_bytes())?;
        put(format_args!("{} and {} hold the rows", files.json.display(), files.csv.display()))?;
    }
    match differs.first() {
        None => Ok(Outcome::Fine),
        Some(first) => Err(anyhow!("{first}: the ledger is wrong")),
    }
}
