//! Attention maps: which token each head of a model looks at in a text, and what there is to see in them.
//! `docs/maps.md` defines every score.

mod ablate;
mod alike;
mod changes;
mod courses;
mod difference;
mod gradients;
mod map;
mod measures;
mod outstanding;
mod panel;
mod patterns;
pub mod picture;
mod predictions;
mod pulls;
mod readable;
mod sentences;
mod sources;
#[cfg(test)]
mod toy;
mod weights;

pub use ablate::{Ablation, AblationError, Ablations, Reading, ablate};
pub use alike::{HeadPair, pairs_by_distance};
pub use changes::{changes, standing_out};
pub use courses::{courses, evenly};
pub use difference::{NothingInCommon, aligned, difference};
pub use gradients::{Gradients, weight_gradients};
pub use map::{HeadMap, Maps, Quantity};
pub use measures::{FACTOR, HeadMeasures, LEAST_QUERIES, LEAST_WEIGHT, Measure, measure};
pub use outstanding::{first_row, outstanding};
pub use panel::Panel;
pub use patterns::{Pattern, Reference};
pub use predictions::{Candidate, Following, NotFinite, Prediction, TextLoss, predictions, text_loss};
pub use pulls::pulls;
pub use readable::Unreadable;
pub use sentences::{Finding, find, sentences};
pub use weights::{HeadChoice, MAP_BYTES, MapError, NoSuchHead, attention_maps};
