//! A picture as pixels.

use super::cells::Cell;
use super::colour::{Colour, Palette, Theme};
use super::drawing::{Anchor, BAR_WIDTH, Drawing, Shape, Text, gap_of};
use super::font::{ASCENT, WIDTH, glyph};
use super::label::{code, width};

/// Pixels of a unit: letters are drawn with dots of this size.
const DENSITY: usize = 2;

/// A picture of red, green and blue bytes, row by row from the top.
#[derive(Clone, Debug, PartialEq)]
pub struct Raster {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<u8>,
}

impl Raster {
    /// The pixels of a picture.
    pub fn of(drawing: &Drawing, theme: Theme) -> Self {
        let palette = theme.palette();
        let (width, height) = (drawing.width * DENSITY, drawing.height * DENSITY);
        let mut raster = Self { width, height, pixels: vec![0; width * height * 3] };
        raster.fill((0, 0), (width, height), |_, _| palette.ground);
        for shape in &drawing.shapes {
            match shape {
                Shape::Cells { x, y, size, cells } => {
                    let side = (size - gap_of(*size)) * DENSITY;
                    for (at, &cell) in cells.cells.iter().enumerate() {
                        let (row, column) = (at / cells.columns, at % cells.columns);
                        let corner = ((x + column * size) * DENSITY, (y + row * size) * DENSITY);
                        raster.fill(corner, (side, side), |x, y| colour(cell, theme, &palette, x + y));
                    }
                }
                Shape::Ramp { x, y, height, signed } => {
                    let (top, height) = (y * DENSITY, height * DENSITY);
                    let of_row = |y: usize| match (1.0 - (y - top) as f64 / (height - 1) as f64, signed) {
                        (share, false) => theme.weight(share),
                        (share, true) => theme.signed(2.0 * share - 1.0),
                    };
                    raster.fill((x * DENSITY, top), (BAR_WIDTH * DENSITY, height), |_, y| of_row(y));
                }
                Shape::Text(text) => raster.text(text, if text.faint { palette.faint } else { palette.text }),
            }
        }
        raster
    }

    /// The colour of a pixel.
    pub fn at(&self, x: usize, y: usize) -> Colour {
        let at = (y * self.width + x) * 3;
        Colour { red: self.pixels[at], green: self.pixels[at + 1], blue: self.pixels[at + 2] }
    }

    /// Colours the part of a rectangle that lies within the picture.
    fn fill(
        &mut self,
        (left, top): (usize, usize),
        (width, height): (usize, usize),
        colour: impl Fn(usize, usize) -> Colour,
    ) {
        for y in top..(top + height).min(self.height) {
            for x in left..(left + width).min(self.width) {
                let Colour { red, green, blue } = colour(x, y);
                let at = (y * self.width + x) * 3;
                self.pixels[at..at + 3].copy_from_slice(&[red, green, blue]);
            }
        }
    }

    /// Writes a text. A letter that the font lacks is written by its code.
    fn text(&mut self, text: &Text, colour: Colour) {
        let mut letters = String::new();
        for letter in text.text.chars() {
            match glyph(letter) {
                Some(_) => letters.push(letter),
                None => letters.push_str(&code(letter)),
            }
        }
        // What was laid out as one letter keeps its room, and its end.
        let room = width(&text.text);
        let letters: Vec<char> = letters.chars().collect();
        let kept = match letters.len() > room && room > 0 {
            true => letters[..room - 1].iter().copied().chain(['…']).collect(),
            false => letters,
        };
        let dot = text.scale * DENSITY;
        let advance = (WIDTH + 1) * dot;
        let (x, y) = (text.x * DENSITY, text.y * DENSITY);
        let start = match text.anchor {
            Anchor::Start => 0,
            Anchor::End => kept.len() * advance,
        };
        for (at, letter) in kept.into_iter().enumerate() {
            for (row, bits) in glyph(letter).into_iter().flatten().enumerate() {
                for column in (0..WIDTH).filter(|column| bits >> (WIDTH - 1 - column) & 1 == 1) {
                    let along = at * advance + column * dot;
                    // Dots above the picture's edge would have a negative place; layouts have none.
                    let corner = match text.turned {
                        false => ((x + along).saturating_sub(start), (y + row * dot).saturating_sub(ASCENT * dot)),
                        true => ((x + row * dot).saturating_sub(ASCENT * dot), (y + start).saturating_sub(along + dot)),
                    };
                    self.fill(corner, (dot, dot), |_, _| colour);
                }
            }
        }
    }
}

/// The colour of a pixel of a cell; the hatching of masked cells runs through all of them.
fn colour(cell: Cell, theme: Theme, palette: &Palette, diagonal: usize) -> Colour {
    match cell {
        Cell::Masked if diagonal % (6 * DENSITY) < DENSITY + DENSITY / 2 => palette.hatch,
        Cell::Masked => palette.masked,
        Cell::NotANumber => palette.not_a_number,
        Cell::Weight(weight) => theme.weight(f64::from(weight)),
        Cell::Signed(number) => theme.signed(f64::from(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::Letters;
    use crate::maps::picture::cells::Scale;
    use crate::maps::picture::examples::{HOSTILE, alone, causal, of_rows, text};

    fn head(tokens: &[&str], map: crate::maps::HeadMap, theme: Theme) -> (Drawing, Raster) {
        let maps = text(tokens, vec![map]);
        let drawing = Drawing::of(&[alone(&maps)], Scale::Fixed, &[], Letters::Drawn);
        let raster = Raster::of(&drawing, theme);
        (drawing, raster)
    }

    #[test]
    fn a_cell_has_the_colour_of_its_weight_and_a_masked_one_is_hatched() {
        for theme in [Theme::Light, Theme::Dark] {
            let map = of_rows(&[&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0], &[0.125, 0.875, f32::NAN]], true);
            let (drawing, raster) = head(&["a", "b", "c"], map, theme);
            let (x, y, size) = drawing
                .shapes
                .iter()
                .find_map(|shape| match shape {
                    Shape::Cells { x, y, size, cells } if cells.rows == 3 => Some((*x, *y, *size)),
                    _ => None,
                })
                .unwrap();
            let pixels = |row: usize, column: usize| -> Vec<Colour> {
                let inside = 1..size * DENSITY - 3;
                inside.map(|at| raster.at((x + column * size) * DENSITY + at, (y + row * size) * DENSITY + 5)).collect()
            };
            for (row, column, weight) in [(0, 0, 1.0), (1, 0, 0.0), (2, 0, 0.125), (2, 1, 0.875)] {
                assert!(pixels(row, column).iter().all(|&colour| colour == theme.weight(weight)), "{row}, {column}");
            }
            let palette = theme.palette();
            assert!(pixels(2, 2).iter().all(|&colour| colour == palette.not_a_number));
            let masked = pixels(0, 2);
            assert!(masked.contains(&palette.masked) && masked.contains(&palette.hatch));
            assert!(masked.iter().all(|&colour| colour == palette.masked || colour == palette.hatch));
        }
    }

    #[test]
    fn any_text_is_drawn() {
        for hostile in HOSTILE.into_iter().chain(["\u{4e2d}\u{6587}", "e\u{301}", ""]) {
            let (drawing, raster) = head(&[hostile, "b"], causal(2, 2), Theme::Dark);
            assert_eq!(raster.pixels.len(), drawing.width * drawing.height * DENSITY * DENSITY * 3);
        }
    }

    #[test]
    fn different_tokens_give_different_pictures() {
        let pictures =
            ["a", " ", "\t", "\n", "\u{a0}", "\u{e9}"].map(|token| head(&[token], causal(1, 1), Theme::Light).1);
        for (at, one) in pictures.iter().enumerate() {
            assert!(!pictures[at + 1..].contains(one), "picture {at} is drawn twice");
        }
    }
}
