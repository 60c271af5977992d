//! All that a check found.

use serde::Serialize;

use super::case::Case;
use super::causality::Causality;
use super::comparison::{Row, Stored};
use super::dependence::{Dependence, RowsMix};
use super::diagnosis::{Finding, Refusal};
use super::line_trace::LineTrace;
use super::measures::Measures;
use super::shift::Shifted;
use super::weights::Source;
use crate::model::causality::Causality as ModelCausality;

/// Whether training joins the ops of attention into one kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fusion {
    pub fused: bool,
    /// What it became, or why it stays as written.
    pub words: String,
}

/// What was measured of the weights on one set of inputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    pub case: Case,
    /// How weights were found; `None` where none were.
    pub source: Option<Source>,
    pub theirs: Option<Measures>,
    pub reference: Option<Measures>,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub file: String,
    /// The function in the closed form's place.
    pub against: Option<String>,
    pub passed: bool,
    /// Sets of random inputs that were compared.
    pub inputs: usize,
    pub rows: Vec<Row>,
    pub refusals: Vec<Refusal>,
    pub findings: Vec<Finding>,
    pub measured: Option<Measured>,
    pub causality: Vec<Causality>,
    /// The same through a model of two layers; `None` where the function does not run in one.
    pub through_model: Option<ModelCausality>,
    /// What moves the output; `None` where it is not finite.
    pub dependence: Option<Dependence>,
    pub rows_mix: Option<RowsMix>,
    /// `None` where queries or keys are used outside of the scores.
    pub shifted: Option<Shifted>,
    /// Names of learned parameters, which had their initial values.
    pub parameters: Vec<String>,
    pub fusion: Vec<Fusion>,
    pub trace: Option<LineTrace>,
    /// What the script printed while it was traced for the first shape.
    pub printed: Vec<String>,
}

impl Report {
    /// Whether all rows of a form agree.
    pub fn agrees(&self, stored: Stored) -> bool {
        self.rows.iter().all(|row| row.stored != stored || row.agrees)
    }

    /// A row that is not finite in f32, where all of f64 is.
    pub fn in_f32_only(&self) -> Option<&Row> {
        let bad = |stored: Stored| self.rows.iter().find(|row| row.stored == stored && !row.worst.theirs.is_finite());
        bad(Stored::F32).filter(|_| bad(Stored::F64).is_none())
    }
}
