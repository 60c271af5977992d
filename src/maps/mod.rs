//! Attention maps: which token each head of a model looks at in a text, and what there is to see in them.
//! `docs/maps.md` defines every score.

mod ablate;
mod alike;
mod difference;
mod map;
mod measures;
mod outstanding;
mod panel;
mod patterns;
pub mod picture;
mod predictions;
mod sentences;
mod sources;
mod weights;

pub use ablate::{Ablation, AblationError, Ablations, Reading, ablate};
pub use alike::{HeadPair, pairs_by_distance};
pub use difference::{NothingInCommon, aligned, difference};
pub use map::{HeadMap, Maps, Quantity};
pub use measures::{FACTOR, HeadMeasures, LEAST_QUERIES, LEAST_WEIGHT, Measure, measure};
pub use outstanding::outstanding;
pub use panel::Panel;
pub use patterns::{Pattern, Reference};
pub use predictions::{Candidate, Following, NotFinite, Prediction, TextLoss, predictions, text_loss};
pub use sentences::{Finding, find, sentences};
pub use weights::{HeadChoice, MapError, NoSuchHead, attention_maps};
