//! The attention files that come with the program.

use super::Script;

/// A file that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Without `.star`.
    pub name: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    source: &'static str,
}

impl Builtin {
    pub fn script(&self) -> Script {
        Script { file: format!("{}.star", self.name), source: self.source.into() }
    }
}

macro_rules! files {
    ($folder:literal: $($name:literal $summary:literal,)+) => {
        &[$(Builtin {
            name: $name,
            summary: $summary,
            source: include_str!(concat!("../../assets/attention/", $folder, $name, ".star")),
        }),+]
    };
}

/// The attention of every model that has no other.
pub const REFERENCE: &Builtin = &Builtin {
    name: "reference",
    summary: "causal multi-head attention",
    source: include_str!("../../assets/attention/reference.star"),
};

/// Other attentions that train.
pub const GALLERY: &[Builtin] = files!["":
    "alibi" "scores fall with the distance, in each head by another slope",
    "cosine" "scores are cosines times a learned factor",
    "learned_temperature" "each head learns how sharply it looks",
    "no_projection" "query, key and value are the input itself",
    "relu" "no softmax: weights are what is positive of the scores",
    "shared_qk" "queries are keys as well",
    "window" "each position sees the last 16 only",
];

/// Mistakes, each with the diagnosis that `check` gives it.
pub const BUGS: &[Builtin] = files!["bugs/":
    "infinity_times_zero" "a mask of minus infinity times 0",
    "leaks_one_token" "each position sees the next one",
    "mask_after_softmax" "the mask comes after the softmax",
    "missing_transpose" "the keys are not transposed",
    "no_row_maximum" "a softmax by hand, without the largest score taken off",
    "no_scale" "scores are not divided by sqrt(d_head)",
    "scale_too_small" "scores are divided by d_head squared",
    "wrong_axis" "the softmax runs down the columns",
];

/// The file of a name: `reference`, one of the gallery, or `bugs/NAME`.
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    match name.strip_prefix("bugs/") {
        Some(name) => BUGS.iter().find(|file| file.name == name),
        None if name == REFERENCE.name => Some(REFERENCE),
        None => GALLERY.iter().find(|file| file.name == name),
    }
}
