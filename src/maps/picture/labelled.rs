//! Maps that are large enough for the labels of their tokens: one alone, or two or three beside each other.

use super::cells::{Cells, Scale, Tone, beyond_the_scale};
use super::drawing::{ADVANCE, Drawing, LINE, Shape, Text};
use super::label::width;
use super::letters::Letters;
use super::page::{BEFORE_BAR, GAP, LEAST_WIDTH, LEGEND, MARGIN, Page, caption, longest, origins, scales, title};
use super::tokens;
use crate::maps::{HeadMap, Panel};

/// The most maps beside each other.
pub const MOST: usize = 3;

/// The longest label of a token, in letters.
const LONGEST: usize = 14;
/// The most that the cells of a map take, either way, alone and beside others; a map of more rows is pooled.
const SIDE: usize = 640;
const SIDE_BESIDE: usize = 400;
/// The largest cell.
const LARGEST_CELL: usize = 28;

/// A map with its labels, and how much room they take.
struct Sheet<'a> {
    map: &'a HeadMap,
    /// Which of several it is.
    caption: String,
    tone: Tone,
    cells: Cells,
    /// The side of a cell.
    size: usize,
    /// Labels, by the row or the column of the first cell that they name.
    queries: Vec<(usize, String)>,
    keys: Vec<(usize, String)>,
    /// Left of the cells, and above them.
    left: usize,
    above: usize,
}

impl<'a> Sheet<'a> {
    fn new(panels: &[Panel], panel: &'a Panel, map: &'a HeadMap, scale: Scale, letters: Letters) -> Self {
        let side = if panels.len() == 1 { SIDE } else { SIDE_BESIDE };
        let maps = &panel.maps;
        let tone = Tone::of(maps, scale);
        let cells = Cells::of(map, tone, side, side);
        // A token is as wide in all maps.
        let size = (side / longest(panels).clamp(1, side)).min(LARGEST_CELL);
        let stride = (LINE - 2).div_ceil(size);
        let every = |count: usize, name: &dyn Fn(usize) -> String| -> Vec<(usize, String)> {
            (0..count).step_by(stride).map(|at| (at, name(at * cells.pooled))).collect()
        };
        let queries = every(cells.rows, &|at| tokens::query(maps, map, at, (letters, LONGEST)));
        let keys = every(cells.columns, &|at| tokens::key(maps, map, at, (letters, LONGEST)));
        let widest = |labels: &[(usize, String)]| labels.iter().map(|(_, label)| width(label)).max().unwrap_or(0);
        let left = widest(&queries).max("query".len()) * ADVANCE + GAP;
        let above = widest(&keys) * ADVANCE + GAP;
        let caption = if panels.len() == 1 { String::new() } else { letters.spell(&caption(panels, panel, 0)) };
        Self { map, caption, tone, cells, size, queries, keys, left, above }
    }

    fn width(&self) -> usize {
        (self.left + self.cells.columns * self.size).max(width(&self.caption) * ADVANCE)
    }

    fn height(&self) -> usize {
        self.cells.rows * self.size
    }

    /// Draws the map with its labels, the latter from `x` on; its cells begin at `top`.
    fn draw(self, page: &mut Page, x: usize, top: usize) {
        let (left, size) = (x + self.left, self.size);
        for (column, label) in self.keys {
            let x = left + column * size + (size + 7) / 2;
            page.text(Text { turned: true, ..Text::line(x, top - GAP, label) });
        }
        page.text(Text::line(left - GAP, top - GAP, "query").faint().ending());
        for (row, label) in self.queries {
            let y = top + row * size + (size + 7) / 2;
            page.text(Text::line(left - GAP, y, label).ending());
        }
        page.push(Shape::Cells { x: left, y: top, size, cells: self.cells });
    }
}

/// A picture of one map of each panel.
pub fn labelled(panels: &[Panel], scale: Scale, notes: &[String], letters: Letters) -> Drawing {
    let pairs = panels.iter().filter_map(|panel| Some((panel, panel.maps.maps.first()?)));
    let sheets: Vec<Sheet<'_>> = pairs.map(|(panel, map)| Sheet::new(panels, panel, map, scale, letters)).collect();
    // A legend stands behind the last of those that share it.
    let legends: Vec<bool> =
        (0..sheets.len()).map(|at| sheets.get(at + 1).is_none_or(|next| next.tone != sheets[at].tone)).collect();
    let mut places = Vec::with_capacity(sheets.len());
    let mut x = MARGIN;
    for (sheet, &legend) in sheets.iter().zip(&legends) {
        places.push(x);
        x += sheet.width() + if legend { LEGEND } else { MARGIN } + MARGIN;
    }

    let mut page = Page::new(x.max(LEAST_WIDTH), title(panels, 0), letters);
    for scale in scales(panels.iter().zip(sheets.iter().map(|sheet| sheet.tone))) {
        page.lines(&scale, true);
    }
    if panels.len() > 1 {
        page.y += LINE + GAP;
        for (sheet, x) in sheets.iter().zip(&places) {
            page.text(Text::line(*x, page.y, sheet.caption.clone()));
        }
    }
    page.y += LINE;
    if let [sheet, ..] = &sheets[..] {
        page.text(Text::line(MARGIN + sheet.left, page.y, "key: the token that is looked at").faint());
    }
    let top = page.y + GAP + sheets.iter().map(|sheet| sheet.above).max().unwrap_or(0);
    let (mut bottom, mut facts) = (top, Vec::new());
    for ((sheet, x), legend) in sheets.into_iter().zip(places).zip(legends) {
        facts.extend(sheet.cells.rule(sheet.tone.quantity));
        facts.extend(beyond_the_scale([sheet.map], sheet.tone));
        bottom = bottom.max(top + sheet.height());
        if legend {
            let place = (x + sheet.width() + BEFORE_BAR, top);
            bottom = bottom.max(page.legend(place, sheet.height(), &sheet.cells.cells, sheet.tone));
        }
        sheet.draw(&mut page, x, top);
    }
    page.y = bottom + GAP;
    page.abouts(panels);
    page.foot(notes, facts.into_iter().chain(origins(panels)));
    page.done()
}
