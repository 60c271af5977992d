//! What a picture consists of and where it lies, before it is written as SVG or as pixels.
//!
//! One unit is a pixel of SVG. All letters are of one width, [`ADVANCE`], so that what fits can be reckoned without a font.

use super::cells::{Cell, Cells, Scale, Tone, beyond_the_scale};
use super::label::{label, width};
use super::tokens;
use super::wrap::wrapped;
use crate::maps::{HeadMap, Maps};

/// The width of a letter, and the distance of two lines of text.
pub const ADVANCE: usize = 6;
pub const LINE: usize = 14;
/// How much larger the letters of a title are.
pub const TITLE: usize = 2;

/// The longest label of a token, in letters.
const LONGEST: usize = 14;
/// Empty space around everything.
const MARGIN: usize = 16;
/// Between a label and what it names.
const GAP: usize = 6;
/// The most that the cells of a single map take, either way; a map of more rows is pooled.
const SIDE: usize = 640;
/// The largest cell, and the smallest map that a picture's texts have room beside.
const LARGEST_CELL: usize = 28;
const LEAST_WIDTH: usize = 480;
/// The side of a map among others.
const PANEL: usize = 168;
/// The most maps beside each other.
const PANELS: usize = 12;
/// The colour bar.
pub const BAR_WIDTH: usize = 14;
const BAR: std::ops::RangeInclusive<usize> = 90..=240;
/// What stands right of the maps: the bar, its numbers, and the names of cells that are no weights.
const LEGEND: usize = 24 + BAR_WIDTH + GAP + 6 * ADVANCE;
/// How many lines of the text are written under a grid.
const TEXT_LINES: usize = 4;

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
    /// The ramp, from a weight of 1 at the top to 0.
    Ramp {
        x: usize,
        y: usize,
        height: usize,
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
    fn line(x: usize, y: usize, text: impl Into<String>) -> Self {
        Self { x, y, text: text.into(), anchor: Anchor::Start, scale: 1, faint: false, turned: false }
    }

    fn faint(self) -> Self {
        Self { faint: true, ..self }
    }

    fn ending(self) -> Self {
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
    /// One map, with the labels of its tokens, its scale and `notes` underneath.
    pub fn of_head(maps: &Maps, map: &HeadMap, scale: Scale, notes: &[String]) -> Self {
        let tone = Tone::of(maps, scale);
        let cells = Cells::of(map, tone, SIDE, SIDE);
        let size = (SIDE / cells.rows.max(cells.columns).max(1)).clamp(1, LARGEST_CELL);
        let stride = (LINE - 2).div_ceil(size);
        let every = |count: usize, name: &dyn Fn(usize) -> String| -> Vec<(usize, String)> {
            (0..count).step_by(stride).map(|at| (at, name(at * cells.pooled))).collect()
        };
        let queries = every(cells.rows, &|at| tokens::query(maps, map, at, LONGEST));
        let keys = every(cells.columns, &|at| tokens::key(maps, map, at, LONGEST));
        let longest = |labels: &[(usize, String)]| labels.iter().map(|(_, label)| width(label)).max().unwrap_or(0);

        let left = MARGIN + longest(&queries).max("query".len()) * ADVANCE + GAP;
        let whole = (left + cells.columns * size + LEGEND + MARGIN).max(LEAST_WIDTH);
        let mut page = Page::new(whole, name(map));
        page.lines(&tone.to_string(), true);
        page.y += LINE;
        page.shapes.push(Shape::Text(Text::line(left, page.y, "key: the token that is looked at").faint()));
        let top = page.y + GAP + longest(&keys) * ADVANCE + GAP;
        for (column, label) in keys {
            let x = left + column * size + (size + 7) / 2;
            page.shapes.push(Shape::Text(Text { turned: true, ..Text::line(x, top - GAP, label) }));
        }
        page.shapes.push(Shape::Text(Text::line(left - GAP, top - GAP, "query").faint().ending()));
        for (row, label) in queries {
            let y = top + row * size + (size + 7) / 2;
            page.shapes.push(Shape::Text(Text::line(left - GAP, y, label).ending()));
        }
        let bottom = page.legend(left + cells.columns * size + 24, top, cells.rows * size, &cells.cells);
        page.y = bottom.max(top + cells.rows * size) + GAP;
        let rule = cells.rule(maps.quantity);
        page.shapes.push(Shape::Cells { x: left, y: top, size, cells });
        page.foot(notes, [rule, beyond_the_scale([map], tone), Some(format!("weights {}", maps.source))]);
        page.done()
    }

    /// All maps beside each other, a row of them a layer.
    pub fn of_all(maps: &Maps, scale: Scale, notes: &[String]) -> Self {
        let tone = Tone::of(maps, scale);
        let mut rows: Vec<Vec<&HeadMap>> = Vec::new();
        for map in &maps.maps {
            match rows.last_mut() {
                Some(row) if row.len() < PANELS && row.iter().all(|other| other.layer == map.layer) => row.push(map),
                _ => rows.push(vec![map]),
            }
        }
        let across = rows.iter().map(Vec::len).max().unwrap_or(0);
        let whole = (MARGIN + across * (PANEL + MARGIN) + LEGEND).max(LEAST_WIDTH);
        let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let layers = maps.maps.chunk_by(|one, next| one.layer == next.layer).count();
        let title = match maps.maps.iter().map(|map| map.layer).next() {
            Some(layer) if layers == 1 => format!("layer {layer}, {}", counted(maps.maps.len(), "head")),
            _ => format!("{}, {}", counted(layers, "layer"), counted(maps.maps.len(), "head")),
        };
        let mut page = Page::new(whole, title);
        page.lines(&tone.to_string(), true);
        page.lines("rows are queries, columns keys", true);
        page.y += GAP;
        let top = page.y + LINE;
        let mut all = Vec::new();
        let mut rule = None;
        for row in &rows {
            page.y += LINE;
            let mut tallest = 0;
            for (at, map) in row.iter().enumerate() {
                let x = MARGIN + at * (PANEL + MARGIN);
                let cells = Cells::of(map, tone, PANEL, PANEL);
                let size = (PANEL / cells.rows.max(cells.columns).max(1)).max(1);
                tallest = tallest.max(cells.rows * size);
                rule = rule.or_else(|| cells.rule(maps.quantity));
                all.extend(cells.cells.iter().copied());
                page.shapes.push(Shape::Text(Text::line(x, page.y, name(map))));
                page.shapes.push(Shape::Cells { x, y: page.y + GAP, size, cells });
            }
            page.y += GAP + tallest + GAP;
        }
        let bottom = page.legend(MARGIN + across * (PANEL + MARGIN) + 8, top + GAP, PANEL, &all);
        page.y = page.y.max(bottom) + GAP;
        // Labels of single characters read as a text without gaps.
        let gap = if maps.tokens.iter().all(|token| token.chars().nth(1).is_none()) { "" } else { " " };
        let text: Vec<String> = maps.tokens.iter().map(|token| label(token)).collect();
        let text = wrapped(&format!("text: {}", text.join(gap)), page.columns());
        for (at, line) in text.iter().take(TEXT_LINES).enumerate() {
            let more = if at + 1 == TEXT_LINES && text.len() > TEXT_LINES { " …" } else { "" };
            page.lines(&format!("{line}{more}"), false);
        }
        let source = Some(format!("weights {}", maps.source));
        page.foot(notes, [rule, beyond_the_scale(&maps.maps, tone), source]);
        page.done()
    }
}

/// A picture that grows downwards.
struct Page {
    width: usize,
    /// Where the last line of text stands.
    y: usize,
    title: String,
    shapes: Vec<Shape>,
}

impl Page {
    fn new(width: usize, title: String) -> Self {
        let y = MARGIN + TITLE * 8;
        let text = Text { scale: TITLE, ..Text::line(MARGIN, y, title.clone()) };
        Self { width, y: y + GAP, title, shapes: vec![Shape::Text(text)] }
    }

    fn columns(&self) -> usize {
        (self.width - 2 * MARGIN) / ADVANCE
    }

    fn lines(&mut self, sentence: &str, faint: bool) {
        for line in wrapped(sentence, self.columns()) {
            self.y += LINE;
            self.shapes.push(Shape::Text(Text { faint, ..Text::line(MARGIN, self.y, line) }));
        }
    }

    /// The colour bar and what stands for cells without a weight; gives the lower end.
    fn legend(&mut self, x: usize, y: usize, height: usize, cells: &[Cell]) -> usize {
        let height = height.clamp(*BAR.start(), *BAR.end());
        self.shapes.push(Shape::Ramp { x, y, height });
        for (quarters, number) in ["1", "0.75", "0.5", "0.25", "0"].into_iter().enumerate() {
            let y = y + quarters * height / 4 + 4;
            self.shapes.push(Shape::Text(Text::line(x + BAR_WIDTH + GAP, y, number)));
        }
        let mut bottom = y + height;
        for (cell, name) in [(Cell::Masked, "masked"), (Cell::NotANumber, "NaN")] {
            if cells.contains(&cell) {
                bottom += LINE;
                let cells = Cells { rows: 1, columns: 1, pooled: 1, cells: vec![cell] };
                self.shapes.push(Shape::Cells { x, y: bottom, size: BAR_WIDTH, cells });
                self.shapes.push(Shape::Text(Text::line(x + BAR_WIDTH + GAP, bottom + 11, name)));
                bottom += BAR_WIDTH;
            }
        }
        bottom
    }

    fn foot(&mut self, notes: &[String], facts: impl IntoIterator<Item = Option<String>>) {
        for note in notes {
            self.lines(note, false);
        }
        self.y += GAP;
        for fact in facts.into_iter().flatten() {
            self.lines(&fact, true);
        }
    }

    fn done(self) -> Drawing {
        Drawing { width: self.width, height: self.y + MARGIN, title: self.title, shapes: self.shapes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::examples::{causal, of_rows, text};

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
            let heads = maps.maps.iter().map(|map| Drawing::of_head(&maps, map, Scale::Row, &notes));
            for drawing in heads.chain([Drawing::of_all(&maps, Scale::Fixed, &notes)]) {
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
        let drawing = Drawing::of_head(&maps, &maps.maps[0], Scale::Row, &["a note".into()]);
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
