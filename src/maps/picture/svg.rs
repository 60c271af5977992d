//! A picture as SVG.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::cells::{Cell, Cells};
use super::colour::{Colour, Palette, Theme};
use super::drawing::{ADVANCE, Anchor, BAR_WIDTH, Drawing, Shape, Text, gap_of};
use super::markup::escaped;

/// The ramp in steps of a hundredth; the other ramp, of numbers with a sign, in as many.
const STEPS: usize = 100;

/// A colour of the picture: the class of its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fill {
    Masked,
    NotANumber,
    /// Steps from a weight of 0.
    Weight(usize),
    /// Steps from -1.
    Signed(usize),
}

impl Fill {
    fn of(cell: Cell) -> Self {
        let steps = |share: f32| (share.clamp(0.0, 1.0) * STEPS as f32).round() as usize;
        match cell {
            Cell::Masked => Self::Masked,
            Cell::NotANumber => Self::NotANumber,
            Cell::Weight(weight) => Self::Weight(steps(weight)),
            Cell::Signed(number) => Self::Signed(steps((number + 1.0) / 2.0)),
        }
    }

    fn class(self) -> String {
        match self {
            Self::Masked => "m".into(),
            Self::NotANumber => "n".into(),
            Self::Weight(step) => format!("w{step}"),
            Self::Signed(step) => format!("s{step}"),
        }
    }

    fn colour(self, theme: Theme) -> Colour {
        let share = |step: usize| step as f64 / STEPS as f64;
        match self {
            Self::Masked => theme.palette().masked,
            Self::NotANumber => theme.palette().not_a_number,
            Self::Weight(step) => theme.weight(share(step)),
            Self::Signed(step) => theme.signed(2.0 * share(step) - 1.0),
        }
    }
}

/// Letters are 0.6 of their size wide in the fonts that are asked for.
const LETTER: usize = 10;

/// The SVG of a picture. Without a theme it follows the one of whoever looks at it, light where none is known.
pub fn svg(drawing: &Drawing, theme: Option<Theme>) -> String {
    let mut body = String::new();
    let mut fills = BTreeSet::new();
    for shape in &drawing.shapes {
        match shape {
            Shape::Cells { x, y, size, cells } => push_cells(&mut body, (*x, *y), *size, cells, &mut fills),
            Shape::Ramp { x, y, height, signed } => {
                for step in 0..=STEPS {
                    let of = |step: usize| y + step * height / (STEPS + 1);
                    let (from, to) = (of(STEPS - step), of(STEPS - step + 1));
                    let fill = if *signed { Fill::Signed(step) } else { Fill::Weight(step) };
                    fills.insert(fill);
                    let class = fill.class();
                    push(
                        &mut body,
                        format_args!("<path class=\"{class}\" d=\"M{x} {from}h{BAR_WIDTH}V{to}h-{BAR_WIDTH}z\"/>\n"),
                    );
                }
            }
            Shape::Text(text) => push_text(&mut body, text),
        }
    }
    let style = match theme {
        Some(theme) => rules(theme, &fills),
        None => format!(
            "{}@media (prefers-color-scheme:dark){{\n{}}}\n",
            rules(Theme::Light, &fills),
            rules(Theme::Dark, &fills)
        ),
    };
    let Drawing { width, height, title, .. } = drawing;
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\">\n<title>{title}</title>\n<style>\n\
         text{{font:{LETTER}px 'DejaVu Sans Mono','Liberation Mono',Menlo,Consolas,monospace}}\npath{{shape-rendering:crispEdges}}\n\
         .o{{fill:none;stroke-width:1.5;shape-rendering:auto}}\n{style}</style>\n\
         <defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
         <path class=\"o\" d=\"M-1 1L1 -1M0 6L6 0M5 7L7 5\"/></pattern></defs>\n\
         <rect class=\"g\" width=\"{width}\" height=\"{height}\"/>\n{body}</svg>\n"
    )
}

/// Writing into a string cannot fail.
fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(more);
}

fn rules(theme: Theme, fills: &BTreeSet<Fill>) -> String {
    let Palette { ground, text, faint, hatch, .. } = theme.palette();
    let named = [(".g", ground), ("text", text), (".f", faint)];
    let mut rules: String =
        named.iter().map(|(name, colour)| format!("{name}{{fill:{}}}\n", colour.hexadecimal())).collect();
    push(&mut rules, format_args!(".o{{stroke:{}}}\n", hatch.hexadecimal()));
    for fill in fills {
        push(&mut rules, format_args!(".{}{{fill:{}}}\n", fill.class(), fill.colour(theme).hexadecimal()));
    }
    rules
}

/// Cells of one colour are one path; neighbours in a row are one rectangle of it, unless they are large enough for a gap.
fn push_cells(body: &mut String, (x, y): (usize, usize), size: usize, cells: &Cells, fills: &mut BTreeSet<Fill>) {
    let gap = gap_of(size);
    let mut paths: BTreeMap<Fill, String> = BTreeMap::new();
    for (row, line) in cells.cells.chunks(cells.columns.max(1)).enumerate() {
        let mut column = 0;
        for run in line.chunk_by(|&one, &next| Fill::of(one) == Fill::of(next)) {
            let path = paths.entry(Fill::of(run[0])).or_default();
            let rectangles = if gap == 0 { 1 } else { run.len() };
            let width = run.len() / rectangles * size - gap;
            for rectangle in 0..rectangles {
                let (left, top) = (x + (column + rectangle) * size, y + row * size);
                push(path, format_args!("M{left} {top}h{width}v{}h-{width}z", size - gap));
            }
            column += run.len();
        }
    }
    for (fill, path) in paths {
        fills.insert(fill);
        push(body, format_args!("<path class=\"{}\" d=\"{path}\"/>\n", fill.class()));
        if fill == Fill::Masked {
            push(body, format_args!("<path fill=\"url(#hatch)\" d=\"{path}\"/>\n"));
        }
    }
}

fn push_text(body: &mut String, text: &Text) {
    let Text { x, y, .. } = text;
    let mut attributes = String::new();
    if text.faint {
        attributes.push_str(" class=\"f\"");
    }
    if text.anchor == Anchor::End {
        attributes.push_str(" text-anchor=\"end\"");
    }
    if text.scale > 1 {
        push(&mut attributes, format_args!(" style=\"font-size:{}px\"", LETTER * text.scale));
    }
    if text.turned {
        push(&mut attributes, format_args!(" transform=\"rotate(-90 {x} {y})\""));
    }
    push(body, format_args!("<text x=\"{x}\" y=\"{y}\"{attributes}>{}</text>\n", escaped(&text.text)));
}

// What is reckoned with and what is written must be the same width.
const _: () = assert!(LETTER * 6 == ADVANCE * 10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::Letters;
    use crate::maps::picture::cells::Scale;
    use crate::maps::picture::examples::{HOSTILE, alone, causal, of_rows, text};

    fn head(tokens: &[&str], map: crate::maps::HeadMap, scale: Scale) -> String {
        let maps = text(tokens, vec![map]);
        svg(&Drawing::of(&[alone(&maps)], scale, &maps.tokens, Letters::Any), Some(Theme::Light))
    }

    /// The elements that a text opens, in order, by name.
    fn elements(svg: &str) -> Vec<&str> {
        svg.split('<')
            .skip(1)
            .map(|tag| tag.split([' ', '>', '/']).next().unwrap())
            .filter(|name| !name.is_empty())
            .collect()
    }

    #[test]
    fn no_token_becomes_markup() {
        let known = ["svg", "title", "style", "defs", "pattern", "path", "rect", "text"];
        for hostile in HOSTILE {
            let svg = head(&[hostile, "b"], causal(2, 2), Scale::Fixed);
            for element in elements(&svg) {
                assert!(known.contains(&element), "{hostile:?} opened {element}");
            }
            assert!(svg.chars().all(|character| character == '\n' || !character.is_control()), "{hostile:?}");
            assert_eq!(svg.matches("</svg>").count(), 1);
        }
    }

    #[test]
    fn masked_cells_and_weights_of_zero_are_drawn_differently() {
        let svg = head(
            &["a", "b", "c"],
            of_rows(&[&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0], &[0.0, 0.5, 0.5]], true),
            Scale::Fixed,
        );
        let rectangles = |class: &str| -> usize {
            let paths =
                svg.lines().filter(|line| line.starts_with(&format!("<path {class} d=\"M")) && !line.contains("h14"));
            paths.map(|line| line.matches('M').count()).sum()
        };
        // Of nine: three masked, two of 1, two of 1/2, two of 0; and one masked in the legend.
        let found =
            ["class=\"m\"", "fill=\"url(#hatch)\"", "class=\"w100\"", "class=\"w50\"", "class=\"w0\""].map(rectangles);
        assert_eq!(found, [3 + 1, 3 + 1, 2, 2, 2]);
    }

    #[test]
    fn a_picture_without_a_theme_follows_its_reader() {
        let maps = text(&["a"], vec![causal(1, 1)]);
        let drawing = Drawing::of(&[alone(&maps)], Scale::Fixed, &[], Letters::Any);
        let both = svg(&drawing, None);
        for theme in [Theme::Light, Theme::Dark] {
            let ground = format!(".g{{fill:{}}}", theme.palette().ground.hexadecimal());
            assert!(both.contains(&ground), "{theme:?}");
            assert!(svg(&drawing, Some(theme)).contains(&ground));
        }
        assert!(both.contains("prefers-color-scheme:dark"));
        assert!(!svg(&drawing, Some(Theme::Dark)).contains("prefers-color-scheme"));
    }

    #[test]
    fn a_long_text_makes_no_large_file() {
        let svg = head(&["a"; 1500], causal(1500, 1500), Scale::Fixed);
        assert!(svg.len() < 2_000_000, "{}", svg.len());
        assert!(svg.contains("each cell shows the largest of 3 x 3 weights"));
    }
}
