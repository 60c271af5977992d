//! `adamw`: optimizer steps over tensors of any names, by the launches that training uses.
//!
//! Inputs: `p0.NAME`, a parameter before the first step, and `g.NAME [steps, ..]`, its gradient in each step. Outputs:
//! `p.NAME [steps, ..]` after each step, the moments `m.NAME` and `v.NAME` after the last, and `grad_norm [steps]`, the
//! norm over all gradients together before clipping. Tensors of two or more dimensions decay.

use super::{Body, NamedOp, OpError, OpOption, OpOptions, Tensors};
use crate::gpu::Pipelines;
use crate::graph::{Reuse, TapeBuilder};
use crate::kernel::{adamw, gradient_norm};
use crate::tape::{Category, Contents, ElementKind, RunOn, Tensor, WideExecutor};
use crate::train::update::{Optimizer, StepScalars, UpdateBuffers, UpdatedParameter, append_update};

pub static OP: NamedOp = NamedOp {
    name: "adamw",
    formula: "AdamW steps: p0.NAME [..] and g.NAME [steps,..] for any NAMEs",
    gives: "p.NAME after each step, m.NAME, v.NAME, grad_norm [steps]",
    tensors: &[],
    options: &[OpOption::LearningRate, OpOption::Betas, OpOption::Epsilon, OpOption::WeightDecay, OpOption::Clip],
    body: Body::Optimizer,
};

/// A parameter with its gradient of each step.
struct Given<'a> {
    name: &'a str,
    start: &'a Tensor,
    gradients: &'a [f64],
}

/// Pairs parameters with gradients, and finds the number of steps.
fn pair(inputs: &Tensors) -> Result<(Vec<Given<'_>>, usize), OpError> {
    let mut faults = Vec::new();
    let mut given = Vec::new();
    let mut steps = None;
    for (name, tensor) in inputs {
        if tensor.is_empty() || matches!(tensor.contents, Contents::Words(_)) {
            faults.push(format!("{} holds no numbers", name.escape_debug()));
            continue;
        }
        if let Some(own) = name.strip_prefix("g.") {
            if !inputs.contains_key(&format!("p0.{own}")) {
                faults.push(format!("p0.{own} is missing"));
            }
        } else if let Some(own) = name.strip_prefix("p0.") {
            let Some(gradient) = inputs.get(&format!("g.{own}")) else {
                faults.push(format!("g.{own} is missing"));
                continue;
            };
            match gradient.shape.split_first() {
                Some((&count, rest)) if rest == tensor.shape && *steps.get_or_insert(count) == count => {
                    given.push(Given { name: own, start: tensor, gradients: gradient.values() });
                }
                _ => {
                    let count = steps.map_or("steps".to_string(), |steps: usize| steps.to_string());
                    let wanted: Vec<String> =
                        [count].into_iter().chain(tensor.shape.iter().map(usize::to_string)).collect();
                    let (found, wanted) = (&gradient.shape, wanted.join(", "));
                    faults.push(format!("g.{own} has shape {found:?} where [{wanted}] is needed"));
                }
            }
        } else {
            faults.push(format!("{} is neither p0.NAME nor g.NAME", name.escape_debug()));
        }
    }
    match (faults.is_empty(), steps) {
        (true, Some(steps)) => Ok((given, steps)),
        (true, None) => Err(OpError::Tensors { op: OP.name, faults: "p0.NAME and g.NAME are missing".into() }),
        (false, _) => Err(OpError::Tensors { op: OP.name, faults: faults.join("; ") }),
    }
}

pub(super) async fn run(inputs: &Tensors, options: &OpOptions, on: &RunOn) -> Result<Tensors, OpError> {
    let (given, steps) = pair(inputs)?;
    let [beta1, beta2] = options.betas.unwrap_or([0.9, 0.95]);
    let optimizer = Optimizer {
        beta1,
        beta2,
        epsilon: options.epsilon.unwrap_or(1e-8),
        weight_decay: options.weight_decay.unwrap_or(0.1),
        clip: options.clip.unwrap_or(0.0),
    };
    let rate = |step: usize| match options.learning_rates[..] {
        [] => Ok(1e-3),
        [only] => Ok(only),
        ref rates if rates.len() == steps => Ok(rates[step]),
        ref rates => {
            let faults = format!("{} learning rates for {steps} steps: one for all or one a step", rates.len());
            Err(OpError::Tensors { op: OP.name, faults })
        }
    };

    let mut tape = TapeBuilder::new(on.profile().cloned(), Reuse::Pooled);
    let mut updated = Vec::new();
    for Given { name, start, .. } in &given {
        let elements = u32::try_from(start.len()).map_err(|_| OpError::Tensors {
            op: OP.name,
            faults: format!("p0.{name} has {} elements, more than a kernel can count (2^32)", start.len()),
        })?;
        let mut real = |suffix: &str, category| {
            tape.persistent(format!("{name}{suffix}"), u64::from(elements), ElementKind::Real, category)
        };
        updated.push(UpdatedParameter {
            name: (*name).into(),
            elements,
            decays: start.shape.len() > 1,
            parameter: real("", Category::Parameter),
            gradient: real(".gradient", Category::Gradient),
            first_moment: real(".first_moment", Category::OptimizerState),
            second_moment: real(".second_moment", Category::OptimizerState),
        });
    }
    let mut control =
        |name: &str, elements: usize, kind| tape.persistent(name, elements as u64, kind, Category::Control);
    let buffers = UpdateBuffers {
        scalars: control("step_scalars", adamw::scalars::LENGTH, ElementKind::Real),
        loss: control("loss", 1, ElementKind::Real),
        control: control("control", gradient_norm::control::LENGTH, ElementKind::Real),
        flags: control("flags", gradient_norm::flags::LENGTH, ElementKind::Words),
    };
    tape.begin_segment("update");
    append_update(&mut tape, &optimizer, &updated, buffers);
    let executor = WideExecutor::new(on, tape.finish()?, &mut Pipelines::default()).await?;

    for (given, updated) in given.iter().zip(&updated) {
        executor.write(updated.parameter, &given.start.contents)?;
    }
    let mut after: Vec<Vec<f64>> = vec![Vec::new(); given.len()];
    let mut norms = Vec::with_capacity(steps);
    for step in 0..steps {
        let scalars = StepScalars { first_micro_batch: true, learning_rate: rate(step)?, step: step as u64 };
        executor.write(buffers.scalars, &Contents::Real(scalars.wide_values(&optimizer).to_vec()))?;
        for (given, updated) in given.iter().zip(&updated) {
            let own = step * given.start.len()..(step + 1) * given.start.len();
            executor.write(updated.gradient, &Contents::Real(given.gradients[own].to_vec()))?;
        }
        executor.run(0)?;
        let control = executor.read(buffers.control).await?;
        if control[gradient_norm::control::COEFFICIENT] == 0.0 {
            // The update was left out, as in training.
            return Err(OpError::Overflow { step: step + 1 });
        }
        norms.push(control[gradient_norm::control::NORM]);
        for (after, updated) in after.iter_mut().zip(&updated) {
            after.extend(executor.read(updated.parameter).await?);
        }
    }
    let mut outputs = Tensors::from([("grad_norm".into(), Tensor::real([steps], norms))]);
    for ((given, updated), after) in given.iter().zip(&updated).zip(after) {
        let shape = given.start.shape.clone();
        outputs.insert(format!("p.{}", given.name), Tensor::real([&[steps], &shape[..]].concat(), after));
        for (prefix, buffer) in [("m", updated.first_moment), ("v", updated.second_moment)] {
            let values = executor.read(buffer).await?;
            outputs.insert(format!("{prefix}.{}", given.name), Tensor::real(shape.clone(), values));
        }
    }
    Ok(outputs)
}
