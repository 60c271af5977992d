//! What a training run prints: a progress bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use web_time::Instant;

use super::output::say;
use crate::graph::RewriteReport;
use crate::model::GptConfig;
use crate::train::metrics::MetricsRecord;
use crate::train::run::Observer;
use crate::train::text::TrainingText;
use crate::train::trainer::{StepReport, Trainer};

/// Prints a run as it goes.
pub struct Progress {
    bar: Option<ProgressBar>,
    interrupted: Arc<AtomicBool>,
    /// Where the remaining time is reckoned from: the step and moment this process began at.
    began: Option<(u64, Instant)>,
    steps: u64,
}

impl Progress {
    pub fn new(interrupted: Arc<AtomicBool>) -> Self {
        Self { bar: None, interrupted, began: None, steps: 0 }
    }

    /// Takes the bar off the terminal.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => say(text),
        }
    }

    /// Seconds left, from this process's own steps alone.
    fn remaining(&self, step: u64) -> Option<f64> {
        let (first, began) = self.began?;
        remaining_seconds(first, step, self.steps, began.elapsed().as_secs_f64())
    }
}

/// Seconds left after `step` of `steps`, where the steps since `first` took `elapsed`. A resumed run counts only its
/// own steps; the answer is never negative.
fn remaining_seconds(first: u64, step: u64, steps: u64, elapsed: f64) -> Option<f64> {
    let done = step.checked_sub(first).filter(|&done| done > 0)?;
    Some(elapsed / done as f64 * steps.saturating_sub(step) as f64)
}

fn duration(seconds: f64) -> String {
    let seconds = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}

/// What became of the attention of a model, in one line. Layers with the same reason are told together.
pub fn attention_line(config: &GptConfig, reports: &[RewriteReport]) -> String {
    let file = match &config.attention {
        Some(edited) => format!("{}, ", edited.script.file),
        None => String::new(),
    };
    let layers = config.layers;
    let mut refusals: Vec<(&str, usize)> = Vec::new();
    for reason in reports.iter().filter_map(|report| report.outcome.as_ref().err()) {
        match refusals.iter_mut().find(|(known, _)| known == reason) {
            Some((_, count)) => *count += 1,
            None => refusals.push((reason, 1)),
        }
    }
    let fused = reports.iter().find_map(|report| report.outcome.as_ref().ok());
    if refusals.is_empty() {
        return match fused {
            Some(&"attention") => format!("attention: {file}fused, in all {layers} layers"),
            Some(kernel) => {
                format!("attention: {file}naive, with {kernel} between the products, in all {layers} layers")
            }
            None => format!("attention: {file}as written in all {layers} layers: there is no softmax to fuse"),
        };
    }
    let reasons = refusals.iter().map(|(reason, count)| match *count {
        count if count == layers => format!("in all {layers} layers: {reason}"),
        1 => format!("in 1 layer: {reason}"),
        count => format!("in {count} of {layers} layers: {reason}"),
    });
    format!("attention: {file}as written, not fused, {}", reasons.collect::<Vec<_>>().join("; "))
}

impl Observer for Progress {
    fn begins(&mut self, trainer: &Trainer, text: &TrainingText, done: u64, steps: u64) {
        let config = &trainer.config;
        say(format_args!(
            "model: {} layers, {} heads, {} wide, context {}, vocabulary {}: {} parameters",
            config.layers,
            config.heads,
            config.width,
            config.context_length,
            config.vocabulary_size,
            config.parameter_count()
        ));
        for remark in config.attention.iter().flat_map(|edited| &edited.remarks) {
            say(remark);
        }
        say(attention_line(config, &trainer.program.rewrites));
        let references = &text.references;
        say(format_args!("text: {} tokens to train on, {} held out", text.training.len(), text.validation.len()));
        say(format_args!(
            "guessing loses {:.3} where all tokens are alike, {:.3} by their frequency, {:.3} by the token before",
            references.uniform, references.unigram, references.bigram
        ));
        if done > 0 {
            say(format_args!("resuming after step {done} of {steps}"));
        }
        self.steps = steps;
        self.began = Some((done, Instant::now()));
        if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(steps).with_position(done);
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}") {
                bar.set_style(style);
            }
            self.bar = Some(bar);
        }
    }

    fn step(&mut self, report: &StepReport, tokens_per_second: f64) {
        if let Some(bar) = &self.bar {
            let left = self.remaining(report.step).map_or("?".into(), duration);
            bar.set_position(report.step);
            bar.set_message(format!("loss {:.4}  {tokens_per_second:.0} tokens/s  ETA {left}", report.train_loss));
        }
    }

    fn logged(&mut self, record: &MetricsRecord) {
        let number =
            |name: &str, value: Option<f64>| value.map_or(String::new(), |value| format!("  {name} {value:.4}"));
        // On a terminal the bar shows the training loss already.
        if self.bar.is_some() && record.val_loss.is_none() {
            return;
        }
        let speed = record.tokens_per_second.map_or(String::new(), |speed| format!("  {speed:.0} tokens/s"));
        let left = self.remaining(record.step).map_or(String::new(), |left| format!("  ETA {}", duration(left)));
        self.line(&format!(
            "step {:>5}{}{}{}{}{speed}{left}",
            record.step,
            number("train loss", record.train_loss),
            number("validation loss", record.val_loss),
            number("honest loss", record.honest_loss),
            number("gradient norm", record.grad_norm)
        ));
    }

    fn notice(&mut self, text: &str) {
        self.line(text);
    }

    fn wants_to_stop(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_of_a_resumed_run_counts_its_own_steps_and_is_never_negative() {
        // Resumed at 900 of 1000, half a second a step: 45 s are left after ten steps.
        assert_eq!(remaining_seconds(900, 910, 1000, 5.0), Some(45.0));
        assert_eq!(remaining_seconds(900, 900, 1000, 0.0), None);
        assert_eq!(remaining_seconds(0, 1001, 1000, 10.0), Some(0.0));
    }

    #[test]
    fn durations_are_short() {
        for (seconds, text) in [(4.7, "4s"), (65.0, "1m05s"), (7261.0, "2h01m"), (f64::NAN, "0s"), (-1.0, "0s")] {
            assert_eq!(duration(seconds), text);
        }
    }
}
