//! Maps as one HTML page that needs nothing else: no server, no network, no other file.
//!
//! The page holds labels, measures and thumbnails as JSON, and the numbers of each map as base64 in an element of its own,
//! which is decoded when that map is looked at. So a page of many long maps opens as fast as one map is drawn.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::cells::{Cell, Cells, Scale, Tone, beyond_the_scale};
use super::colour::{Palette, Theme};
use super::counterparts::counterparts;
use super::drawing::name;
use super::json::measured;
use super::label::{in_one_line, label_within};
use super::markup::{escaped, inert_json};
use super::packed::Packing;
use crate::maps::{HeadMap, Maps, Panel, Pattern, Quantity, first_row};

const STYLE: &str = include_str!("../../../assets/maps/viewer.css");
const BODY: &str = include_str!("../../../assets/maps/viewer.html");
/// In this order: each uses what those before it define.
const SCRIPTS: [&str; 4] = [
    include_str!("../../../assets/maps/numbers.js"),
    include_str!("../../../assets/maps/picture.js"),
    include_str!("../../../assets/maps/lists.js"),
    include_str!("../../../assets/maps/viewer.js"),
];

/// Up to this many numbers are stored in 16 bits, more of them in 8.
const FINE: usize = 1 << 21;

/// The rows and columns of a thumbnail.
const THUMBNAIL: usize = 56;

/// Of more panels, the thumbnails show the first, the middle and the last.
const MOST_THUMBNAILS: usize = 4;

/// The longest label in the page; the whole of a longer token is of no use there.
const LONGEST: usize = 200;

/// Nothing but what lies in the page itself may be loaded or run.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// The page: panels beside each other, map for map, what was measured of them, sentences, and the scale it begins with.
/// It begins with the row that [`first_row`] names. Maps that not every panel has are left out.
pub fn html(panels: &[Panel], notes: &[String], scale: Scale) -> String {
    let maps = panels.iter().map(|panel| panel.maps.maps.len()).min().unwrap_or(0);
    let leading = panels.iter().rposition(|panel| !panel.measured.is_empty()).unwrap_or(0);
    let first = first_row(panels).filter(|&at| at < maps).unwrap_or(0);
    let bits = if count(panels) <= FINE { 16 } else { 8 };
    let pictured = pictured(panels.len());
    let mut texts: Vec<&[String]> = Vec::new();
    for panel in panels {
        if !texts.contains(&&panel.maps.tokens[..]) {
            texts.push(&panel.maps.tokens);
        }
    }
    let entries: Vec<Value> = panels
        .iter()
        .enumerate()
        .map(|(at, panel)| {
            let text = texts.iter().position(|&text| text == panel.maps.tokens);
            let fixed = Tone::of(&panel.maps, Scale::Fixed);
            let entry = |map| entry(panel, map, bits, Some(fixed).filter(|_| pictured.contains(&at)));
            described(panel, text, (bits, fixed), panel.maps.maps[..maps].iter().map(entry).collect())
        })
        .collect();
    let data = json!({
        "texts": texts.iter().map(|tokens| labels(tokens)).collect::<Vec<_>>(),
        "panels": entries,
        "bars": bars(panels),
        "bits": bits,
        "first": first,
        "leading": leading,
        "pictured": pictured,
        "counterparts": counterparts(panels),
        "scale": scale_name(scale),
        "notes": notes,
        "patterns": patterns(panels),
        "themes": { "light": theme(Theme::Light), "dark": theme(Theme::Dark) },
    });
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Attention: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{BODY}\
         <script type=\"application/json\" id=\"maps\">{}</script>\n",
        escaped(&title(panels)),
        inert_json(&data.to_string())
    );
    // The maps that are shown first stand before the script, the others behind it: they need not be there to begin.
    let (shown, others) = (0..maps).partition::<Vec<_>, _>(|&at| at == first);
    push_maps(&mut page, panels, &shown, bits);
    page.push_str(&format!("<script>\n{}</script>\n", script()));
    push_maps(&mut page, panels, &others, bits);
    page.push_str("</body>\n</html>\n");
    page
}

/// The scripts as one, whose names are its own.
fn script() -> String {
    format!("'use strict';\n{{\n{}}}\n", SCRIPTS.concat())
}

fn push_maps(page: &mut String, panels: &[Panel], which: &[usize], bits: u32) {
    for &at in which {
        for (place, panel) in panels.iter().enumerate() {
            let map = &panel.maps.maps[at];
            page.push_str(&format!("<script type=\"text/plain\" id=\"numbers-{place}-{at}\">"));
            STANDARD.encode_string(Packing::of(map, panel.maps.quantity, bits).bytes(map), page);
            page.push_str("</script>\n");
        }
    }
}

/// How many numbers there are that are not masked.
fn count(panels: &[Panel]) -> usize {
    let maps = panels.iter().flat_map(|panel| &panel.maps.maps);
    maps.flat_map(|map| (0..map.queries).map(|query| map.visible(query))).sum()
}

/// Which of so many panels the thumbnails show.
fn pictured(panels: usize) -> Vec<usize> {
    if panels <= MOST_THUMBNAILS { (0..panels).collect() } else { vec![0, panels / 2, panels - 1] }
}

fn title(panels: &[Panel]) -> String {
    let Some(Panel { maps, .. }) = panels.first() else { return String::new() };
    let text = match &maps.maps[..] {
        [map] => name(map),
        _ => in_one_line(&maps.tokens.iter().take(12).map(String::as_str).collect::<Vec<_>>().join(" ")),
    };
    match panels {
        [] | [_] => text,
        [first, .., last] if panels.len() > MOST_THUMBNAILS => {
            format!("{text} ({} to {})", in_one_line(&first.name), in_one_line(&last.name))
        }
        _ => format!("{text} ({})", panels.iter().map(|panel| in_one_line(&panel.name)).collect::<Vec<_>>().join(", ")),
    }
}

fn scale_name(scale: Scale) -> &'static str {
    match scale {
        Scale::Fixed => "fixed",
        Scale::Row => "row",
    }
}

/// What there is by either scale, under the scale's name.
fn by_scale(value: impl Fn(Scale) -> Value) -> Value {
    [Scale::Fixed, Scale::Row]
        .into_iter()
        .map(|scale| (scale_name(scale).to_string(), value(scale)))
        .collect::<Map<_, _>>()
        .into()
}

fn labels(tokens: &[String]) -> Value {
    json!({
        "tokens": tokens.iter().map(|token| label_within(token, LONGEST)).collect::<Vec<_>>(),
        "spaced": tokens.iter().any(|token| token.chars().nth(1).is_some()),
    })
}

fn patterns(panels: &[Panel]) -> Vec<Value> {
    let measured = |pattern| panels.iter().flat_map(|panel| &panel.measured).any(|head| head.of(pattern).is_some());
    let known = Pattern::ALL.into_iter().filter(|&pattern| measured(pattern));
    known
        .map(|pattern| json!({ "name": pattern.name(), "verb": pattern.verb(), "less": pattern.less_is_more() }))
        .collect()
}

/// A bar of colours, and whose they are.
#[derive(Serialize)]
struct Bar {
    ticks: Value,
    /// One of the numbers.
    called: &'static str,
    signed: bool,
    panels: Vec<usize>,
}

/// One for all panels whose numbers have the same ticks.
fn bars(panels: &[Panel]) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    for (at, panel) in panels.iter().enumerate() {
        let ticks = by_scale(|scale| Tone::of(&panel.maps, scale).ticks().into());
        let quantity = panel.maps.quantity;
        let [called, _] = quantity.names();
        match bars.iter_mut().find(|bar| bar.ticks == ticks && bar.called == called) {
            Some(bar) => bar.panels.push(at),
            None => bars.push(Bar { ticks, called, signed: quantity.is_signed(), panels: vec![at] }),
        }
    }
    bars
}

fn described(panel: &Panel, text: Option<usize>, (bits, fixed): (u32, Tone), entries: Vec<Value>) -> Value {
    let Panel { maps, .. } = panel;
    let Maps { quantity, .. } = *maps;
    let [one, several] = quantity.names();
    json!({
        "name": in_one_line(&panel.name),
        "about": in_one_line(&panel.about),
        "quantity": one,
        "quantities": several,
        "signed": quantity.is_signed(),
        // Gradients have no size of their own: they are told by their first digits.
        "unbounded": quantity == Quantity::Gradient,
        // Nothing where it is infinite.
        "bound": fixed.bound,
        "even": Packing::is_even(quantity, bits),
        "text": text,
        "source": format!("weights {}", maps.source),
        "beyond": beyond_the_scale(&maps.maps, fixed),
        "scales": by_scale(|scale| Tone { scale, ..fixed }.to_string().into()),
        "maps": entries,
    })
}

/// `fixed` is the tone of the panel on a fixed scale, where its thumbnail is shown.
fn entry(panel: &Panel, map: &HeadMap, bits: u32, fixed: Option<Tone>) -> Value {
    let &HeadMap { layer, head, queries, keys, causal, .. } = map;
    let packing = Packing::of(map, panel.maps.quantity, bits);
    let own = panel.measured.iter().find(|own| (own.layer, own.head) == (layer, head));
    json!({
        "layer": layer, "head": head, "queries": queries, "keys": keys, "causal": causal,
        "low": packing.low, "high": packing.high, "precision": packing.precision(),
        "measures": own.map_or_else(Map::new, measured),
        "thumbnails": fixed.map(|fixed| by_scale(|scale| thumbnail(map, Tone { scale, ..fixed }))),
    })
}

/// A byte a cell: weights from 0 to 253, numbers with a sign from 0 to 252 with 0 in their middle; NaN 254, masked 255.
fn thumbnail(map: &HeadMap, tone: Tone) -> Value {
    let cells = Cells::of(map, tone, THUMBNAIL, THUMBNAIL);
    let code = |cell: &Cell| match *cell {
        Cell::Masked => 255,
        Cell::NotANumber => 254,
        Cell::Weight(weight) => (weight.clamp(0.0, 1.0) * 253.0).round() as u8,
        Cell::Signed(number) => ((number.clamp(-1.0, 1.0) + 1.0) * 126.0).round() as u8,
    };
    let mut text = String::new();
    STANDARD.encode_string(cells.cells.iter().map(code).collect::<Vec<u8>>(), &mut text);
    json!({ "rows": cells.rows, "columns": cells.columns, "cells": text })
}

fn theme(theme: Theme) -> Value {
    let Palette { ground, text, faint, masked, hatch, not_a_number } = theme.palette();
    let ramp: Vec<[u8; 3]> = (0..=255u8)
        .map(|step| theme.weight(f64::from(step) / 255.0))
        .map(|colour| [colour.red, colour.green, colour.blue])
        .collect();
    // An odd number of them: 0 is the one in the middle.
    let signed: Vec<[u8; 3]> = (-127..=127i8)
        .map(|step| theme.signed(f64::from(step) / 127.0))
        .map(|colour| [colour.red, colour.green, colour.blue])
        .collect();
    let [ground, text, faint, masked, hatch, not_a_number] =
        [ground, text, faint, masked, hatch, not_a_number].map(|colour| [colour.red, colour.green, colour.blue]);
    json!({
        "ramp": ramp, "signed": signed, "ground": ground, "text": text, "faint": faint, "masked": masked, "hatch": hatch,
        "nan": not_a_number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::examples::{HOSTILE, alone, causal, of_rows, text};
    use crate::maps::{HeadMeasures, Measure, measure};

    fn panel(name: &str, maps: Maps) -> Panel {
        let measured = if maps.quantity == Quantity::Weight { measure(&maps, &[]) } else { Vec::new() };
        Panel { name: name.into(), measured, ..alone(&maps) }
    }

    /// What a page holds as JSON.
    fn data(page: &str) -> Value {
        let (_, rest) = page.split_once("id=\"maps\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    /// The numbers of a map as the page's script reads them, masked ones left out.
    fn numbers(page: &str, panel: usize, map: usize) -> Vec<f64> {
        let (_, rest) = page.split_once(&format!("id=\"numbers-{panel}-{map}\">")).unwrap();
        let bytes = STANDARD.decode(rest.split_once('<').unwrap().0).unwrap();
        let data = data(page);
        assert_eq!(data["bits"], 16);
        assert_eq!(data["panels"][panel]["even"], true);
        let entry = &data["panels"][panel]["maps"][map];
        let [low, high] = ["low", "high"].map(|name| entry[name].as_f64().unwrap());
        let number = |&code| low + (high - low) * f64::from(u16::from_le_bytes(code)) / 65534.0;
        bytes.as_chunks().0.iter().map(number).collect()
    }

    #[test]
    fn no_token_no_note_and_no_panel_becomes_markup() {
        let page = |[token, note, name, about]: [&str; 4]| {
            let panel = |name: &str| Panel {
                about: about.into(),
                maps: Maps { source: about.into(), ..text(&[token, "b"], vec![causal(2, 2)]) },
                ..panel(name, text(&[], vec![]))
            };
            html(&[panel(name), panel("second")], &[note.into()], Scale::Row)
        };
        // The names of the elements, in their order.
        let elements = |page: &str| -> Vec<String> {
            let page = page.replace(&script(), "").replace(BODY, "").replace(STYLE, "");
            page.split('<')
                .skip(1)
                .map(|tag| {
                    tag.chars().take_while(|letter| letter.is_alphanumeric() || "/!".contains(*letter)).collect()
                })
                .collect()
        };
        let plain = elements(&page(["a"; 4]));
        for hostile in HOSTILE {
            let page = page([hostile; 4]);
            assert_eq!(elements(&page), plain, "{hostile:?}");
            assert!(page.chars().all(|character| character == '\n' || !character.is_control()), "{hostile:?}");
            let panel = &data(&page)["panels"][0];
            for name in ["name", "about"] {
                assert_eq!(panel[name], json!(in_one_line(hostile)), "{hostile:?}");
            }
        }
    }

    #[test]
    fn the_page_loads_nothing_and_its_script_writes_no_markup() {
        let script = script();
        for forbidden in ["http:", "https:", "src=", "@import", "url("] {
            assert!(
                !script.contains(forbidden) && !BODY.contains(forbidden) && !STYLE.contains(forbidden),
                "{forbidden}"
            );
        }
        for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "</script"] {
            assert!(!script.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn every_element_that_a_script_asks_for_stands_in_the_page() {
        let script = script();
        let asked: Vec<&str> =
            script.split("element('").skip(1).filter_map(|rest| Some(rest.split_once('\'')?.0)).collect();
        assert!(asked.len() > 15, "{asked:?}");
        for id in asked.iter().filter(|&&id| id != "maps") {
            assert!(BODY.contains(&format!("id=\"{id}\"")), "{id}");
        }
    }

    #[test]
    fn panels_of_other_lengths_and_quantities_each_keep_their_own_numbers() {
        let first = text(&["a", "b"], vec![of_rows(&[&[1.0, 0.0], &[0.25, 0.75]], true), causal(2, 2)]);
        let second = text(&["a", "b", "c"], vec![causal(3, 3), causal(3, 3)]);
        let less = of_rows(&[&[0.0, 0.0], &[0.25, -0.25]], true);
        let difference = Maps { quantity: Quantity::Difference, ..text(&["a", "b"], vec![less.clone(), less]) };
        let panels = [panel("first", first), panel("second", second), panel("difference", difference)];
        let page = html(&panels, &[], Scale::Fixed);
        let data = data(&page);
        assert_eq!(data["texts"].as_array().unwrap().len(), 2);
        let of = |name: &str| -> Vec<&Value> {
            data["panels"].as_array().unwrap().iter().map(|panel| &panel[name]).collect()
        };
        assert_eq!(of("name"), ["first", "second", "difference"]);
        assert_eq!(of("text"), [0, 1, 0]);
        assert_eq!(of("signed"), [false, false, true]);
        // The map that stands out in the last panel with measures, and that is sorted by them.
        assert_eq!(data["leading"], 1);
        assert_eq!(data["pictured"], json!([0, 1, 2]));
        assert_eq!(data["counterparts"], json!([[0, 1], [0, 1, null], [0, 1]]));
        let bars: Vec<&Value> = data["bars"].as_array().unwrap().iter().map(|bar| &bar["panels"]).collect();
        assert_eq!(bars, [&json!([0, 1]), &json!([2])]);
        for (at, panel) in panels.iter().enumerate() {
            for (place, map) in panel.maps.maps.iter().enumerate() {
                let expected: Vec<f32> = (0..map.queries)
                    .flat_map(|query| (0..map.keys).map(move |key| (query, key)))
                    .filter(|&(query, key)| !map.is_masked(query, key))
                    .map(|(query, key)| map.weight(query, key))
                    .collect();
                let found = numbers(&page, at, place);
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.into_iter().zip(expected) {
                    assert!((found - f64::from(expected)).abs() < 1e-5, "panel {at}, map {place}: {found}, {expected}");
                }
            }
        }
    }

    #[test]
    fn gradients_keep_three_digits_however_small_they_are() {
        let of = |largest: f32| {
            let rows = of_rows(&[&[0.0, 0.0], &[largest / 3.0, -largest]], true);
            panel("gradient", Maps { quantity: Quantity::Gradient, ..text(&["a", "b"], vec![rows]) })
        };
        for largest in [1.23e-6, 9.99e-5, 0.5, 4321.0] {
            let page = html(&[of(largest)], &[], Scale::Fixed);
            let found = numbers(&page, 0, 0);
            assert_eq!((found[0], found[2] as f32), (0.0, -largest));
            assert!((found[1] / f64::from(largest / 3.0) - 1.0).abs() < 1e-4, "{largest}: {}", found[1]);
            let panel = &data(&page)["panels"][0];
            assert_eq!(panel["bound"].as_f64().unwrap() as f32, largest);
            assert_eq!(panel["beyond"], Value::Null);
            // A shade that is as far from 0 as the ramp reaches.
            let cells = panel["maps"][0]["thumbnails"]["fixed"]["cells"].as_str().unwrap();
            assert_eq!(STANDARD.decode(cells).unwrap(), [126, 255, 168, 0], "{largest}");
        }
        // Where it is not finite, nothing can be scaled by it.
        assert_eq!(data(&html(&[of(f32::INFINITY)], &[], Scale::Row))["panels"][0]["bound"], Value::Null);
    }

    #[test]
    fn of_many_panels_three_have_thumbnails_and_the_title_names_the_ends() {
        let step = |at: usize| panel(&format!("step {at}"), text(&["a", "b"], vec![causal(2, 2)]));
        for (count, pictured, title) in [
            (1, json!([0]), "layer 0, head 0"),
            (2, json!([0, 1]), "layer 0, head 0 (step 0, step 1)"),
            (4, json!([0, 1, 2, 3]), "layer 0, head 0 (step 0, step 1, step 2, step 3)"),
            (24, json!([0, 12, 23]), "layer 0, head 0 (step 0 to step 23)"),
        ] {
            let page = html(&(0..count).map(step).collect::<Vec<_>>(), &[], Scale::Fixed);
            assert!(page.contains(&format!("<title>Attention: {title}</title>")), "{count}");
            let data = data(&page);
            assert_eq!(data["pictured"], pictured);
            for (at, panel) in data["panels"].as_array().unwrap().iter().enumerate() {
                let drawn = pictured.as_array().unwrap().contains(&json!(at));
                assert_eq!(panel["maps"][0]["thumbnails"].is_object(), drawn, "{at} of {count}");
            }
        }
    }

    #[test]
    fn panels_without_a_map_or_with_fewer_make_a_page_of_what_they_share() {
        for (panels, maps) in [
            (vec![], None),
            (vec![panel("", text(&[], vec![]))], Some(0)),
            (
                vec![
                    panel("first", text(&["a", "b"], vec![causal(2, 2), causal(2, 2)])),
                    panel("second", text(&["a", "b"], vec![causal(2, 2)])),
                ],
                Some(1),
            ),
        ] {
            let page = html(&panels, &[], Scale::Fixed);
            let data = data(&page);
            let found = data["panels"].get(0).map(|panel| panel["maps"].as_array().unwrap().len());
            assert_eq!(found, maps);
            assert_eq!(page.matches("id=\"numbers-").count(), maps.unwrap_or(0) * panels.len());
        }
    }

    #[test]
    fn a_page_of_one_panel_holds_each_map_once_and_begins_with_what_stands_out() {
        let of = |head, score| {
            let measure = Measure { score, uniform: 0.2, distractor: None, queries: 9 };
            HeadMeasures { layer: 0, head, measures: vec![(Pattern::Induction, measure)] }
        };
        let maps = text(&["a", "b"], vec![causal(2, 2), causal(2, 2)]);
        let one = Panel { measured: vec![of(0, 0.3), of(1, 0.9)], ..panel("", maps) };
        let page = html(&[one], &[], Scale::Row);
        let data = data(&page);
        assert_eq!((&data["first"], &data["leading"], &data["scale"]), (&json!(1), &json!(0), &json!("row")));
        assert_eq!(data["panels"][0]["name"], "");
        assert_eq!(data["bars"][0]["ticks"]["fixed"], json!(["1", "0.75", "0.5", "0.25", "0"]));
        // The map that is shown first stands before the script.
        let [shown, script, other] =
            ["id=\"numbers-0-1\"", "'use strict'", "id=\"numbers-0-0\""].map(|part| page.find(part).unwrap());
        assert!(shown < script && script < other);
    }
}
