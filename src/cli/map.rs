//! `headlight map`: which tokens the heads of a model look at.

use std::path::PathBuf;

use anyhow::anyhow;

use super::device::{DeviceArgument, open};
use super::map_file::MapFile;
use super::model_text::tokenizer;
use super::output::{say, warn};
use super::sandbox::tracer;
use super::{Outcome, environment, map_ablate};
use crate::data::tokenizer::Tokenizer;
use crate::maps::picture::{Room, Scale, Theme, name, terminal};
use crate::maps::{
    HeadChoice, HeadMeasures, Maps, Pattern, Reference, attention_maps, find, measure, outstanding, sentences,
};
use crate::model::checkpoint::{Checkpoint, resolve_model};
use crate::tape::RunOn;

#[derive(clap::Args)]
pub struct Arguments {
    /// A model directory, or a run directory (its best model is taken)
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// The text to look at
    #[arg(long, allow_hyphen_values = true)]
    text: String,
    /// Only this layer, counted from 0
    #[arg(long, value_name = "L")]
    layer: Option<usize>,
    /// Only this head, counted from 0
    #[arg(long, value_name = "H")]
    head: Option<usize>,
    /// The head that does this most: previous, sink, delimiters, diagonal, induction, same-token, coreference,
    /// upper-triangle or entropy
    #[arg(long, value_name = "KIND", value_parser = pattern)]
    find: Option<Pattern>,
    /// For coreference: a token, what it refers to, and what it might refer to but does not; tokens or their positions
    #[arg(long, value_name = "QUERY:KEY[:OTHER]", allow_hyphen_values = true)]
    refers: Vec<String>,
    /// No map, but what setting a head's output to 0 does to the loss of the text and to the prediction behind it
    #[arg(long, value_name = "L.H|all", value_parser = map_ablate::heads)]
    #[arg(conflicts_with_all = ["layer", "head", "find", "refers", "out", "scale", "theme"])]
    ablate: Option<HeadChoice>,
    /// Where the picture or the weights go: .png, .svg, .html, .json or .safetensors
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// What the brightest cell stands for: a weight of 1, or the largest of each row
    #[arg(long, value_enum, default_value_t = Scale::Fixed)]
    scale: Scale,
    /// What the picture is drawn on; a terminal is taken to be dark, SVG and HTML follow their reader
    #[arg(long, value_enum)]
    theme: Option<Theme>,
    #[command(flatten)]
    device: DeviceArgument,
}

fn pattern(name: &str) -> Result<Pattern, String> {
    let known = || Pattern::ALL.map(Pattern::name).join(", ");
    Pattern::named(name).ok_or_else(|| format!("there is no such kind; there are {}", known()))
}

/// Columns of what is no terminal.
const COLUMNS: usize = 120;

pub async fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let file = arguments.out.as_deref().map(MapFile::named).transpose()?;
    let directory = resolve_model(&arguments.model)?;
    let checkpoint = Checkpoint::read(&directory, &tracer())?;
    let tokenizer = tokenizer(&directory, &checkpoint)?;
    let tokens = tokenizer.encode(&arguments.text)?;
    let config = &checkpoint.config;
    let text = |id: u32| tokenizer.token(id).unwrap_or("\u{fffd}").to_string();
    let references = references(&arguments.refers, &tokenizer, &tokens, text)?;

    let (gpu, line) = open(&arguments.device.device).await?;
    warn(line);
    let run_on = gpu.map_or(RunOn::Cpu, RunOn::Gpu);
    let parameters = checkpoint.tensors();
    if let Some(heads) = arguments.ablate {
        return map_ablate::run(config, &parameters, (&tokenizer, &tokens), heads, &run_on).await;
    }
    let choice = HeadChoice { layer: arguments.layer, head: arguments.head };
    let mut maps = attention_maps(config, &parameters, (&tokens, text), choice, &run_on).await?;
    let mut measured = measure(&maps, &references);
    let mut notes = sentences(&maps, &measured);
    if let Some(pattern) = arguments.find {
        let finding = find(pattern, &measured);
        notes = vec![format!("{}: {}", pattern.name(), finding.sentence())];
        let Some((layer, head)) = finding.best.filter(|_| finding.heads > 0).map(|(head, _)| (head.layer, head.head))
        else {
            notes.iter().for_each(say);
            return Ok(Outcome::Fine);
        };
        maps.maps.retain(|map| (map.layer, map.head) == (layer, head));
        measured.retain(|own| (own.layer, own.head) == (layer, head));
    }
    show(&arguments, file, &maps, &measured, &notes)
}

/// What coreference is measured on: the pairs that were given, or those of a built-in story.
fn references(
    given: &[String],
    tokenizer: &Tokenizer,
    tokens: &[u32],
    text: impl Fn(u32) -> String,
) -> anyhow::Result<Vec<Reference>> {
    if given.is_empty() {
        return Ok(Reference::of_stories(tokenizer, tokens));
    }
    let texts: Vec<String> = tokens.iter().map(|&id| text(id)).collect();
    given.iter().map(|pair| Reference::parse(pair, &texts).map_err(|fault| anyhow!("--refers: {fault}"))).collect()
}

/// Writes the file, or draws a map on the terminal; the sentences are printed either way.
fn show(
    arguments: &Arguments,
    file: Option<MapFile>,
    maps: &Maps,
    measured: &[HeadMeasures],
    notes: &[String],
) -> anyhow::Result<Outcome> {
    let written = match file {
        Some(file) => Some(file.write(maps, measured, notes, (arguments.scale, arguments.theme))?),
        None => {
            let columns = terminal_size::terminal_size().map_or(COLUMNS, |(width, _)| width.0.into());
            let theme = arguments.theme.unwrap_or(Theme::Dark);
            let room = Room { columns, ink: environment::ink(), theme };
            if let Some(map) = outstanding(measured).and_then(|place| maps.maps.get(place)) {
                say(terminal(maps, map, arguments.scale, room));
            }
            None
        }
    };
    notes.iter().for_each(say);
    if let Some(path) = written {
        say(format_args!("{} written to {}", described(maps), path.display()));
    }
    Ok(Outcome::Fine)
}

fn described(maps: &Maps) -> String {
    match &maps.maps[..] {
        [map] => name(map),
        maps => format!("{} heads", maps.len()),
    }
}
