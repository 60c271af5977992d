//! Learning rates: computed on the host alone.

use super::{Findings, Found, GoldenError, GoldenFile};
use crate::op::Tensors;
use crate::tape::{Contents, Tensor};
use crate::train::LearningRateSchedule;

pub(super) fn evaluate(file: &mut GoldenFile) -> Result<Findings, GoldenError> {
    let mut findings = Findings::default();
    let configs = file.described["configs"].as_object().cloned().ok_or_else(|| file.lacks("configs"))?;
    for (case, config) in configs {
        let number = |key: &str| config[key].as_f64().ok_or_else(|| file.lacks(&format!("configs.{case}.{key}")));
        let (peak, minimum) = (number("lr")?, number("min_lr")?);
        let (warm_up, steps) = (number("warmup")? as u64, number("decay")? as u64);
        let schedule = LearningRateSchedule { peak, minimum, warm_up, steps };
        let name = format!("{case}.it");
        let asked = file.input(&name)?;
        let Contents::Words(words) = &asked.contents else { return Err(file.lacks(&name)) };
        let rates = words.iter().map(|&step| schedule.rate(u64::from(step))).collect();
        findings.used.insert(name);
        findings.found.push(Found {
            run: "host".into(),
            factor: 1.0,
            outputs: Tensors::from([(format!("{case}.lr"), Tensor::real(asked.shape.clone(), rates))]),
            case,
        });
    }
    Ok(findings)
}
