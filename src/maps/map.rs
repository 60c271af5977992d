//! What a map is: the attention weights of one head over one text, and the maps of one model.

use std::fmt::Display;

use super::picture::label::label_within;

/// What the numbers of a map are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quantity {
    /// Attention weights.
    #[default]
    Weight,
    /// Weights less other weights: above 0 where there is more than in what they are compared with.
    Difference,
    /// The derivative of the loss by each weight, nats: below 0 where more weight would lower the loss.
    Gradient,
}

/// The attention weights of one head over one text, or another number for each of them.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadMap {
    pub layer: usize,
    pub head: usize,
    /// Tq, the rows.
    pub queries: usize,
    /// Tk, the columns.
    pub keys: usize,
    /// Row-major `[Tq, Tk]`; 0 where masked. Of what kind, [`Maps::quantity`] says.
    pub weights: Vec<f32>,
    /// Whether a query sees no later key: key j is masked for query i iff `j > i + Tk - Tq` (bottom-right alignment).
    pub causal: bool,
}

/// Maps of one model over one text.
#[derive(Clone, Debug, PartialEq)]
pub struct Maps {
    /// The text of each token, in order; any characters at all.
    pub tokens: Vec<String>,
    pub layers: usize,
    /// H of each layer.
    pub heads: usize,
    /// By layer, then head; only those that were asked for.
    pub maps: Vec<HeadMap>,
    pub quantity: Quantity,
    /// Where the weights come from, as a sentence ("rebuilt from query, key and log-sum-exp of the fused pass", "observed
    /// as 'weights' in line 12").
    pub source: String,
}

impl Quantity {
    /// Whether the numbers have a sign that matters.
    pub fn is_signed(self) -> bool {
        self != Self::Weight
    }

    /// What the numbers are called, one and several.
    pub fn names(self) -> [&'static str; 2] {
        match self {
            Self::Weight => ["weight", "weights"],
            Self::Difference => ["difference", "differences"],
            Self::Gradient => ["gradient", "gradients"],
        }
    }
}

/// The longest label of a token in a sentence, in columns.
const QUOTED: usize = 40;

/// A token with its position, for sentences.
pub(super) fn quoted(token: &str, position: impl Display) -> String {
    format!("\"{}\" ({position})", label_within(token, QUOTED))
}

impl Maps {
    /// The token at a row or a column of a map with `length` of them, for sentences. Queries and keys are the last tokens of
    /// the text.
    pub(super) fn quoted(&self, length: usize, at: usize) -> Option<String> {
        let position = (self.tokens.len() + at).checked_sub(length)?;
        Some(quoted(self.tokens.get(position)?, position))
    }
}

/// How far the sum of a softmax may be from 1.
const ROUNDING: f64 = 1e-3;

impl HeadMap {
    /// Whether the numbers can be those of a softmax: each row sums to 1 or sees nothing, and nothing is below 0.
    pub fn is_softmax(&self) -> bool {
        self.weights.chunks(self.keys.max(1)).all(|row| {
            let sum: f64 = row.iter().copied().map(f64::from).sum();
            row.iter().all(|&weight| weight >= 0.0) && ((sum - 1.0).abs() < ROUNDING || sum == 0.0)
        })
    }

    /// How many keys a query sees; they are the first ones.
    pub fn visible(&self, query: usize) -> usize {
        match self.causal {
            true => (query + 1 + self.keys).saturating_sub(self.queries).min(self.keys),
            false => self.keys,
        }
    }

    pub fn is_masked(&self, query: usize, key: usize) -> bool {
        self.causal && key + self.queries > query + self.keys
    }

    pub fn weight(&self, query: usize, key: usize) -> f32 {
        self.weights[query * self.keys + key]
    }
}
