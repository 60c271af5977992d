//! Pictures of maps: for a terminal, as SVG, PNG and HTML, and the weights themselves as JSON and safetensors.
//!
//! All of them are functions of the maps alone. Tokens may hold any characters: in a picture they stand as
//! [labels](label::label), in a file as the data they are.

mod cells;
mod colour;
mod counterparts;
mod drawing;
mod font;
mod html;
mod json;
pub mod label;
mod labelled;
mod letters;
mod markup;
mod multiples;
mod packed;
mod page;
#[cfg(feature = "cli")]
mod png;
mod raster;
mod svg;
mod tensors;
mod terminal;
mod tokens;
mod wrap;

#[cfg(test)]
pub mod examples;

#[cfg(feature = "cli")]
pub use self::png::png;
pub use cells::{Cell, Cells, Scale, Tone};
pub use colour::{Colour, Palette, Theme};
pub use drawing::{Anchor, Drawing, Shape, Text, name};
pub use html::html;
pub use json::json;
pub use letters::Letters;
pub use page::title;
pub use raster::Raster;
pub use svg::svg;
pub use tensors::tensors;
pub use terminal::{Ink, Room, terminal};
