//! A picture's page: what stands above, beside and under its maps.

use super::cells::{Cell, Cells, Tone};
use super::drawing::{ADVANCE, BAR_WIDTH, Drawing, LINE, Shape, TITLE, Text, name};
use super::label::{in_one_line, label};
use super::letters::Letters;
use super::wrap::wrapped;
use crate::maps::Panel;

/// Empty space around everything.
pub const MARGIN: usize = 16;
/// Between a label and what it names.
pub const GAP: usize = 6;
/// The least width that a picture's texts have room in.
pub const LEAST_WIDTH: usize = 480;
/// What stands right of maps: some space, the bar, and its numbers or the names of cells that hold none.
pub const LEGEND: usize = BEFORE_BAR + BAR_WIDTH + GAP + 8 * ADVANCE;
pub const BEFORE_BAR: usize = 24;
/// How high the bar is.
const BAR: std::ops::RangeInclusive<usize> = 90..=240;
/// How many lines are spent on a text, or on what a panel's name stands for.
const TEXT_LINES: usize = 4;

/// A picture in the making.
pub struct Page {
    pub width: usize,
    /// Where the last line of text stands.
    pub y: usize,
    title: String,
    shapes: Vec<Shape>,
    letters: Letters,
}

impl Page {
    pub fn new(width: usize, title: String, letters: Letters) -> Self {
        let y = MARGIN + TITLE * 8;
        let text = Text { scale: TITLE, ..Text::line(MARGIN, y, title.clone()) };
        Self { width, y: y + GAP, title, shapes: vec![Shape::Text(text)], letters }
    }

    pub fn columns(&self) -> usize {
        (self.width - 2 * MARGIN) / ADVANCE
    }

    /// A sentence, in as many lines as it takes.
    pub fn lines(&mut self, sentence: &str, faint: bool) {
        for line in wrapped(&self.letters.spell(sentence), self.columns()) {
            self.y += LINE;
            self.text(Text { faint, ..Text::line(MARGIN, self.y, line) });
        }
    }

    pub fn push(&mut self, shape: Shape) {
        self.shapes.push(shape);
    }

    pub fn text(&mut self, text: Text) {
        self.shapes.push(Shape::Text(text));
    }

    /// The colour bar of `tone`, and what stands for cells without a number; gives the lower end.
    pub fn legend(&mut self, (x, y): (usize, usize), height: usize, cells: &[Cell], tone: Tone) -> usize {
        let height = height.clamp(*BAR.start(), *BAR.end());
        self.shapes.push(Shape::Ramp { x, y, height, signed: tone.quantity.is_signed() });
        let ticks = tone.ticks();
        let steps = ticks.len().saturating_sub(1).max(1);
        for (step, number) in ticks.into_iter().enumerate() {
            self.text(Text::line(x + BAR_WIDTH + GAP, y + step * height / steps + 4, number));
        }
        let mut bottom = y + height;
        for (cell, name) in [(Cell::Masked, "masked"), (Cell::NotANumber, "NaN")] {
            if cells.contains(&cell) {
                bottom += LINE;
                let cells = Cells { rows: 1, columns: 1, pooled: 1, cells: vec![cell] };
                self.shapes.push(Shape::Cells { x, y: bottom, size: BAR_WIDTH, cells });
                self.text(Text::line(x + BAR_WIDTH + GAP, bottom + 11, name));
                bottom += BAR_WIDTH;
            }
        }
        bottom
    }

    /// The sentences under the maps, and after them what is to be known of the picture.
    pub fn foot(&mut self, notes: &[String], facts: impl IntoIterator<Item = String>) {
        for note in notes {
            self.lines(note, false);
        }
        self.y += GAP;
        for fact in distinct(facts) {
            self.lines(&fact, true);
        }
    }

    pub fn done(self) -> Drawing {
        Drawing { width: self.width, height: self.y + MARGIN, title: self.title, shapes: self.shapes }
    }
}

impl Page {
    /// What the names of panels stand for.
    pub fn abouts(&mut self, panels: &[Panel]) {
        for panel in panels.iter().filter(|panel| !panel.about.is_empty()) {
            self.beginning(&format!("{}: {}", panel.name, in_one_line(&panel.about)));
        }
    }

    /// The text of maps, as labels.
    pub fn tokens(&mut self, tokens: &[String]) {
        // Labels of single characters read as a text without gaps.
        let gap = if tokens.iter().all(|token| token.chars().nth(1).is_none()) { "" } else { " " };
        let text: Vec<String> = tokens.iter().map(|token| label(token)).collect();
        self.beginning(&format!("text: {}", text.join(gap)));
    }

    /// The first lines of what may be long.
    fn beginning(&mut self, text: &str) {
        let lines = wrapped(&self.letters.spell(text), self.columns() - 2);
        for (at, line) in lines.iter().take(TEXT_LINES).enumerate() {
            let more = if at + 1 == TEXT_LINES && lines.len() > TEXT_LINES { " …" } else { "" };
            self.lines(&format!("{line}{more}"), false);
        }
    }
}

/// What is told once, in the order in which it is told first.
pub fn distinct(facts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for fact in facts {
        if !told.contains(&fact) {
            told.push(fact);
        }
    }
    told
}

/// What the colours of the panels stand for: told once where they are all alike, else of which panels it is told.
pub fn scales<'a>(panels: impl IntoIterator<Item = (&'a Panel, Tone)>) -> Vec<String> {
    let mut told: Vec<(String, Vec<&str>)> = Vec::new();
    for (panel, tone) in panels {
        let scale = tone.to_string();
        match told.iter_mut().find(|(known, _)| *known == scale) {
            Some((_, names)) => names.push(&panel.name),
            None => told.push((scale, vec![&panel.name])),
        }
    }
    match &told[..] {
        [(scale, _)] => vec![scale.clone()],
        several => several.iter().map(|(scale, names)| format!("{}: {scale}", names.join(", "))).collect(),
    }
}

/// Where the numbers of all panels come from.
pub fn origins(panels: &[Panel]) -> impl Iterator<Item = String> {
    panels.iter().map(|panel| format!("weights {}", panel.maps.source))
}

/// Whether all panels show the same heads.
fn one_head(panels: &[Panel], row: usize) -> bool {
    let place = |panel: &Panel| panel.maps.maps.get(row).map(|map| (map.layer, map.head));
    panels.windows(2).all(|pair| place(&pair[0]) == place(&pair[1]))
}

/// What one map among those of its row is called: its panel, and its head where panels show different ones.
pub fn caption(panels: &[Panel], panel: &Panel, row: usize) -> String {
    match panel.maps.maps.get(row) {
        Some(map) if !one_head(panels, row) && !panel.maps.quantity.is_signed() => {
            format!("{}: {}", panel.name, name(map))
        }
        _ => panel.name.clone(),
    }
}

/// The most rows or columns of any map.
pub fn longest(panels: &[Panel]) -> usize {
    let maps = panels.iter().flat_map(|panel| &panel.maps.maps);
    maps.map(|map| map.queries.max(map.keys)).max().unwrap_or(0)
}

/// The title over one map of each panel.
pub fn title(panels: &[Panel], row: usize) -> String {
    match panels.first().and_then(|panel| panel.maps.maps.get(row)) {
        Some(map) if one_head(panels, row) => name(map),
        _ => "the head of each".into(),
    }
}
