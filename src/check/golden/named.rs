//! Reference files of single ops, computed by the ops that [`crate::op`] runs by name.

use std::collections::{BTreeMap, BTreeSet};

use super::{Findings, Found, GoldenError, GoldenFile, Runs};
use crate::op::{self, AttentionForm, NamedOp, OpOptions, Tensors};

/// The op, its options and the ways to compute it for one case; or what it would need that is not built.
type Plan = Result<(&'static NamedOp, OpOptions), String>;

/// What the description may ask for beyond plain attention, by key.
const ATTENTION_OPTIONS: [&str; 4] = ["alibi", "softcap", "window", "dropout"];

/// Where the name of a case ends: the optimizer's tensors have dots of their own.
fn split<'a>(op: &str, name: &'a str) -> (&'a str, &'a str) {
    let parts = if op == "adamw" { name.split_once('.') } else { name.rsplit_once('.') };
    parts.unwrap_or(("", name))
}

fn plan(file: &GoldenFile, case: &str) -> Result<Plan, GoldenError> {
    let find = |name: &str| op::find(name).map_err(|_| name.to_string());
    let plain = |name: &str| find(name).map(|op| (op, OpOptions::default()));
    Ok(match file.op.as_str() {
        "sdpa" => {
            if let Some(option) = ATTENTION_OPTIONS.into_iter().find(|&option| !file.described[option].is_null()) {
                return Ok(Err(format!("sdpa with {option}")));
            }
            let own = &file.described["scales"][case];
            let scale = own.as_f64().or(file.number("scale")).ok_or_else(|| file.lacks("scale"))?;
            let causal = case == "causal" || file.described["causal"] == true;
            find("sdpa").map(|op| (op, OpOptions { causal, scale: Some(scale), ..OpOptions::default() }))
        }
        // Cases are named after the layout, the part of the layer or the function.
        "matmul" => plain(&format!("matmul_{}", case.split('_').next().unwrap_or_default())),
        "linear" => plain(case.split('_').next().unwrap_or_default()),
        "activations" => plain(case),
        "layernorm" => {
            let epsilon = file.number("eps").ok_or_else(|| file.lacks("eps"))?;
            find("layernorm").map(|op| (op, OpOptions { epsilon: Some(epsilon), ..OpOptions::default() }))
        }
        "adamw" => {
            let number = |key: &str| file.number(key).ok_or_else(|| file.lacks(key));
            let rates = match case {
                "cosine" => file.numbers("lrs_cosine").ok_or_else(|| file.lacks("lrs_cosine"))?,
                _ => vec![number("lr")?],
            };
            let betas = file.numbers("betas").and_then(|betas| betas.try_into().ok());
            let options = OpOptions {
                learning_rates: rates,
                betas: Some(betas.ok_or_else(|| file.lacks("betas"))?),
                epsilon: Some(number("eps")?),
                weight_decay: Some(number("weight_decay")?),
                clip: Some(if case == "noclip" { 0.0 } else { number("clip")? }),
                ..OpOptions::default()
            };
            find("adamw").map(|op| (op, options))
        }
        other => plain(other),
    })
}

/// The tensors of a case, by the names that the op knows, and the names they have in the file.
fn inputs(file: &mut GoldenFile, op: &NamedOp, case: &str) -> Result<(Tensors, Vec<String>), GoldenError> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    if op.tensors.is_empty() {
        for name in file.names().into_iter().filter(|name| !file.outputs.contains_key(name)) {
            let (of, own) = split(&file.op, &name);
            if of == case {
                names.insert(own.into(), name);
            }
        }
    }
    for tensor in op.tensors {
        let own = tensor.name();
        let qualified = format!("{case}.{own}");
        if let Some(name) = [qualified.as_str(), own].into_iter().find(|name| file.has_input(name)) {
            names.insert(own.into(), name.into());
        }
    }
    let mut tensors = Tensors::new();
    for (own, name) in &names {
        tensors.insert(own.clone(), file.input(name)?);
    }
    Ok((tensors, names.into_values().collect()))
}

pub(super) async fn evaluate(file: &mut GoldenFile, runs: &Runs) -> Result<Findings, GoldenError> {
    let mut findings = Findings::default();
    let cases: BTreeSet<String> = file.outputs.keys().map(|name| split(&file.op, name).0.to_string()).collect();
    let mut unbuilt: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for case in cases {
        let (op, options) = match plan(file, &case)? {
            Ok(planned) => planned,
            Err(missing) => {
                let own = |name: &&String| split(&file.op, name).0 == case;
                findings.unbuilt.extend(file.outputs.keys().filter(own).cloned());
                unbuilt.entry(missing).or_default().push(case);
                continue;
            }
        };
        let (tensors, used) = inputs(file, op, &case)?;
        findings.used.extend(used);
        let forms: &[(&str, Option<AttentionForm>)] = match op.name {
            "sdpa" => &[(" fused", Some(AttentionForm::Fused)), (" naive", Some(AttentionForm::Naive))],
            _ => &[("", None)],
        };
        for (run, on) in &runs.0 {
            for (suffix, kernel) in forms {
                let options = OpOptions { kernel: *kernel, ..options.clone() };
                let outputs = op.run(&tensors, &options, on).await.map_err(|error| GoldenError::Failed {
                    path: file.path.clone(),
                    case: case.clone(),
                    reason: error.to_string(),
                })?;
                let qualified = |name: String| if case.is_empty() { name } else { format!("{case}.{name}") };
                findings.found.push(Found {
                    run: format!("{run}{suffix}"),
                    factor: Runs::factor(on),
                    case: case.clone(),
                    outputs: outputs.into_iter().map(|(name, tensor)| (qualified(name), tensor)).collect(),
                });
            }
        }
    }
    // Inputs that only unbuilt cases use are accounted for: with no case built, all of them.
    if !unbuilt.is_empty() {
        let built: BTreeSet<&str> = findings.found.iter().map(|found| found.case.as_str()).collect();
        let own = |name: &String| built.is_empty() || !built.contains(split(&file.op, name).0);
        findings.used.extend(file.names().into_iter().filter(own));
    }
    for (op, cases) in unbuilt {
        let cases = cases.into_iter().filter(|case| !case.is_empty() && *case != op).collect::<Vec<_>>().join(", ");
        findings.missing_ops.push(if cases.is_empty() { op } else { format!("{op} ({cases})") });
    }
    Ok(findings)
}
