//! The attention files that come with the program.

use super::Script;

/// A file that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Without `.star`.
    pub name: &'static str,
    source: &'static str,
}

impl Builtin {
    pub fn script(&self) -> Script {
        Script { file: format!("{}.star", self.name), source: self.source.into() }
    }
}

macro_rules! files {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        &[$(Builtin { name: $name, source: include_str!(concat!("../../assets/attention/", $folder, $name, ".star")) }),+]
    };
}

/// The attention of every model that has no other.
pub const REFERENCE: &Builtin =
    &Builtin { name: "reference", source: include_str!("../../assets/attention/reference.star") };

/// Other attentions that train.
pub const GALLERY: &[Builtin] = files!["":
    "alibi", "cosine", "learned_temperature", "no_projection", "relu", "shared_qk", "window",
];

/// Mistakes, each with the diagnosis that `check` gives it.
pub const BUGS: &[Builtin] = files!["bugs/":
    "infinity_times_zero", "leaks_one_token", "mask_after_softmax", "missing_transpose", "no_row_maximum", "no_scale",
    "scale_too_small", "wrong_axis",
];

/// The file of a name: `reference`, one of the gallery, or `bugs/NAME`.
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    match name.strip_prefix("bugs/") {
        Some(name) => BUGS.iter().find(|file| file.name == name),
        None if name == REFERENCE.name => Some(REFERENCE),
        None => GALLERY.iter().find(|file| file.name == name),
    }
}
