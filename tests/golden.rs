//! The whole model against PyTorch in float64 (`tests/golden/README.md`): logits, loss, attention, residual stream,
//! every gradient, and twenty steps of training; on both executors, with naive and with fused attention. And attention by
//! itself, where its scores are large.

mod device;
mod golden_attention;
mod golden_file;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use golden_file::GoldenFile;
use headlight::gpu::{Gpu, Pipelines};
use headlight::graph::{Reuse, Rewrites, TapeBuilder, Value, differentiate, rewrite};
use headlight::kernel::gradient_norm;
use headlight::model::GptConfig;
use headlight::model::forward::parameter_buffers;
use headlight::model::gpt::build;
use headlight::tape::{Category, ElementKind, Executor};
use headlight::train::program::{Optimizer, ProgramSpec, StepScalars, build_program, segment};
use libtest_mimic::{Arguments, Failed, Trial};

/// What a GPU may use of a tolerance that was measured on a CPU: WGSL promises little for exp and tanh.
const DEVICE_FACTOR: f64 = 10.0;

/// Runs on a device, or on the CPU executor where it is given none.
type Check = fn(Option<&Arc<Gpu>>, Rewrites) -> Result<(), Failed>;

fn main() {
    let arguments = Arguments::from_args();
    let gpu = device::open();
    let mut trials = Vec::new();
    for (executor, on_gpu) in [("the CPU executor", false), ("this adapter", true)] {
        for (attention, rewrites) in [("naive", Rewrites::Naive), ("fused", Rewrites::Fused)] {
            let checks: [(&str, Check); 2] = [("one step", check_step), ("twenty steps", check_training)];
            for (what, check) in checks {
                let device = gpu.clone().filter(|_| on_gpu);
                let missing = on_gpu && device.is_none();
                let run = move || match missing {
                    // The CPU executor must not stand in for the adapter.
                    true => Err("there is no adapter".into()),
                    false => check(device.as_ref(), rewrites),
                };
                let name = format!("{what} with {attention} attention on {executor} equal PyTorch's");
                trials.push(Trial::test(name, run).with_ignored_flag(missing));
            }
        }
    }
    trials.extend(golden_attention::trials(gpu.as_ref()));
    libtest_mimic::run(&arguments, trials).exit();
}

fn open(name: &str) -> GoldenFile {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    GoldenFile::read(&folder.join(name))
}

/// GPT-2 with the sizes of the golden files.
fn config() -> GptConfig {
    GptConfig::new(65, 32, 2, 4, 32).unwrap()
}

const BATCH: usize = 4;
const CONTEXT: usize = 32;

fn check_step(gpu: Option<&Arc<Gpu>>, rewrites: Rewrites) -> Result<(), Failed> {
    let golden = open("gpt_tiny.safetensors");
    let config = config();
    let mut gpt = build(&config, BATCH, CONTEXT)?;
    // The weights exist only where attention is not fused.
    let naive = rewrites == Rewrites::Naive;
    let weights: Vec<Value> = gpt.blocks.iter().filter(|_| naive).map(|block| block.weights).collect();
    let reports = rewrite(&mut gpt.graph, rewrites, &weights);
    for report in reports {
        report.outcome?;
    }
    let gradients = differentiate(&mut gpt.graph, gpt.losses.mean, &gpt.parameters)?;

    let mut outputs: Vec<(String, Value)> =
        vec![("logits".into(), gpt.logits), ("loss".into(), gpt.losses.mean), ("act.embed".into(), gpt.embedded)];
    for (layer, block) in gpt.blocks.iter().enumerate() {
        outputs.push((format!("act.{layer}.resid_mid"), block.after_attention));
        outputs.push((format!("act.{layer}.resid_post"), block.after_mlp));
    }
    outputs.extend(weights.iter().enumerate().map(|(layer, &value)| (format!("attn.{layer}"), value)));
    let parameters = config.parameters();
    outputs.extend(
        parameters.iter().zip(&gradients).map(|(parameter, &value)| (format!("grad.{}", parameter.name), value)),
    );

    let mut tape = TapeBuilder::new(gpu.map(|gpu| gpu.profile.clone()), Reuse::Pooled);
    let buffers = parameter_buffers(&mut tape, &config, "", Category::Parameter);
    let positions = (BATCH * CONTEXT) as u64;
    let tokens = tape.persistent("tokens", positions, ElementKind::Words, Category::Input);
    let targets = tape.persistent("targets", positions, ElementKind::Words, Category::Input);
    let leaves: HashMap<_, _> = gpt
        .parameters
        .iter()
        .copied()
        .zip(buffers.iter().copied())
        .chain([(gpt.tokens, tokens), (gpt.targets, targets)])
        .collect();
    let mut results = Vec::new();
    for (name, value) in &outputs {
        let elements = gpt.graph.ty(*value).elements().ok_or("too large")?;
        results.push(tape.persistent(name, elements, ElementKind::Real, Category::Workspace));
    }
    tape.begin_segment("step");
    let roots: Vec<_> = outputs.iter().zip(&results).map(|(&(_, value), &buffer)| (value, Some(buffer))).collect();
    tape.lower(&gpt.graph, &leaves, &roots)?;

    let read: Vec<Vec<f32>> = pollster::block_on(async {
        let executor = Executor::new(gpu, tape.finish()?, &mut Pipelines::default()).await?;
        for (parameter, &buffer) in parameters.iter().zip(&buffers) {
            executor.write(buffer, &golden.real(&parameter.name))?;
        }
        executor.write_words(tokens, &golden.words("tokens"))?;
        executor.write_words(targets, &golden.words("targets"))?;
        executor.run(0)?;
        let mut read = Vec::new();
        for &buffer in &results {
            read.push(executor.read(buffer).await?);
        }
        Ok::<_, Box<dyn std::error::Error>>(read)
    })
    .map_err(|error| error.to_string())?;

    let factor = if gpu.is_some() { DEVICE_FACTOR } else { 1.0 };
    let found = outputs.into_iter().map(|(name, _)| name).zip(read);
    // Only the weights of fused attention may stay uncompared.
    golden.compare(found, factor, |name| !naive && name.starts_with("attn."))
}

fn check_training(gpu: Option<&Arc<Gpu>>, rewrites: Rewrites) -> Result<(), Failed> {
    let golden = open("gpt_tiny_train.safetensors");
    let start = open("gpt_tiny.safetensors");
    let optimizer = Optimizer { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1, clip: 1.0 };
    let spec =
        ProgramSpec { config: config(), batch: BATCH, context_length: CONTEXT, accumulation: 1, rewrites, optimizer };
    let program = build_program(&spec, gpu.map(|gpu| &gpu.profile), Reuse::Pooled)?;
    let parameters = spec.config.parameters();
    let rates = golden.numbers("lrs");
    let (tokens, targets) = (golden.words("tokens"), golden.words("targets"));
    let found: Vec<(String, Vec<f32>)> = pollster::block_on(async {
        let executor = Executor::new(gpu, program.tape.clone(), &mut Pipelines::default()).await?;
        let buffers = &program.buffers;
        for (parameter, &buffer) in parameters.iter().zip(&buffers.parameters) {
            let name = golden.first_of(&[&parameter.name, &format!("p0.{}", parameter.name)]);
            let values = name.map_or_else(|| start.real(&parameter.name), |name| golden.real(&name));
            executor.write(buffer, &values)?;
        }
        let (mut losses, mut norms) = (Vec::new(), Vec::new());
        let per_step = BATCH * CONTEXT;
        for (step, &learning_rate) in rates.iter().enumerate() {
            let scalars = StepScalars { first_micro_batch: true, learning_rate, step: step as u64 };
            executor.write(buffers.scalars, &scalars.values(&optimizer))?;
            executor.write_words(buffers.tokens, &tokens[step * per_step..(step + 1) * per_step])?;
            executor.write_words(buffers.targets, &targets[step * per_step..(step + 1) * per_step])?;
            executor.run(segment::MICRO_STEP)?;
            executor.run(segment::UPDATE)?;
            losses.extend(executor.read(buffers.loss).await?);
            norms.push(executor.read(buffers.control).await?[gradient_norm::control::NORM]);
        }
        executor.write_words(buffers.tokens, &tokens[..per_step])?;
        executor.write_words(buffers.targets, &targets[..per_step])?;
        executor.run(segment::EVALUATE)?;
        let after = executor.read(buffers.summary).await?[0];
        let mut found = vec![
            ("losses".to_string(), losses),
            ("grad_norms".to_string(), norms),
            ("loss_batch0_after".to_string(), vec![after]),
        ];
        for (parameter, &buffer) in parameters.iter().zip(&buffers.parameters) {
            found.push((format!("final.{}", parameter.name), executor.read(buffer).await?));
        }
        Ok::<_, Box<dyn std::error::Error>>(found)
    })
    .map_err(|error| error.to_string())?;
    let factor = if gpu.is_some() { DEVICE_FACTOR } else { 1.0 };
    golden.compare(found, factor, |_| false)
}
