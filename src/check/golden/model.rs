//! A whole model: logits, loss, attention, residual stream and every gradient, with naive and with fused attention.

use super::{Findings, Found, GoldenError, GoldenFile, Runs};
use crate::model::GptConfig;
use crate::model::trace::{TraceRequest, trace};
use crate::tape::{Contents, Tensor};

/// The configuration that the description gives.
pub(super) fn config(file: &GoldenFile) -> Result<GptConfig, GoldenError> {
    let size = |key| file.model_size(key);
    let malformed = |reason: String| GoldenError::Malformed { path: file.path.clone(), reason };
    let mut config = GptConfig::new(size("vocab")?, size("block")?, size("n_layer")?, size("n_head")?, size("n_embd")?)
        .map_err(|error| malformed(error.to_string()))?;
    config.mlp_width = size("mlp")?;
    config.layer_norm_epsilon =
        file.described["config"]["ln_eps"].as_f64().ok_or_else(|| file.lacks("config.ln_eps"))?;
    config.validate().map_err(|error| malformed(error.to_string()))?;
    let described = &file.described["config"];
    let activation = described["activation"].as_str().unwrap_or_default();
    let plain = ["bias", "pre_ln", "tied"].iter().all(|key| described[key] == true);
    match plain && activation.contains("gelu_new") {
        true => Ok(config),
        false => Err(malformed("it is no GPT-2 with biases, pre-norm, shared output and gelu_new".into())),
    }
}

/// A tensor of token ids.
pub(super) fn words(file: &mut GoldenFile, name: &str) -> Result<(Vec<u32>, Vec<usize>), GoldenError> {
    match file.input(name)? {
        Tensor { shape, contents: Contents::Words(words) } => Ok((words, shape)),
        Tensor { .. } => {
            Err(GoldenError::Malformed { path: file.path.clone(), reason: format!("{name} holds no integers") })
        }
    }
}

/// The model's parameters, under the names of the model.
pub(super) fn parameters(file: &mut GoldenFile, config: &GptConfig) -> Result<Vec<Tensor>, GoldenError> {
    config
        .parameters()
        .into_iter()
        .map(|parameter| {
            let tensor = file.input(&parameter.name)?;
            match tensor.shape == parameter.shape && matches!(tensor.contents, Contents::Real(_)) {
                true => Ok(tensor),
                false => Err(GoldenError::Malformed {
                    path: file.path.clone(),
                    reason: format!(
                        "{} has shape {:?} where {:?} is needed",
                        parameter.name, tensor.shape, parameter.shape
                    ),
                }),
            }
        })
        .collect()
}

pub(super) async fn evaluate(file: &mut GoldenFile, runs: &Runs) -> Result<Findings, GoldenError> {
    let config = config(file)?;
    let parameters = parameters(file, &config)?;
    let (tokens, shape) = words(file, "tokens")?;
    let (targets, _) = words(file, "targets")?;
    let path = file.path.clone();
    let shape: [usize; 2] = shape.try_into().map_err(|shape| GoldenError::Malformed {
        path: path.clone(),
        reason: format!("tokens has shape {shape:?} where [B, T] is needed"),
    })?;
    let mut findings = Findings::default();
    findings.used.extend(config.parameters().into_iter().map(|parameter| parameter.name));
    findings.used.extend(["tokens".into(), "targets".into()]);
    for (run, on) in &runs.0 {
        for (form, fused) in [("fused", true), ("naive", false)] {
            let request = TraceRequest { attention: true, activations: true, gradients: true, fused };
            let outputs = trace(&config, &parameters, (&tokens, shape), &targets, request, on).await;
            let outputs = outputs.map_err(|error| GoldenError::Failed {
                path: path.clone(),
                case: form.into(),
                reason: error.to_string(),
            })?;
            findings.found.push(Found {
                run: format!("{run} {form}"),
                factor: Runs::factor(on),
                case: String::new(),
                outputs: outputs.into_iter().collect(),
            });
        }
    }
    Ok(findings)
}
