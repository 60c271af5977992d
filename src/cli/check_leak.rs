//! `headlight check --leak`: whether a trained model sees the future.

use std::path::{Path, PathBuf};

use anyhow::bail;

use super::Outcome;
use super::device::{DeviceArgument, open};
use super::output::{say, warn};
use super::sandbox::tracer;
use crate::check::leak::{ROUNDS, probe_model, random_tokens, wanted_tokens};
use crate::data::text::read_files;
use crate::data::tokenizer::Tokenizer;
use crate::model::Checkpoint;
use crate::model::checkpoint::resolve_model;
use crate::train::settings::{Settings, SettingsOverride};
use crate::train::text::TrainingText;

/// Probes a model on its run's held-out text, on `data`, or on random tokens.
pub async fn run(model: &Path, data: Option<&PathBuf>, seed: u64, device: &DeviceArgument) -> anyhow::Result<Outcome> {
    let directory = resolve_model(model)?;
    let checkpoint = Checkpoint::read(&directory, &tracer())?;
    let (tokens, source) = tokens(model, &directory, data, &checkpoint, seed)?;
    let (gpu, line) = open(&device.device).await?;
    warn(line);
    let found = probe_model(&checkpoint, &tokens, (seed, ROUNDS), gpu.as_ref()).await?;
    say(format_args!("{}, attention of {}, read {source}", directory.display(), checkpoint.config.attention_file()));
    if !found.is_finite() {
        say("its loss is no finite number, with the tokens that follow and without them: nothing can be told of it");
        return Ok(Outcome::CheckFailed);
    }
    say(found);
    if !found.sees_the_future() {
        say("its loss is honest: it is what the model predicts from earlier tokens alone");
        return Ok(Outcome::Fine);
    }
    say(format_args!(
        "{:.4} nats of its loss come from looking ahead: text drawn from it will be worse than the loss says",
        found.gap()
    ));
    Ok(Outcome::CheckFailed)
}

/// What the model reads, and what that is in words.
fn tokens(
    model: &Path,
    directory: &Path,
    data: Option<&PathBuf>,
    checkpoint: &Checkpoint,
    seed: u64,
) -> anyhow::Result<(Vec<u32>, String)> {
    let config = &checkpoint.config;
    if let Some(data) = data {
        let Some(tokenizer) = &checkpoint.tokenizer else {
            bail!("{} has no tokenizer.json: without one, text means nothing to the model", directory.display());
        };
        let tokens = Tokenizer::from_json(tokenizer)?.encode(&read_files(std::slice::from_ref(data))?)?;
        if let Some(&stray) = tokens.iter().find(|&&token| token as usize >= config.vocabulary_size) {
            bail!("{}: token {stray} is beyond the model's {} tokens", directory.display(), config.vocabulary_size);
        }
        return Ok((tokens, format!("on {}", data.display())));
    }
    let settings_file = model.join("config.toml");
    if settings_file.is_file() {
        let settings = Settings::resolve(SettingsOverride::read(&settings_file)?, SettingsOverride::default());
        let text = TrainingText::load(&settings)?;
        if text.tokenizer.vocabulary_size() == config.vocabulary_size {
            return Ok((text.validation, "on the held-out text of its run".into()));
        }
    }
    let random = random_tokens(config.vocabulary_size, wanted_tokens(checkpoint, ROUNDS), seed);
    Ok((random, "on random tokens, which no model predicts (--data gives it a text)".into()))
}
