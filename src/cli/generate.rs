//! `headlight generate`

use std::io::Write;
use std::path::PathBuf;

use super::Outcome;
use super::device::{DeviceArgument, open};
use super::model_text::tokenizer;
use super::output::warn;
use super::sandbox::tracer;
use crate::gpu::Pipelines;
use crate::graph::{Reuse, Rewrites, TapeBuilder};
use crate::model::checkpoint::{Checkpoint, resolve_model};
use crate::model::forward::{forward_segment, parameter_buffers};
use crate::model::generate::{self, Forward, TextModel};
use crate::model::sampling::Sampling;
use crate::tape::{Category, Executor};

#[derive(clap::Args)]
pub struct Arguments {
    /// A model directory, or a run directory (its best model is taken)
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// The text to continue; an empty one starts a new line
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    prompt: String,
    /// Tokens to add
    #[arg(long, default_value_t = 200, allow_negative_numbers = true)]
    max_new_tokens: usize,
    /// 0 takes the most likely token each time, 1 draws by the model's own probabilities
    #[arg(long, default_value_t = 0.8, allow_negative_numbers = true)]
    temperature: f64,
    /// Draw from the K most likely tokens only
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// The seed of the draws
    #[arg(long, default_value_t = 1337, allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    device: DeviceArgument,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let sampling = Sampling { temperature: arguments.temperature, top_k: arguments.top_k, seed: arguments.seed };
    sampling.validate()?;
    let directory = resolve_model(&arguments.model)?;
    let checkpoint = Checkpoint::read(&directory, &tracer())?;
    let tokenizer = tokenizer(&directory, &checkpoint)?;
    let config = &checkpoint.config;
    let mut prompt = tokenizer.encode(&arguments.prompt)?;
    if prompt.is_empty() {
        prompt.push(tokenizer.id("\n").unwrap_or(0));
    }
    if prompt.len() > config.context_length {
        warn(format_args!(
            "note: the prompt has {} tokens and the context holds {}: only the last {} are seen",
            prompt.len(),
            config.context_length,
            config.context_length
        ));
    }

    let (gpu, line) = open(&arguments.device.device).await?;
    warn(line);
    let mut tape = TapeBuilder::new(gpu.as_ref().map(|gpu| gpu.profile.clone()), Reuse::Pooled);
    let parameters = parameter_buffers(&mut tape, config, "", Category::Parameter);
    let shape = (generate::rows(config), config.context_length);
    let (buffers, _) = forward_segment(&mut tape, config, &parameters, shape, Rewrites::Fused, "generate")?;
    let tape = tape.finish()?;
    let segment = tape.segment("generate")?;
    let executor = Executor::new(gpu.as_ref(), tape, &mut Pipelines::default()).await?;
    for (&buffer, values) in parameters.iter().zip(&checkpoint.parameters) {
        executor.write(buffer, values)?;
    }
    let model = TextModel {
        executor: &executor,
        config,
        parameters: &parameters,
        forward: Forward { segment, buffers },
        gpu: gpu.as_ref(),
        rewrites: Rewrites::Fused,
    };
    // Words are joined by what decoding a whole text would put between them, so only whole texts are decoded.
    let mut tokens = prompt.clone();
    let mut printed = 0;
    let mut written = Ok(());
    let mut print = |tokens: &[u32], written: &mut std::io::Result<()>| {
        let text = tokenizer.decode(tokens);
        if let (Ok(()), Some(new)) = (&written, text.get(printed..)) {
            let mut out = std::io::stdout();
            *written = out.write_all(new.as_bytes()).and_then(|()| out.flush());
            printed = text.len();
        }
    };
    print(&tokens, &mut written);
    let generated = model
        .generate(&prompt, arguments.max_new_tokens, (&sampling, 0), |token| {
            tokens.push(token);
            print(&tokens, &mut written);
        })
        .await?;
    written?;
    if let Some(remark) = &generated.remark {
        warn(format_args!("note: {remark}"));
    }
    std::io::stdout().write_all(b"\n")?;
    Ok(Outcome::Fine)
}
