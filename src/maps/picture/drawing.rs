//! What a picture consists of and where it lies, before it is written as SVG or as pixels.
//!
//! One unit is a pixel of SVG. All letters are of one width, [`ADVANCE`], so that what fits can be reckoned without a font.

use super::cells::{Cells, Scale};
use super::labelled::{MOST, labelled};
use super::letters::Letters;
use super::multiples::multiples;
use crate::maps::{HeadMap, Panel};

/// The width of a letter, and the distance of two lines of text.
pub const ADVANCE: usize = 6;
pub const LINE: usize = 14;
/// How much larger the letters of a title are.
pub const TITLE: usize = 2;

/// The colour bar's width.
pub const BAR_WIDTH: usize = 14;

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    pub width: usize,
    pub height: usize,
    /// What the picture shows, in one line.
    pub title: String,
    pub shapes: Vec<Shape>,
}

/// A part of a picture; x and y are its upper left corner, or where its text stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Cells of `size` a side.
    Cells {
        x: usize,
        y: usize,
        size: usize,
        cells: Cells,
    },
    /// The ramp, from a weight of 1 at the top to 0, or from 1 to -1 for numbers with a sign.
    Ramp {
        x: usize,
        y: usize,
        height: usize,
        signed: bool,
    },
    Text(Text),
}

/// One line of text; `y` is its base line.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    pub x: usize,
    pub y: usize,
    pub text: String,
    pub anchor: Anchor,
    /// How often as large as a label.
    pub scale: usize,
    pub faint: bool,
    /// Written upwards: x is the base line then, and the text begins at y.
    pub turned: bool,
}

/// Which end of a text stands at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    End,
}

impl Text {
    pub(super) fn line(x: usize, y: usize, text: impl Into<String>) -> Self {
        Self { x, y, text: text.into(), anchor: Anchor::Start, scale: 1, faint: false, turned: false }
    }

    pub(super) fn faint(self) -> Self {
        Self { faint: true, ..self }
    }

    pub(super) fn ending(self) -> Self {
        Self { anchor: Anchor::End, ..self }
    }
}

/// What is left free between cells of a size: large ones are told apart by it, small ones would vanish in it.
pub fn gap_of(size: usize) -> usize {
    usize::from(size >= 12)
}

/// The name of one head in titles.
pub fn name(map: &HeadMap) -> String {
    format!("layer {}, head {}", map.layer, map.head)
}

impl Drawing {
    /// Maps of one panel, or of several beside each other. A map that stands alone, or beside one or two others, has the
    /// labels of its tokens; of more there are small multiples. The scale, `notes` and where the numbers come from are told
    /// with them.
    pub fn of(panels: &[Panel], scale: Scale, notes: &[String], letters: Letters) -> Self {
        let alone = panels.iter().all(|panel| panel.maps.maps.len() == 1);
        match alone && (1..=MOST).contains(&panels.len()) {
            true => labelled(panels, scale, notes, letters),
            false => multiples(panels, scale, notes, letters),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::examples::{alone, causal, of_rows, text};
    use crate::maps::picture::label::width;
    use crate::maps::{Maps, Quantity};

    /// The place of a text: left, top, right, bottom.
    fn extent(text: &Text) -> [isize; 4] {
        let [x, y, long] = [text.x, text.y, text.scale * ADVANCE * width(&text.text)].map(|at| at as isize);
        let (height, ends) = (8 * text.scale as isize, text.anchor == Anchor::End);
        match (text.turned, ends) {
            (true, _) => [x - height, y - long, x, y],
            (false, true) => [x - long, y - height, x, y],
            (false, false) => [x, y - height, x + long, y],
        }
    }

    #[test]
    fn texts_lie_within_the_picture_and_not_on_each_other() {
        let long: Vec<String> = (0..700).map(|at| format!("token-number-{at}")).collect();
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        let notes = ["what a model sees in a text can be told in a sentence that is longer than the picture is wide, so that it must be broken".to_string()];
        for maps in [
            text(&["a"], vec![causal(1, 1)]),
            text(&["a", " ", "\n", "\u{4e2d}\u{6587}", ""], vec![causal(5, 5), causal(2, 5), causal(5, 2)]),
            text(&long[..33], vec![causal(33, 33); 13]),
            text(&long[..100], vec![causal(100, 100); 2]),
            text(&long, vec![causal(700, 700)]),
            text(&[], vec![of_rows(&[&[f32::NAN, 7.0]], false)]),
            text(&[], vec![]),
        ] {
            let of_one = |map: &HeadMap| alone(&Maps { maps: vec![map.clone()], ..maps.clone() });
            let heads = maps.maps.iter().map(|map| Drawing::of(&[of_one(map)], Scale::Row, &notes, Letters::Any));
            // Beside each other: two, with and without their difference, and the steps of a run.
            let panel =
                |name: &str, about: &str, maps: &Maps| Panel { name: name.into(), about: about.into(), ..alone(maps) };
            let beside = |maps: &Maps| -> Vec<Vec<Panel>> {
                let [difference, gradient] =
                    [Quantity::Difference, Quantity::Gradient].map(|quantity| Maps { quantity, ..maps.clone() });
                let first = panel("first", &maps.tokens.concat(), maps);
                let two = vec![first.clone(), panel("second", "a\nb", maps)];
                let three = [&two[..], &[panel("difference", "", &difference)]].concat();
                let steps = (0..13).map(|step| panel(&format!("step {}", step * 12_345_678), "", maps)).collect();
                vec![two, three, vec![first, panel("gradient", "", &gradient)], steps]
            };
            let several =
                beside(&maps).into_iter().chain(maps.maps.iter().take(1).flat_map(|map| beside(&of_one(map).maps)));
            let several: Vec<Drawing> =
                several.map(|panels| Drawing::of(&panels, Scale::Fixed, &notes, Letters::Any)).collect();
            for drawing in
                heads.chain([Drawing::of(&[alone(&maps)], Scale::Fixed, &notes, Letters::Any)]).chain(several)
            {
                let texts = drawing.shapes.iter().filter_map(|shape| match shape {
                    Shape::Text(text) => Some((extent(text), text)),
                    _ => None,
                });
                let texts: Vec<_> = texts.collect();
                for (at, (one, text)) in texts.iter().enumerate() {
                    let [left, top, right, bottom] = *one;
                    let within =
                        left >= 0 && top >= 0 && right <= drawing.width as isize && bottom <= drawing.height as isize;
                    assert!(within, "{}: {text:?} leaves {} x {}", drawing.title, drawing.width, drawing.height);
                    for (other, beside) in &texts[at + 1..] {
                        let apart = right <= other[0] || other[2] <= left || bottom <= other[1] || other[3] <= top;
                        assert!(apart, "{}: {text:?} lies on {beside:?}", drawing.title);
                    }
                }
            }
        }
    }

    #[test]
    fn the_title_says_layer_and_head_and_the_foot_where_the_weights_come_from() {
        let mut maps = text(&["a", "b"], vec![causal(2, 2)]);
        (maps.maps[0].layer, maps.maps[0].head) = (2, 3);
        let drawing = Drawing::of(&[alone(&maps)], Scale::Row, &["a note".into()], Letters::Any);
        assert_eq!(drawing.title, "layer 2, head 3");
        let texts: Vec<&str> = drawing
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Text(text) => Some(text.text.as_str()),
                _ => None,
            })
            .collect();
        for expected in ["layer 2, head 3", "a", "b", "masked", "a note", "weights made for a test", "0.25"] {
            assert!(texts.contains(&expected), "{expected} is not in {texts:?}");
        }
        assert!(texts.iter().any(|text| text.starts_with("scale by row")));
        assert!(!texts.contains(&"NaN"), "nothing here is NaN");
    }
}
