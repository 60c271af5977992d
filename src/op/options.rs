//! What an op can be told beside its tensors.

use super::{NamedOp, OpError};

/// How attention is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AttentionForm {
    /// One kernel that never holds the scores.
    #[default]
    Fused,
    /// Scores, mask, softmax and product, one after the other.
    Naive,
}

/// The options there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpOption {
    Causal,
    Scale,
    Kernel,
    Epsilon,
    LearningRate,
    Betas,
    WeightDecay,
    Clip,
}

impl OpOption {
    /// Its flag.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Causal => "--causal",
            Self::Scale => "--scale",
            Self::Kernel => "--kernel",
            Self::Epsilon => "--epsilon",
            Self::LearningRate => "--learning-rate",
            Self::Betas => "--betas",
            Self::WeightDecay => "--weight-decay",
            Self::Clip => "--clip",
        }
    }
}

/// Values of the options; `None` where the op's default holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpOptions {
    /// Query `i` sees key `j` iff `j <= i + Tk - Tq`.
    pub causal: bool,
    /// Multiplies the scores; 1/sqrt(D) by default.
    pub scale: Option<f64>,
    pub kernel: Option<AttentionForm>,
    /// Added under the root (layer norm, 1e-5) or to it (AdamW, 1e-8).
    pub epsilon: Option<f64>,
    /// One rate for all steps, or one a step; 1e-3 by default.
    pub learning_rates: Vec<f64>,
    /// Decay rates of the moments; 0.9 and 0.95 by default.
    pub betas: Option<[f64; 2]>,
    /// Share of a parameter of two or more dimensions that a step of rate 1 takes off; 0.1 by default.
    pub weight_decay: Option<f64>,
    /// Largest norm of all gradients together; 0, the default, for none.
    pub clip: Option<f64>,
}

impl OpOptions {
    /// The options that were given.
    fn given(&self) -> Vec<OpOption> {
        [
            (self.causal, OpOption::Causal),
            (self.scale.is_some(), OpOption::Scale),
            (self.kernel.is_some(), OpOption::Kernel),
            (self.epsilon.is_some(), OpOption::Epsilon),
            (!self.learning_rates.is_empty(), OpOption::LearningRate),
            (self.betas.is_some(), OpOption::Betas),
            (self.weight_decay.is_some(), OpOption::WeightDecay),
            (self.clip.is_some(), OpOption::Clip),
        ]
        .into_iter()
        .filter_map(|(given, option)| given.then_some(option))
        .collect()
    }

    /// Whether `op` takes the options that were given, with values it can use.
    pub(super) fn check(&self, op: &NamedOp, stored_as_f32: bool) -> Result<(), OpError> {
        if let Some(option) = self.given().into_iter().find(|option| !op.options.contains(option)) {
            let known = match op.options {
                [] => "no options".into(),
                options => options.iter().map(|option| option.flag()).collect::<Vec<_>>().join(", "),
            };
            return Err(OpError::Option { op: op.name, option: option.flag(), known });
        }
        // What must be above 0 must not become 0 by being stored.
        let stored = |value: f64| if stored_as_f32 { f64::from(value as f32) } else { value };
        let finite = |option: OpOption, value: f64, holds: bool, wanted| match holds && stored(value).is_finite() {
            true => Ok(()),
            false => Err(OpError::Value { option: option.flag(), value, wanted }),
        };
        if let Some(scale) = self.scale {
            finite(OpOption::Scale, scale, true, "a finite number")?;
        }
        if let Some(epsilon) = self.epsilon {
            finite(OpOption::Epsilon, epsilon, stored(epsilon) > 0.0, "above 0 as it is stored")?;
        }
        for &rate in &self.learning_rates {
            finite(OpOption::LearningRate, rate, rate >= 0.0, "0 or more")?;
        }
        for &beta in self.betas.iter().flatten() {
            finite(OpOption::Betas, beta, (0.0..1.0).contains(&beta), "0 or more and below 1")?;
        }
        if let Some(decay) = self.weight_decay {
            finite(OpOption::WeightDecay, decay, decay >= 0.0, "0 or more")?;
        }
        match self.clip {
            Some(clip) => finite(OpOption::Clip, clip, clip >= 0.0, "0 (none) or more"),
            None => Ok(()),
        }
    }
}
