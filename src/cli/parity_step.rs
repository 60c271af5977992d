//! `headlight parity --step` and `--bisect`: a whole training step on the adapter and on the CPU executor.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::Outcome;
use super::device::{DeviceArgument, open};
use super::parity::report_file;
use crate::check::bisect::{BisectResult, Drift};
use crate::check::step::{GRADIENT_NORM_TOLERANCE, GRADIENT_TOLERANCE, GradientResult, LOSS_TOLERANCE, LossResult};
use crate::check::{Element, LaunchName, LaunchResult, TrainingStep};
use crate::data::tokenizer::TokenKind;
use crate::gpu::Pipelines;
use crate::model::initialisation::{PositionInit, QueryKeyInit};
use crate::tape::{PlantedFault, Tape};
use crate::train::Preset;
use crate::train::attention_choice::AttentionKind;
use crate::train::settings::{Settings, SettingsOverride};
use crate::train::text::TrainingText;

/// What of `headlight parity` belongs to whole steps.
#[derive(clap::Args)]
#[command(next_help_heading = "Whole steps", group = clap::ArgGroup::new("whole").multiple(true))]
pub struct StepArguments {
    /// Compare a whole training step in the place of single kernels: each launch, the gradients, the loss after --steps
    #[arg(long, group = "whole", conflicts_with_all = ["filter", "designs", "golden", "mutants", "report"])]
    step: bool,
    /// Name the first launch of a training step whose results are not what its inputs give
    #[arg(long, group = "whole", conflicts_with_all = ["filter", "designs", "golden", "mutants", "report"])]
    bisect: bool,
    /// How attention is computed
    #[arg(long, requires = "whole", value_enum, default_value_t = Attention::Both)]
    attention: Attention,
    /// Optimizer steps after which the losses must still agree
    #[arg(long, requires = "step", value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// The named set of settings to start from: tiny, unless another is named
    #[arg(long, requires = "whole")]
    preset: Option<Preset>,
    /// UTF-8 text files, read one after the other, or one of the built-in corpora as builtin:NAME
    #[arg(long, requires = "whole", num_args = 1.., value_name = "FILE|builtin:NAME")]
    data: Option<Vec<String>>,
    /// What a token is: every character, or every word
    #[arg(long, requires = "whole")]
    tokens: Option<TokenKind>,
    /// Bytes of text that a built-in corpus makes
    #[arg(long, requires = "whole")]
    corpus_bytes: Option<u64>,
    /// Transformer blocks
    #[arg(long, requires = "whole")]
    layers: Option<usize>,
    /// Attention heads a block; they divide the width
    #[arg(long, requires = "whole")]
    heads: Option<usize>,
    /// Width of the residual stream
    #[arg(long, requires = "whole")]
    width: Option<usize>,
    /// The most tokens the model sees at once
    #[arg(long, requires = "whole")]
    context_length: Option<usize>,
    /// Windows of text a micro-batch
    #[arg(long, requires = "whole")]
    batch: Option<usize>,
    /// Micro-batches an optimizer step
    #[arg(long, requires = "whole")]
    accumulation: Option<usize>,
    /// The seed of weights, batches and built-in corpora
    #[arg(long, requires = "whole")]
    seed: Option<u64>,
    /// The initial size of queries and keys
    #[arg(long = "qk-init", requires = "whole")]
    query_key_init: Option<QueryKeyInit>,
    /// The initial position embedding
    #[arg(long, requires = "whole")]
    position_init: Option<PositionInit>,
    /// Plants a mutant of this name in the middle launch of the design, to see that it is found
    #[arg(long, requires = "whole", value_name = "KERNEL/DESIGN:MUTANT", hide = true)]
    plant: Option<String>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Attention {
    Naive,
    Fused,
    Both,
}

impl StepArguments {
    /// Whether whole steps are asked for.
    pub fn chosen(&self) -> bool {
        self.step || self.bisect
    }

    /// The settings of the run whose step is compared.
    pub fn settings(&self) -> anyhow::Result<Settings> {
        let flags = SettingsOverride {
            preset: self.preset,
            data: self.data.clone(),
            tokens: self.tokens,
            corpus_bytes: self.corpus_bytes,
            layers: self.layers,
            heads: self.heads,
            width: self.width,
            context_length: self.context_length,
            batch: self.batch,
            accumulation: self.accumulation,
            seed: self.seed,
            query_key_init: self.query_key_init,
            position_init: self.position_init,
            ..SettingsOverride::default()
        };
        let settings = Settings::resolve(SettingsOverride::default(), flags);
        settings.validate()?;
        Ok(settings)
    }

    fn attention_kinds(&self) -> &'static [AttentionKind] {
        match self.attention {
            Attention::Naive => &[AttentionKind::Naive],
            Attention::Fused => &[AttentionKind::Fused],
            Attention::Both => &[AttentionKind::Naive, AttentionKind::Fused],
        }
    }
}

/// Compares the step with each kind of attention, and prints and writes down what comes of it.
pub async fn run(arguments: StepArguments, json: Option<PathBuf>, device: DeviceArgument) -> anyhow::Result<Outcome> {
    let settings = arguments.settings()?;
    let mut file = report_file(json.as_ref())?;
    let text = TrainingText::load(&settings)?;
    let (gpu, line) = open(&device.device).await?;
    let Some(gpu) = gpu else {
        bail!("parity compares an adapter with the CPU reference, and there is no adapter to compare ({line})");
    };
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    let mut pipelines = Pipelines::default();
    let mut passed = true;
    let mut reports = Vec::new();
    for &attention in arguments.attention_kinds() {
        let settings = Settings { attention: attention.into(), ..settings.clone() };
        let mut step = TrainingStep::new(&settings, &text.training, settings.model(text.tokenizer.vocabulary_size())?);
        if let Some(plant) = &arguments.plant {
            let fault = planted(plant, &step.tape(&gpu.profile)?)?;
            step = step.with_fault(fault);
        }
        let kind = if attention == AttentionKind::Naive { "naive" } else { "fused" };
        let Settings { layers, heads, width, batch, context_length, accumulation, .. } = settings;
        writeln!(
            out,
            "\n{kind} attention, {layers} layers, {heads} heads, {width} wide, {accumulation} x {batch} x \
             {context_length} tokens a step"
        )?;
        let mut report = json!({ "attention": kind });
        if arguments.step {
            let launches = step.compare_launches(&gpu, &mut pipelines).await?;
            print_launches(&mut out, &launches)?;
            let training = step.compare_training(&gpu, &mut pipelines, arguments.steps).await?;
            print_gradients(&mut out, &training.gradients)?;
            print_losses(&mut out, &training.losses)?;
            passed &= launches.iter().all(LaunchResult::passed) && training.passed();
            report["launches"] = launches.iter().map(launch_row).collect();
            report["gradients"] = training.gradients.iter().map(gradient_row).collect();
            report["losses"] = training.losses.iter().map(loss_row).collect();
        }
        if arguments.bisect {
            let result = step.bisect(&gpu, &mut pipelines).await?;
            print_bisect(&mut out, &result)?;
            passed &= result.parting.is_none();
            report["bisect"] = bisect_report(&result);
        }
        reports.push(report);
    }
    writeln!(out, "\n{}", word(passed))?;
    if let Some(file) = &mut file {
        let profile = &gpu.profile;
        let report = json!({
            "adapter": profile.name, "backend": profile.backend, "driver": profile.driver,
            "passed": passed, "results": reports,
        });
        writeln!(file, "{report:#}")?;
    }
    Ok(if passed { Outcome::Fine } else { Outcome::CheckFailed })
}

/// The fault that `KERNEL/DESIGN:MUTANT` names, in the middle one of the launches that have it.
fn planted(plant: &str, tape: &Tape) -> anyhow::Result<PlantedFault> {
    let launches = tape.segments.iter().flat_map(|segment| &segment.launches).enumerate();
    let mutants: Vec<_> = launches
        .filter_map(|(index, launch)| Some((index, launch, launch.design?)))
        .flat_map(|(index, launch, design)| design.mutants.iter().map(move |mutant| (index, launch, design, mutant)))
        .filter(|(_, launch, design, mutant)| {
            format!("{}/{}:{}", launch.kernel.name, design.name, mutant.name) == plant
        })
        .collect();
    let Some((index, launch, design, mutant)) = mutants.get(mutants.len() / 2) else {
        bail!("no launch of this step has the mutant '{plant}'");
    };
    let source = design.mutated(launch.parameters.as_any(), mutant)?;
    Ok(PlantedFault { launch: *index, source })
}

fn word(passed: bool) -> &'static str {
    if passed { "passed" } else { "FAILED" }
}

/// Rows under a heading, each column as wide as its widest cell; numbers to the right.
fn print_table<const N: usize>(
    out: &mut impl Write,
    heading: [&str; N],
    rows: &[[String; N]],
    left: usize,
) -> std::io::Result<()> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].as_str()).chain([heading[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let headings = heading.map(str::to_string);
    for row in [&headings].into_iter().chain(rows) {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        writeln!(out, "  {}", line.trim_end())?;
    }
    Ok(())
}

/// Place, both values and share of an element; empty where all were equal.
fn element_cells(element: Option<&Element>) -> [String; 4] {
    match element {
        Some(Element { tensor, index, gpu, cpu, share }) => {
            [format!("{tensor}[{index}]"), format!("{gpu:.8e}"), format!("{cpu:.8e}"), share_cell(*share)]
        }
        None => ["all equal".into(), String::new(), String::new(), share_cell(0.0)],
    }
}

fn share_cell(share: f64) -> String {
    match share {
        0.0 => "0".into(),
        1e-3..1e3 => format!("{share:.3}"),
        _ => format!("{share:.1e}"),
    }
}

/// What a launch is, for a line of text.
fn describe(launch: &LaunchName) -> String {
    format!("{} ({}, {}/{})", launch.place, launch.segment, launch.kernel, launch.design)
}

fn print_launches(out: &mut impl Write, results: &[LaunchResult]) -> std::io::Result<()> {
    let elements: usize = results.iter().map(|result| result.compared).sum();
    writeln!(
        out,
        "\n1. each of {} launches on the CPU executor's inputs, {elements} elements, within its kernel's error bounds",
        results.len()
    )?;
    // A row a design, in the order of their first launches.
    let mut designs: Vec<(String, Vec<&LaunchResult>)> = Vec::new();
    for result in results {
        let name = format!("{}/{}", result.launch.kernel, result.launch.design);
        match designs.iter_mut().find(|(design, _)| *design == name) {
            Some((_, of_design)) => of_design.push(result),
            None => designs.push((name, vec![result])),
        }
    }
    let row = |(name, results): &(String, Vec<&LaunchResult>)| {
        let worst = results.iter().filter_map(|result| result.worst.as_ref());
        let worst = worst.max_by(|a, b| a.share.total_cmp(&b.share));
        let [place, gpu, cpu, share] = element_cells(worst);
        let passed = results.iter().all(|result| result.passed());
        [name.clone(), place, results.len().to_string(), gpu, cpu, share, word(passed).into()]
    };
    let rows: Vec<_> = designs.iter().map(row).collect();
    print_table(out, ["kernel/design", "worst element", "launches", "GPU", "CPU", "share", ""], &rows, 2)?;
    for result in results.iter().filter(|result| !result.passed()) {
        let [place, gpu, cpu, share] = element_cells(result.worst.as_ref());
        let (misses, compared) = (result.misses, result.compared);
        writeln!(out, "  FAILED launch {}: {}", describe(&result.launch), result.launch.label)?;
        match &result.bad_reference {
            Some(reason) => writeln!(out, "    {reason}")?,
            None => writeln!(
                out,
                "    {misses} of {compared} elements are off, the worst {place}: {gpu} for {cpu}, {share} times its bound"
            )?,
        }
    }
    Ok(())
}

fn print_gradients(out: &mut impl Write, results: &[GradientResult]) -> std::io::Result<()> {
    writeln!(
        out,
        "\n2. gradients of the first step, each element within {GRADIENT_TOLERANCE:e} of its tensor's largest, their error's \
         norm within {GRADIENT_NORM_TOLERANCE:e}"
    )?;
    let row = |result: &GradientResult| {
        let [place, gpu, cpu, share] = element_cells(result.worst.as_ref());
        let place = if result.worst.is_some() { place } else { result.tensor.clone() };
        [place, gpu, cpu, share, format!("{:.1e}", result.norm), word(result.passed()).into()]
    };
    let rows: Vec<_> = results.iter().map(row).collect();
    print_table(out, ["worst element", "GPU", "CPU", "share", "norm", ""], &rows, 1)
}

fn print_losses(out: &mut impl Write, results: &[LossResult]) -> std::io::Result<()> {
    writeln!(out, "\n3. loss of each of {} steps within {LOSS_TOLERANCE:e} of itself", results.len())?;
    let worst = results.iter().max_by(|a, b| a.share().total_cmp(&b.share()));
    let row = |(what, result): (&str, &LossResult)| {
        let values = [format!("{:.7}", result.gpu), format!("{:.7}", result.cpu)];
        let [gpu, cpu] = values;
        [format!("step {}{what}", result.step), gpu, cpu, share_cell(result.share()), word(result.passed()).into()]
    };
    let shown = [worst.map(|worst| (", the worst", worst)), results.last().map(|last| ("", last))];
    let rows: Vec<_> = shown.into_iter().flatten().map(row).collect();
    print_table(out, ["loss", "GPU", "CPU", "share", ""], &rows, 1)
}

fn print_bisect(out: &mut impl Write, result: &BisectResult) -> std::io::Result<()> {
    let launches = result.launches;
    match &result.parting {
        None => writeln!(
            out,
            "\nnone of {launches} launches parts from the CPU executor: each gives what its inputs give, within its kernel's \
             error bounds"
        )?,
        Some(parting) => {
            let LaunchResult { launch, compared, misses, .. } = &parting.result;
            let Element { tensor, index, gpu, cpu, share } = &parting.element;
            writeln!(out, "\nlaunch {} of {launches} parts first: {}", describe(launch), launch.label)?;
            writeln!(
                out,
                "  {tensor}[{index}]: the GPU has {gpu:.8e} where its inputs give {cpu:.8e}, {} times its error bound; the CPU \
                 executor has {:.8e}",
                share_cell(*share),
                parting.cpu
            )?;
            writeln!(out, "  {misses} of {compared} elements are off")?;
            match &parting.inputs {
                None => writeln!(out, "  its inputs are equal on both executors")?,
                Some(drift) => writeln!(out, "  its inputs differ at most {}", drift_text(drift))?,
            }
        }
    }
    let until = if result.parting.is_some() { " before it" } else { "" };
    for drift in &result.largest_drifts {
        writeln!(out, "  largest drift{until} in {}: {}", drift.launch.segment, drift_text(drift))?;
    }
    Ok(())
}

fn drift_text(drift: &Drift) -> String {
    let Drift { launch, tensor, index, gpu, cpu, relative } = drift;
    format!(
        "by {relative:.1e} of a tensor's largest value, at {tensor}[{index}]: {gpu:.8e} and {cpu:.8e}, of launch {} ({})",
        launch.place, launch.label
    )
}

fn element_row(element: Option<&Element>) -> Value {
    element.map_or(Value::Null, |Element { tensor, index, gpu, cpu, share }| {
        json!({ "tensor": tensor, "index": index, "gpu": gpu, "cpu": cpu, "share_of_tolerance": share })
    })
}

fn name_row(launch: &LaunchName) -> Value {
    let LaunchName { place, segment, label, kernel, design } = launch;
    json!({ "place": place, "segment": segment, "label": label, "kernel": kernel, "design": design })
}

fn launch_row(result: &LaunchResult) -> Value {
    json!({
        "launch": name_row(&result.launch), "passed": result.passed(), "compared": result.compared,
        "misses": result.misses, "worst": element_row(result.worst.as_ref()), "bad_reference": result.bad_reference,
    })
}

fn gradient_row(result: &GradientResult) -> Value {
    json!({
        "tensor": result.tensor, "elements": result.elements, "passed": result.passed(), "norm": result.norm,
        "worst": element_row(result.worst.as_ref()),
    })
}

fn loss_row(result: &LossResult) -> Value {
    json!({
        "step": result.step, "gpu": result.gpu, "cpu": result.cpu, "share_of_tolerance": result.share(),
        "passed": result.passed(),
    })
}

fn drift_row(drift: &Drift) -> Value {
    let Drift { launch, tensor, index, gpu, cpu, relative } = drift;
    json!({
        "launch": name_row(launch), "tensor": tensor, "index": index, "gpu": gpu, "cpu": cpu, "relative": relative,
    })
}

fn bisect_report(result: &BisectResult) -> Value {
    let parting = result.parting.as_ref().map(|parting| {
        json!({
            "result": launch_row(&parting.result), "cpu": parting.cpu,
            "inputs": parting.inputs.as_ref().map(drift_row),
        })
    });
    let drifts: Vec<Value> = result.largest_drifts.iter().map(drift_row).collect();
    json!({ "launches": result.launches, "parting": parting, "largest_drifts": drifts })
}
