//! The memory ledger on a device: what a plan predicts is what is made, to the byte, and what is computed again instead
//! of kept has the same bits.

mod device;

use std::sync::Arc;

use headlight::gpu::Gpu;
use headlight::graph::Recompute;
use headlight::model::{EditedAttention, GptConfig};
use headlight::random::{Stream, generator};
use headlight::script::TraceHere;
use headlight::tape::Category;
use headlight::train::Preset;
use headlight::train::attention_choice::{AttentionKind, read_script};
use headlight::train::memory::{Binding, Footprint, measure};
use headlight::train::settings::Settings;
use headlight::train::trainer::{Trainer, program_spec};
use libtest_mimic::{Arguments, Failed, Trial};
use rand::RngExt;

type Check = Box<dyn FnOnce(&Arc<Gpu>) -> Result<(), Failed> + Send>;

fn main() {
    // One at a time: the device counts what is made for all of them together.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let gpu = device::open();
    let mut trials = Vec::new();
    let mut add = |name: String, check: Check| {
        let (device, missing) = (gpu.clone(), gpu.is_none());
        let on_device = move || device.as_ref().map_or(Err("there is no adapter".into()), check);
        trials.push(Trial::test(name, on_device).with_ignored_flag(missing));
    };
    for preset in Preset::ALL {
        let name = format!("a run of {} makes as many bytes as its plan predicts", preset.name());
        add(name, Box::new(move |gpu| every_way(preset).iter().try_for_each(|run| makes_what_is_predicted(gpu, run))));
    }
    for number in 0..24 {
        let run = drawn(number);
        let name = format!("drawn run {number} makes as many bytes as its plan predicts: {}", run.describe());
        add(name, Box::new(move |gpu| makes_what_is_predicted(gpu, &run)));
    }
    for (attention, file) in [
        (AttentionKind::Naive, None),
        (AttentionKind::Fused, None),
        (AttentionKind::Naive, Some("builtin:alibi")),
        (AttentionKind::Fused, Some("builtin:alibi")),
    ] {
        for accumulation in [1, 2] {
            let settings = Settings {
                layers: 3,
                heads: 3,
                width: 39,
                context_length: 19,
                batch: 2,
                accumulation,
                attention: attention.into(),
                ..Preset::Tiny.settings()
            };
            let run = Run { settings, file };
            let name = format!("what is computed again has the same bits: {}", run.describe());
            add(name, Box::new(move |gpu| recomputing_changes_no_bit(gpu, &run)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

const VOCABULARY: usize = 23;

struct Run {
    settings: Settings,
    file: Option<&'static str>,
}

impl Run {
    fn describe(&self) -> String {
        let Settings { layers, heads, width, context_length, batch, accumulation, attention, recompute, .. } =
            &self.settings;
        let file = self.file.map_or(String::new(), |file| format!(" of {file}"));
        format!(
            "{layers} layers, {heads} heads, width {width}, context {context_length}, batch {batch} x {accumulation}, \
             {attention}{file}, recompute {recompute:?}"
        )
    }

    fn config(&self) -> Result<GptConfig, Failed> {
        let config = self.settings.model(VOCABULARY)?;
        let Some(file) = self.file else { return Ok(config) };
        let attention = EditedAttention::new(read_script(file)?, Arc::new(TraceHere), &config)?;
        Ok(config.with_attention(Some(Arc::new(attention)))?)
    }

    fn predict(&self, gpu: &Gpu) -> Result<Footprint, Failed> {
        Ok(Footprint::predict(&program_spec(&self.settings, self.config()?), Some(&gpu.profile))?)
    }
}

const RECOMPUTE: [Recompute; 3] = [Recompute::None, Recompute::Attention, Recompute::Block];

/// A preset with every attention and everything that is computed again, at a batch that a test has time for.
fn every_way(preset: Preset) -> Vec<Run> {
    let mut runs = Vec::new();
    for (attention, file) in [
        (AttentionKind::Naive, None),
        (AttentionKind::Fused, None),
        (AttentionKind::Fused, Some("builtin:alibi")),
        (AttentionKind::Naive, Some("builtin:alibi")),
    ] {
        for recompute in RECOMPUTE {
            let settings = Settings { batch: 1, attention: attention.into(), recompute, ..preset.settings() };
            runs.push(Run { settings, file });
        }
    }
    runs
}

/// A run whose sizes are drawn.
fn drawn(number: u64) -> Run {
    let mut draws = generator(1, Stream::Cases, 0, number);
    let mut among = |least: usize, most: usize| draws.random_range(least..=most);
    let heads = among(1, 4);
    let settings = Settings {
        layers: among(1, 4),
        heads,
        width: heads * among(1, 24),
        context_length: among(1, 70),
        batch: among(1, 5),
        accumulation: among(1, 3),
        attention: if among(0, 1) == 0 { AttentionKind::Naive } else { AttentionKind::Fused }.into(),
        recompute: RECOMPUTE[among(0, 2)],
        ..Preset::Tiny.settings()
    };
    Run { settings, file: [None, Some("builtin:alibi"), Some("builtin:reference")][among(0, 2)] }
}

fn makes_what_is_predicted(gpu: &Arc<Gpu>, run: &Run) -> Result<(), Failed> {
    let predicted = run.predict(gpu)?;
    if predicted.binding(None) != Binding::Whole {
        return Err(format!("{}: {:?}", run.describe(), predicted.binding(None)).into());
    }
    let measured = pollster::block_on(measure(Some(gpu), &run.settings, run.config()?))?;
    if predicted.total() != Some(measured.bytes) || !measured.loss.is_finite() {
        let total = predicted.total();
        return Err(format!("{}: {total:?} were predicted, {measured:?} measured", run.describe()).into());
    }
    let by_category: u64 = Category::ALL.iter().map(|&category| predicted.bytes(category)).sum();
    if by_category == measured.bytes { Ok(()) } else { Err(format!("the categories add up to {by_category}").into()) }
}

/// The losses of three steps and the weights after them, in bits.
fn outcome(gpu: &Arc<Gpu>, run: &Run) -> Result<(Vec<u64>, Vec<u32>), Failed> {
    let tokens: Vec<u32> = (0..4000u32).map(|i| (i / 3 + i / 50) % VOCABULARY as u32).collect();
    pollster::block_on(async {
        let mut trainer = Trainer::new(Some(gpu), &run.settings, run.config()?).await?;
        let mut losses = Vec::new();
        for _ in 0..3 {
            losses.extend(trainer.train_step(&tokens).await?);
        }
        while let Some(report) = trainer.next_report().await? {
            losses.push(report);
        }
        let losses = losses.iter().map(|report| report.train_loss.to_bits()).collect();
        let (parameters, _) = trainer.snapshot().await?;
        Ok((losses, parameters.concat().into_iter().map(f32::to_bits).collect()))
    })
}

fn recomputing_changes_no_bit(gpu: &Arc<Gpu>, run: &Run) -> Result<(), Failed> {
    let kept = outcome(gpu, run)?;
    let bytes = |footprint: &Footprint| {
        [Category::Activation, Category::AttentionScores].map(|category| footprint.bytes(category))
    };
    let before = run.predict(gpu)?;
    for recompute in [Recompute::Attention, Recompute::Block] {
        let again = Run { settings: Settings { recompute, ..run.settings.clone() }, ..*run };
        if outcome(gpu, &again)? != kept {
            return Err(format!("{recompute:?} gives other bits").into());
        }
        let after = again.predict(gpu)?;
        let ([activations, scores], [fewer_activations, fewer_scores]) = (bytes(&before), bytes(&after));
        let saves = match recompute {
            Recompute::Attention => fewer_scores < scores || scores == 0,
            _ => fewer_activations < activations && (fewer_scores < scores || scores == 0),
        };
        if !saves {
            return Err(
                format!("{recompute:?} saves nothing: {:?} before, {:?} after", bytes(&before), bytes(&after)).into()
            );
        }
    }
    Ok(())
}
