//! Steps of training: losses, gradient norms and the weights at the end, with naive and with fused attention.

use super::model::{config, parameters, words};
use super::{Findings, Found, GoldenError, GoldenFile, Runs};
use crate::gpu::Pipelines;
use crate::graph::{Recompute, Reuse, Rewrites};
use crate::kernel::gradient_norm;
use crate::op::Tensors;
use crate::tape::{Contents, ExecutionError, RunOn, Tensor, WideExecutor};
use crate::train::program::{Optimizer, Program, ProgramSpec, StepScalars, build_program, segment};

/// What a reference file trains on.
struct Training {
    spec: ProgramSpec,
    start: Vec<Tensor>,
    rates: Vec<f64>,
    /// `[steps, B, T]`
    tokens: Vec<u32>,
    targets: Vec<u32>,
}

pub(super) async fn evaluate(file: &mut GoldenFile, runs: &Runs) -> Result<Findings, GoldenError> {
    let config = config(file)?;
    let number = |key: &str| file.number(key).ok_or_else(|| file.lacks(key));
    let betas: Option<[f64; 2]> = file.numbers("betas").and_then(|betas| betas.try_into().ok());
    let [beta1, beta2] = betas.ok_or_else(|| file.lacks("betas"))?;
    let optimizer = Optimizer {
        beta1,
        beta2,
        epsilon: number("eps")?,
        weight_decay: number("weight_decay")?,
        clip: number("clip")?,
    };
    let rates = file.numbers("lrs").ok_or_else(|| file.lacks("lrs"))?;
    let malformed = |path, reason: String| GoldenError::Malformed { path, reason };
    let (tokens, shape) = words(file, "tokens")?;
    let (targets, _) = words(file, "targets")?;
    let &[steps, batch, context_length] = &shape[..] else {
        return Err(malformed(file.path.clone(), format!("tokens has shape {shape:?} where [steps, B, T] is needed")));
    };
    if steps != rates.len() || tokens.len() != targets.len() || steps == 0 {
        let reason = format!("{steps} steps of tokens, {} rates and {} targets", rates.len(), targets.len());
        return Err(malformed(file.path.clone(), reason));
    }
    let start = parameters(file, &config)?;
    let mut findings = Findings::default();
    findings.used.extend(config.parameters().into_iter().map(|parameter| parameter.name));
    findings.used.extend(["tokens".into(), "targets".into()]);
    for (form, rewrites) in [("fused", Rewrites::Fused), ("naive", Rewrites::Naive)] {
        let spec = ProgramSpec {
            config: config.clone(),
            batch,
            context_length,
            accumulation: 1,
            rewrites,
            recompute: Recompute::None,
            optimizer,
        };
        let training = Training {
            spec,
            start: start.clone(),
            rates: rates.clone(),
            tokens: tokens.clone(),
            targets: targets.clone(),
        };
        for (run, on) in &runs.0 {
            let failed = |reason: String| GoldenError::Failed { path: file.path.clone(), case: form.into(), reason };
            let program = build_program(&training.spec, on.profile(), Reuse::Pooled)
                .map_err(|error| failed(error.to_string()))?;
            let outputs = train(&training, &program, on).await.map_err(|error| failed(error.to_string()))?;
            let (run, factor) = (format!("{run} {form}"), Runs::factor(on));
            findings.found.push(Found { run, factor, case: String::new(), outputs });
        }
    }
    Ok(findings)
}

async fn train(training: &Training, program: &Program, on: &RunOn) -> Result<Tensors, ExecutionError> {
    let Training { spec, start, rates, tokens, targets } = training;
    let executor = WideExecutor::new(on, program.tape.clone(), &mut Pipelines::default()).await?;
    let buffers = &program.buffers;
    for (&buffer, tensor) in buffers.parameters.iter().zip(start) {
        executor.write(buffer, &tensor.contents)?;
    }
    let per_step = spec.batch * spec.context_length;
    let batch = |step: usize| -> Result<(), ExecutionError> {
        let own = step * per_step..(step + 1) * per_step;
        executor.write(buffers.tokens, &Contents::Words(tokens[own.clone()].to_vec()))?;
        executor.write(buffers.targets, &Contents::Words(targets[own].to_vec()))?;
        Ok(())
    };
    let (mut losses, mut norms) = (Vec::new(), Vec::new());
    for (step, &learning_rate) in rates.iter().enumerate() {
        let scalars = StepScalars { first_micro_batch: true, learning_rate, step: step as u64 };
        executor.write(buffers.scalars, &Contents::Real(scalars.wide_values(&spec.optimizer).to_vec()))?;
        batch(step)?;
        executor.run(segment::MICRO_STEP)?;
        executor.run(segment::UPDATE)?;
        losses.extend(executor.read(buffers.loss).await?);
        norms.push(executor.read(buffers.control).await?[gradient_norm::control::NORM]);
    }
    batch(0)?;
    executor.run(segment::EVALUATE)?;
    let after = executor.read(buffers.summary).await?[0];
    let mut outputs = Tensors::from([
        ("losses".into(), Tensor::real([losses.len()], losses)),
        ("grad_norms".into(), Tensor::real([norms.len()], norms)),
        ("loss_batch0_after".into(), Tensor::real([1], vec![after])),
    ]);
    for (parameter, &buffer) in spec.config.parameters().into_iter().zip(&buffers.parameters) {
        let values = executor.read(buffer).await?;
        outputs.insert(format!("final.{}", parameter.name), Tensor::real(parameter.shape, values));
    }
    Ok(outputs)
}
