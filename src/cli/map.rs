//! `headlight map`: which tokens the heads of a model look at.

use std::path::PathBuf;

use super::device::{DeviceArgument, open};
use super::map_file::MapFile;
use super::map_model::{Looking, MapModel};
use super::map_views::{Shown, View};
use super::model_text::ModelText;
use super::output::{put, warn};
use super::{Outcome, environment, map_ablate};
use crate::maps::picture::{Room, Scale, Theme, terminal, title};
use crate::maps::{HeadChoice, Panel, Pattern, first_row};
use crate::tape::RunOn;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    read: ModelText,
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
    /// A second text, beside the first, and the weights of the second less those of the first
    #[arg(long, value_name = "TEXT2", allow_hyphen_values = true, group = "beside")]
    against: Option<String>,
    /// A second model over the same text, and its weights less those of the first
    #[arg(long, value_name = "DIR2", group = "beside")]
    compare: Option<PathBuf>,
    /// The gradient of the text's loss on the weights, beside them
    #[arg(long, group = "beside")]
    gradients: bool,
    /// The same heads over the steps of a run that was trained with --keep-checkpoints
    #[arg(long, group = "beside")]
    steps: bool,
    /// No map, but what setting a head's output to 0 does to the loss of the text and to the prediction behind it; --out
    /// takes a .json then
    #[arg(long, value_name = "L.H|all", value_parser = map_ablate::heads)]
    #[arg(conflicts_with_all = ["layer", "head", "find", "refers", "beside", "scale", "theme"])]
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
    if let (Some(file), Some(_)) = (&file, arguments.ablate) {
        file.json_only("what --ablate measures")?;
    }
    let view = match &arguments {
        Arguments { against: Some(text), .. } => View::Against(text),
        Arguments { compare: Some(path), .. } => View::compare(path)?,
        Arguments { gradients: true, .. } => View::Gradients,
        Arguments { steps: true, .. } => View::steps(&arguments.read.model)?,
        _ => View::Alone,
    };
    // What can be wrong with the files is said before a device is asked for.
    let model = MapModel::open(&arguments.read.model)?;
    let tokens = model.tokenizer.encode(&arguments.read.text)?;
    let (gpu, line) = open(&arguments.device.device).await?;
    warn(line);
    let run_on = gpu.map_or(RunOn::Cpu, RunOn::Gpu);
    if let Some(heads) = arguments.ablate {
        let (config, parameters) = (&model.checkpoint.config, model.checkpoint.tensors());
        return map_ablate::run(config, &parameters, (&model.tokenizer, &tokens), heads, (file.as_ref(), &run_on))
            .await;
    }
    let looking = Looking {
        choice: HeadChoice { layer: arguments.layer, head: arguments.head },
        refers: Some(arguments.refers.clone()).filter(|refers| !refers.is_empty()),
        find: arguments.find,
        run_on,
    };
    let shown = view.look(&looking, &model, (&arguments.read.model, &arguments.read.text)).await?;
    show(&arguments, file, &shown)
}

/// Writes the file, or draws a map on the terminal; the sentences are printed either way.
fn show(arguments: &Arguments, file: Option<MapFile>, Shown { panels, notes }: &Shown) -> anyhow::Result<Outcome> {
    let mut printed = Vec::new();
    let written = match file {
        _ if panels.is_empty() => None,
        Some(file) => Some(file.write(panels, notes, (arguments.scale, arguments.theme))?),
        None => {
            let columns = terminal_size::terminal_size().map_or(COLUMNS, |(width, _)| width.0.into());
            let theme = arguments.theme.unwrap_or(Theme::Dark);
            let room = Room { columns, ink: environment::ink(), theme };
            printed.extend(first_row(panels).map(|row| terminal(panels, row, arguments.scale, room)));
            None
        }
    };
    printed.extend(notes.iter().cloned());
    printed.extend(written.map(|path| format!("{} written to {}", described(panels), path.display())));
    let missed = arguments.out.as_ref().filter(|_| panels.is_empty());
    printed.extend(missed.map(|path| format!("{} is not written: nothing was found", path.display())));
    put(printed.join("\n"))?;
    Ok(if missed.is_some() { Outcome::CheckFailed } else { Outcome::Fine })
}

fn described(panels: &[Panel]) -> String {
    let heads = panels.first().map_or(0, |panel| panel.maps.maps.len());
    let heads = match heads {
        1 => title(panels, 0),
        heads => format!("{heads} heads"),
    };
    match panels {
        [_] => heads,
        panels => format!("{heads} in {} panels", panels.len()),
    }
}
