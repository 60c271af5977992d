//! Small multiples: the maps of all heads beside each other, or those of one head in several panels.

use super::cells::{Cell, Cells, Scale, Tone, beyond_the_scale};
use super::drawing::{ADVANCE, Drawing, LINE, Shape, Text, name};
use super::label::cut;
use super::letters::Letters;
use super::page::{BEFORE_BAR, GAP, LEAST_WIDTH, LEGEND, MARGIN, Page, caption, longest, origins, scales, title};
use crate::maps::{HeadMap, Panel};

/// The side of a map.
const SIDE: usize = 168;
/// The most maps beside each other: of one layer, and of one head.
const HEADS: usize = 12;
const STEPS: usize = 6;
/// So many panels have a row each.
const FEW: usize = 3;

/// Maps beside each other.
struct Row<'a> {
    /// What they have in common, where that is not in their captions.
    heading: Option<String>,
    maps: Vec<Entry<'a>>,
}

/// A map with its caption.
type Entry<'a> = (String, Tone, &'a HeadMap);

/// The heads of one panel, by layer.
fn of_layers(panel: &Panel, tone: Tone) -> Vec<Row<'_>> {
    let layers = panel.maps.maps.chunk_by(|one, next| one.layer == next.layer);
    let rows = layers.flat_map(|heads| heads.chunks(HEADS));
    rows.map(|heads| Row { heading: None, maps: heads.iter().map(|map| (name(map), tone, map)).collect() }).collect()
}

/// The heads of a few panels, by layer, with a row for each panel.
fn of_panels<'a>(panels: &'a [Panel], tones: &[Tone]) -> Vec<Row<'a>> {
    let Some(first) = panels.first() else { return Vec::new() };
    let mut rows = Vec::new();
    let mut from = 0;
    for layer in first.maps.maps.chunk_by(|one, next| one.layer == next.layer) {
        for heads in layer.chunks(HEADS) {
            for (at, (panel, &tone)) in panels.iter().zip(tones).enumerate() {
                let maps = panel.maps.maps.iter().skip(from).take(heads.len());
                let captioned = |map: &'_ HeadMap| format!("head {}, {}", map.head, panel.name);
                let heading = (at == 0).then(|| format!("layer {}", heads[0].layer));
                rows.push(Row { heading, maps: maps.map(|map| (captioned(map), tone, map)).collect() });
            }
            from += heads.len();
        }
    }
    rows
}

/// Each head over many panels.
fn of_heads<'a>(panels: &'a [Panel], tones: &[Tone]) -> Vec<Row<'a>> {
    let heads = panels.first().map_or(0, |panel| panel.maps.maps.len());
    let across = if heads == 1 { STEPS } else { HEADS };
    let mut rows = Vec::new();
    for head in 0..heads {
        let entry = |(panel, &tone): (&'a Panel, &Tone)| -> Option<Entry<'a>> {
            Some((caption(panels, panel, head), tone, panel.maps.maps.get(head)?))
        };
        let maps: Vec<Entry<'a>> = panels.iter().zip(tones).filter_map(entry).collect();
        let heading = maps.first().filter(|_| heads > 1).map(|(_, _, map)| name(map));
        for (at, maps) in maps.chunks(across).enumerate() {
            let heading = heading.clone().filter(|_| at == 0);
            rows.push(Row { heading, maps: maps.to_vec() });
        }
    }
    rows
}

/// What a grid of several heads is called.
fn title_of_heads(panel: &Panel) -> String {
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let maps = &panel.maps.maps;
    let layers = maps.chunk_by(|one, next| one.layer == next.layer).count();
    match maps.first() {
        Some(map) if layers == 1 => format!("layer {}, {}", map.layer, counted(maps.len(), "head")),
        _ => format!("{}, {}", counted(layers, "layer"), counted(maps.len(), "head")),
    }
}

/// A picture of all maps of all panels.
pub fn multiples(panels: &[Panel], scale: Scale, notes: &[String], letters: Letters) -> Drawing {
    let tones: Vec<Tone> = panels.iter().map(|panel| Tone::of(&panel.maps, scale)).collect();
    let rows = match (panels, &tones[..]) {
        ([panel], &[tone]) => of_layers(panel, tone),
        (panels, tones) if panels.len() <= FEW => of_panels(panels, tones),
        (panels, tones) => of_heads(panels, tones),
    };
    let across = rows.iter().map(|row| row.maps.len()).max().unwrap_or(0);
    let whole = (MARGIN + across * (SIDE + MARGIN) + LEGEND).max(LEAST_WIDTH);
    let title = match panels {
        [panel, ..] if panel.maps.maps.len() != 1 => title_of_heads(panel),
        panels => title(panels, 0),
    };
    let mut page = Page::new(whole, title, letters);
    for scale in scales(panels.iter().zip(tones.iter().copied())) {
        page.lines(&scale, true);
    }
    page.lines("rows are queries, columns keys", true);
    page.y += GAP;
    let top = page.y + LINE + GAP;
    let longest = longest(panels);
    let mut seen: Vec<(Tone, Vec<Cell>)> = Vec::new();
    let mut facts = Vec::new();
    for row in &rows {
        if let Some(heading) = &row.heading {
            page.y += LINE + GAP;
            page.text(Text::line(MARGIN, page.y, heading.clone()));
        }
        page.y += LINE;
        let mut tallest = 0;
        for (at, &(ref caption, tone, map)) in row.maps.iter().enumerate() {
            let x = MARGIN + at * (SIDE + MARGIN);
            let cells = Cells::of(map, tone, SIDE, SIDE);
            let size = SIDE / longest.clamp(1, SIDE);
            tallest = tallest.max(cells.rows * size);
            facts.extend(cells.rule(tone.quantity));
            match seen.iter_mut().find(|(known, _)| *known == tone) {
                Some((_, all)) => all.extend(&cells.cells),
                None => seen.push((tone, cells.cells.clone())),
            }
            page.text(Text::line(x, page.y, cut(&letters.spell(caption), SIDE / ADVANCE)));
            page.push(Shape::Cells { x, y: page.y + GAP, size, cells });
        }
        page.y += GAP + tallest + GAP;
    }
    let mut bottom = top;
    for (tone, cells) in &seen {
        let place = (MARGIN + across * (SIDE + MARGIN) + BEFORE_BAR - MARGIN, bottom);
        bottom = page.legend(place, SIDE, cells, *tone) + 2 * LINE;
    }
    page.y = page.y.max(bottom - LINE) + GAP;
    facts.extend(panels.iter().zip(&tones).filter_map(|(panel, &tone)| beyond_the_scale(&panel.maps.maps, tone)));
    page.abouts(panels);
    if let Some((first, others)) = panels.split_first()
        && others.iter().all(|other| other.maps.tokens == first.maps.tokens)
    {
        page.tokens(&first.maps.tokens);
    }
    page.foot(notes, facts.into_iter().chain(origins(panels)));
    page.done()
}
