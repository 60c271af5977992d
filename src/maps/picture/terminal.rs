//! Maps in a terminal.

use super::cells::{Cell, Cells, Scale, Tone, beyond_the_scale};
use super::colour::{Colour, Theme};
use super::drawing::name;
use super::label::width;
use super::letters::Letters;
use super::page::{caption, distinct, scales, title};
use super::tokens;
use super::wrap::wrapped;
use crate::maps::{HeadMap, Panel, Quantity};

/// What a terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Any colour of 24 bits.
    TrueColour,
    /// The 256 colours of xterm.
    Indexed,
    /// Characters alone: for files, pipes and those who ask for no colour.
    Plain,
}

/// The terminal that a map is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Columns of text.
    pub columns: usize,
    pub ink: Ink,
    pub theme: Theme,
}

/// Labels of queries take at most this many columns, those of keys, written downwards, this many lines.
const QUERY_COLUMNS: usize = 12;
const KEY_LINES: usize = 8;

/// Weights without colour, by ninths: the more ink, the more weight.
const PLAIN: [char; 9] = ['.', ':', '-', '=', '+', '*', '#', '%', '@'];

/// Between maps beside each other.
const BETWEEN: usize = 3;

/// Map `row` of each panel as text: title, key labels, a line a query, the legend. Panels stand beside each other as far as
/// there is room. A cell is two columns wide, or one where the terminal is narrow; where that is still too wide, the map is
/// pooled.
pub fn terminal(panels: &[Panel], row: usize, scale: Scale, room: Room) -> String {
    let mut sheets: Vec<Sheet<'_>> =
        panels.iter().filter_map(|panel| Some(Sheet::new(panels, panel, panel.maps.maps.get(row)?, row))).collect();
    let (broad, across) = arrangement(&sheets, room.columns);
    let mut lines = Vec::new();
    if sheets.len() > 1 {
        lines.push(title(panels, row));
    }
    let (mut legends, mut facts) = (Vec::new(), Vec::new());
    let scales = scales(sheets.iter().map(|sheet| (sheet.panel, Tone::of(&sheet.panel.maps, scale))));
    for (at, sheets) in sheets.chunks_mut(across).enumerate() {
        if at > 0 {
            lines.push(String::new());
        }
        let mut drawn = Vec::with_capacity(sheets.len());
        for sheet in sheets {
            let (tone, pen) = (Tone::of(&sheet.panel.maps, scale), Pen { ink: room.ink, theme: room.theme, broad });
            let cells =
                Cells::of(sheet.map, tone, usize::MAX, room.columns.saturating_sub(sheet.margin).max(1) / broad);
            legends.push(pen.legend(&cells, tone.quantity));
            facts.extend(cells.rule(tone.quantity));
            facts.extend(beyond_the_scale([sheet.map], tone));
            drawn.push((sheet, cells, pen));
        }
        // Rows of maps beside each other stand on the same lines.
        let labels = drawn.iter().flat_map(|(sheet, cells, _)| sheet.keys(cells));
        let deep = labels.map(|label| label.len()).max().unwrap_or(0);
        lines.extend(beside(drawn.iter().map(|(sheet, cells, pen)| sheet.lines(cells, deep, pen)).collect()));
    }
    lines.extend(distinct(legends));
    let facts = scales.into_iter().chain(distinct(facts));
    lines.extend(facts.flat_map(|fact| wrapped(&fact, room.columns)));
    lines.join("\n") + "\n"
}

/// How wide a cell is, and how many maps stand beside each other.
fn arrangement(sheets: &[Sheet<'_>], columns: usize) -> (usize, usize) {
    let across = |broad: usize| {
        let widest = sheets.iter().map(|sheet| sheet.width(broad)).max().unwrap_or(1);
        ((columns + BETWEEN) / (widest + BETWEEN)).min(sheets.len())
    };
    match (across(2), across(1)) {
        (wide @ 1.., narrow) if wide > 1 || narrow <= wide => (2, wide),
        (_, narrow) => (1, narrow.max(1)),
    }
}

/// Lines of text with the columns that each takes.
type Block = Vec<(String, usize)>;

/// Blocks beside each other, as lines without what is blank at their ends.
fn beside(blocks: Vec<Block>) -> Vec<String> {
    let widths: Vec<usize> =
        blocks.iter().map(|block| block.iter().map(|&(_, wide)| wide).max().unwrap_or(0)).collect();
    let deepest = blocks.iter().map(Vec::len).max().unwrap_or(0);
    let line = |at: usize| {
        let mut line = String::new();
        let mut blank = 0;
        for (block, width) in blocks.iter().zip(&widths) {
            let (text, wide) = block.get(at).map_or(("", 0), |(text, wide)| (text.as_str(), *wide));
            if !text.is_empty() {
                line.push_str(&" ".repeat(blank));
                line.push_str(text);
                blank = 0;
            }
            blank += width + BETWEEN - wide;
        }
        line.trim_end().to_string()
    };
    (0..deepest).map(line).collect()
}

/// A map and its labels.
struct Sheet<'a> {
    panel: &'a Panel,
    map: &'a HeadMap,
    caption: String,
    queries: Vec<String>,
    /// Columns before the cells.
    margin: usize,
}

impl<'a> Sheet<'a> {
    fn new(panels: &[Panel], panel: &'a Panel, map: &'a HeadMap, row: usize) -> Self {
        let caption = if panels.len() > 1 { caption(panels, panel, row) } else { name(map) };
        let label = |at| tokens::query(&panel.maps, map, at, (Letters::Any, QUERY_COLUMNS));
        let queries: Vec<String> = (0..map.queries).map(label).collect();
        let margin = queries.iter().map(|label| width(label)).max().unwrap_or(0) + 1;
        Self { panel, map, caption, queries, margin }
    }

    /// How many columns it takes where a cell takes so many.
    fn width(&self, broad: usize) -> usize {
        (self.margin + self.map.keys * broad).max(width(&self.caption))
    }

    /// The labels of the columns, as letters that are written downwards.
    fn keys(&self, cells: &Cells) -> Vec<Vec<char>> {
        let label = |column| tokens::key(&self.panel.maps, self.map, column * cells.pooled, (Letters::Any, KEY_LINES));
        let letters =
            |label: String| label.chars().filter(|letter| width(letter.encode_utf8(&mut [0; 4])) > 0).collect();
        (0..cells.columns).map(label).map(letters).collect()
    }

    /// The map, whose labels of columns take `deep` lines.
    fn lines(&self, cells: &Cells, deep: usize, pen: &Pen) -> Block {
        let mut lines = vec![(self.caption.clone(), width(&self.caption))];
        let keys = self.keys(cells);
        let wide = self.margin + cells.columns * pen.broad;
        for line in 0..deep {
            let mut text = " ".repeat(self.margin);
            for key in &keys {
                // Labels end where the cells begin.
                let letter = (line + key.len()).checked_sub(deep).map_or(' ', |at| key[at]);
                let wide = width(letter.encode_utf8(&mut [0; 4]));
                text.push(if wide > pen.broad { '…' } else { letter });
                text.push_str(&" ".repeat(pen.broad.saturating_sub(wide)));
            }
            lines.push((text, wide));
        }
        for row in 0..cells.rows {
            let label = &self.queries[row * cells.pooled];
            let gap = " ".repeat(self.margin - width(label));
            let row = (0..cells.columns).map(|column| cells.at(row, column));
            lines.push((format!("{label}{gap}{}", pen.row(row)), wide));
        }
        lines
    }
}

/// A number from -1 to 1 without colour: its sign and its tenths, 9 for all beyond, or its sign alone where there is one
/// column; `.` for what is nearer to 0 than half a tenth.
fn signed(number: f32, broad: usize) -> String {
    let tenths = (number.abs().min(1.0) * 10.0).round() as usize;
    let sign = if number < 0.0 { '-' } else { '+' };
    match (tenths, broad) {
        (0, _) => ".".repeat(broad),
        (_, 1) => sign.into(),
        (tenths, _) => format!("{sign}{}", tenths.min(9)),
    }
}

/// How cells are written.
struct Pen {
    ink: Ink,
    theme: Theme,
    /// Columns of a cell.
    broad: usize,
}

impl Pen {
    /// Cells in a row. Colours are set where they change, and set back at the end.
    fn row(&self, cells: impl Iterator<Item = Cell>) -> String {
        let mut text = String::new();
        let mut set = String::new();
        for cell in cells {
            let (colours, letters) = self.cell(cell);
            if colours != set {
                text.push_str(&colours);
                set = colours;
            }
            text.push_str(&letters);
        }
        if !set.is_empty() {
            text.push_str("\x1b[0m");
        }
        text
    }

    /// The colours of a cell, as a terminal is told them, and the letters on them.
    fn cell(&self, cell: Cell) -> (String, String) {
        let palette = self.theme.palette();
        let filled = |letter: char| String::from(letter).repeat(self.broad);
        match (self.ink, cell) {
            (Ink::Plain, Cell::Masked) => (String::new(), filled(' ')),
            (Ink::Plain, Cell::NotANumber) => (String::new(), filled('?')),
            (Ink::Plain, Cell::Signed(number)) => (String::new(), signed(number, self.broad)),
            (Ink::Plain, Cell::Weight(weight)) => {
                let ninth = (weight.clamp(0.0, 1.0) * PLAIN.len() as f32) as usize;
                (String::new(), filled(PLAIN[ninth.min(PLAIN.len() - 1)]))
            }
            (_, Cell::Masked) => (self.colours(palette.masked, Some(palette.hatch)), filled('╱')),
            (_, Cell::NotANumber) => (self.colours(palette.not_a_number, Some(palette.ground)), filled('?')),
            (_, Cell::Weight(weight)) => (self.colours(self.theme.weight(f64::from(weight)), None), filled(' ')),
            (_, Cell::Signed(number)) => (self.colours(self.theme.signed(f64::from(number)), None), filled(' ')),
        }
    }

    fn colours(&self, ground: Colour, text: Option<Colour>) -> String {
        let one = |layer: u8, colour: Colour| match self.ink {
            Ink::Indexed => format!("\x1b[{layer};5;{}m", indexed(colour)),
            _ => format!("\x1b[{layer};2;{};{};{}m", colour.red, colour.green, colour.blue),
        };
        one(48, ground) + &text.map_or_else(String::new, |text| one(38, text))
    }

    fn legend(&self, cells: &Cells, quantity: Quantity) -> String {
        let mut legend = match self.ink {
            Ink::Plain if quantity.is_signed() && self.broad > 1 => "-9 to +9: tenths of the scale, . for none".into(),
            Ink::Plain if quantity.is_signed() => "- less, + more, . neither".into(),
            _ if quantity.is_signed() => {
                format!("-1 {} +1", self.row((-4..=4i8).map(|quarter| Cell::Signed(f32::from(quarter) / 4.0))))
            }
            Ink::Plain => format!("0 {} 1", PLAIN.iter().collect::<String>()),
            _ => format!("0 {} 1", self.row((0..=8).map(|eighth| Cell::Weight(eighth as f32 / 8.0)))),
        };
        for (cell, name) in [(Cell::Masked, "masked"), (Cell::NotANumber, "NaN")] {
            if cells.cells.contains(&cell) {
                let sample = match (self.ink, cell) {
                    (Ink::Plain, Cell::Masked) => "blank".into(),
                    _ => self.row(std::iter::once(cell)),
                };
                legend.push_str(&format!("   {sample} {name}"));
            }
        }
        legend
    }
}

/// The nearest of the colours 16 to 255 of xterm: a cube of six steps a side, and 24 greys.
fn indexed(colour: Colour) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let of = |index: u8| match index {
        232.. => [8 + 10 * (index - 232); 3],
        _ => [(index - 16) / 36, (index - 16) / 6 % 6, (index - 16) % 6].map(|step| STEPS[usize::from(step)]),
    };
    let distance = |index: u8| -> i32 {
        let [red, green, blue] = of(index);
        [(red, colour.red), (green, colour.green), (blue, colour.blue)]
            .map(|(one, other)| (i32::from(one) - i32::from(other)).pow(2))
            .iter()
            .sum()
    };
    (16..=255).min_by_key(|&index| distance(index)).unwrap_or(16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::Maps;
    use crate::maps::picture::examples::{HOSTILE, alone, causal, of_rows, text};

    fn plain(maps: &Maps, at: usize, scale: Scale, columns: usize) -> String {
        terminal(&[alone(maps)], at, scale, Room { columns, ink: Ink::Plain, theme: Theme::Dark })
    }

    #[test]
    fn a_map_in_plain_characters_names_its_head_its_tokens_and_its_scale() {
        let map = of_rows(&[&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0], &[0.125, 0.25, 0.625]], true);
        let maps = text(&["ab", " ", "\n"], vec![map]);
        let expected = "layer 0, head 0\n   a\n   b ␣ ⏎\nab @@\n␣  ..@@\n⏎  ::--**\n0 .:-=+*#%@ 1   blank masked\nfixed scale: weights from 0 to 1\n";
        assert_eq!(plain(&maps, 0, Scale::Fixed, 80), expected);
        assert!(plain(&maps, 0, Scale::Row, 80).contains("\n⏎  ::==@@\n"));
    }

    #[test]
    fn the_smallest_map_and_one_of_other_lengths_are_drawn() {
        let maps = text(&["a", "b", "c", "d"], vec![causal(1, 1), causal(2, 4), causal(4, 2)]);
        assert!(plain(&maps, 0, Scale::Fixed, 80).starts_with("layer 0, head 0\n  d\nd @@\n0 "));
        assert!(plain(&maps, 1, Scale::Fixed, 80).starts_with("layer 0, head 1\n  a b c d\nc ======\nd --------\n"));
        assert!(plain(&maps, 2, Scale::Fixed, 80).starts_with("layer 0, head 2\n  c d\na\nb\nc @@\nd ++++\n"));
    }

    #[test]
    fn a_map_wider_than_the_terminal_gets_narrow_cells_and_is_then_pooled() {
        let tokens = ["x"; 40];
        let maps = text(&tokens, vec![causal(40, 40)]);
        for columns in [200, 60, 30, 3, 0] {
            let picture = plain(&maps, 0, Scale::Fixed, columns);
            let map: Vec<&str> = picture.lines().filter(|line| line.starts_with("x ")).collect();
            let widest = map.iter().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= columns.max(3), "{columns} columns: {picture}");
            let told = picture.split_whitespace().collect::<String>().contains("eachcell");
            assert!(told == (columns < 42) || columns < 9, "{columns} columns: {picture}");
        }
    }

    #[test]
    fn the_lines_of_every_ink_are_those_of_plain_characters() {
        let map = of_rows(&[&[1.0, 0.0], &[f32::NAN, 0.5]], true);
        let maps = text(&["a", "b"], vec![map]);
        for theme in [Theme::Light, Theme::Dark] {
            for ink in [Ink::TrueColour, Ink::Indexed] {
                let picture = terminal(&[alone(&maps)], 0, Scale::Fixed, Room { columns: 80, ink, theme });
                let rows: Vec<&str> = picture.lines().collect();
                assert_eq!(rows.len(), plain(&maps, 0, Scale::Fixed, 80).lines().count());
                for line in rows.iter().filter(|line| line.contains('\x1b')) {
                    assert!(line.contains("\x1b[0m"), "colours are not set back: {line:?}");
                }
                assert!(rows[2].contains('╱') && rows[3].contains('?'), "{picture:?}");
            }
        }
    }

    #[test]
    fn no_token_speaks_to_the_terminal() {
        for hostile in HOSTILE {
            let maps = text(&[hostile, "b"], vec![causal(2, 2)]);
            let picture = plain(&maps, 0, Scale::Fixed, 80);
            assert!(picture.chars().all(|character| character == '\n' || !character.is_control()), "{picture:?}");
            assert!(!picture.contains(['\u{202e}', '\u{2028}']), "{picture:?}");
        }
    }

    #[test]
    fn an_eighth_and_nothing_and_a_mask_differ_in_256_colours_too() {
        for theme in [Theme::Light, Theme::Dark] {
            let [zero, eighth, half, one] = [0.0, 0.125, 0.5, 1.0].map(|weight| indexed(theme.weight(weight)));
            let masked = indexed(theme.palette().masked);
            assert!(zero != eighth && eighth != half && half != one, "{theme:?}");
            assert!(zero != masked, "{theme:?}");
        }
        assert_eq!(indexed(Colour { red: 255, green: 0, blue: 0 }), 196);
    }
}
