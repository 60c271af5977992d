//! Maps as one HTML page that needs nothing else: no server, no network, no other file.
//!
//! The page holds labels, measures and thumbnails as JSON, and the weights of each map as base64 in an element of its own,
//! which is decoded when that map is looked at. So a page of many long maps opens as fast as one map is drawn.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::cells::{Cell, Cells, Scale, Tone, beyond_the_scale};
use super::colour::{Palette, Theme};
use super::drawing::name;
use super::json::measured;
use super::label::{label, label_within};
use super::markup::{escaped, inert_json};
use crate::maps::{HeadMap, HeadMeasures, Maps, Pattern, outstanding};

const STYLE: &str = include_str!("../../../assets/maps/viewer.css");
const BODY: &str = include_str!("../../../assets/maps/viewer.html");
const SCRIPT: &str = include_str!("../../../assets/maps/viewer.js");

/// Up to this many weights are stored in 16 bits, more of them in 8.
const FINE: usize = 1 << 21;

/// The rows and columns of a thumbnail.
const THUMBNAIL: usize = 56;

/// The longest label in the page; the whole of a longer token is of no use there.
const LONGEST: usize = 200;

/// Nothing but what lies in the page itself may be loaded or run.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// The page: maps, what was measured of them (in their order), sentences, and the scale it begins with.
pub fn html(maps: &Maps, measures: &[HeadMeasures], notes: &[String], scale: Scale) -> String {
    let count: usize =
        maps.maps.iter().map(|map| (0..map.queries).map(|query| visible(map, query)).sum::<usize>()).sum();
    let bits = if count <= FINE { 16 } else { 8 };
    let first = outstanding(measures).unwrap_or(0);
    let entries: Vec<Value> = maps.maps.iter().map(|map| entry(map, measures, bits, maps)).collect();
    let patterns: Vec<Value> = Pattern::ALL
        .into_iter()
        .filter(|&pattern| measures.iter().any(|head| head.of(pattern).is_some()))
        .map(|pattern| json!({ "name": pattern.name(), "verb": pattern.verb(), "less": pattern.less_is_more() }))
        .collect();
    let notes: Vec<&String> = notes.iter().collect();
    let data = json!({
        "tokens": maps.tokens.iter().map(|token| label_within(token, LONGEST)).collect::<Vec<_>>(),
        "spaced": maps.tokens.iter().any(|token| token.chars().nth(1).is_some()),
        "source": format!("weights {}", maps.source),
        "beyond": beyond_the_scale(&maps.maps, Tone::of(maps, Scale::Fixed)),
        "scale": match scale { Scale::Fixed => "fixed", Scale::Row => "row" },
        "scales": { "fixed": Tone::of(maps, Scale::Fixed).to_string(), "row": Tone::of(maps, Scale::Row).to_string() },
        "bits": bits,
        "first": first,
        "notes": notes,
        "patterns": patterns,
        "maps": entries,
        "themes": { "light": theme(Theme::Light), "dark": theme(Theme::Dark) },
    });
    let title = match &maps.maps[..] {
        [map] => name(map),
        _ => label(&maps.tokens.iter().take(12).map(String::as_str).collect::<Vec<_>>().join(" ")).replace('␣', " "),
    };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Attention: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{BODY}\
         <script type=\"application/json\" id=\"maps\">{}</script>\n",
        escaped(&title),
        inert_json(&data.to_string())
    );
    // The map that is shown first stands before the script, the others behind it: they need not be there to begin.
    let (shown, others) = (0..maps.maps.len()).partition::<Vec<_>, _>(|&at| at == first);
    for at in shown {
        push_weights(&mut page, at, &encoded(&maps.maps[at], bits));
    }
    page.push_str(&format!("<script>\n{SCRIPT}</script>\n"));
    for at in others {
        push_weights(&mut page, at, &encoded(&maps.maps[at], bits));
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn push_weights(page: &mut String, at: usize, bytes: &[u8]) {
    page.push_str(&format!("<script type=\"text/plain\" id=\"weights-{at}\">"));
    STANDARD.encode_string(bytes, page);
    page.push_str("</script>\n");
}

/// How many keys a query sees; they are the first ones.
fn visible(map: &HeadMap, query: usize) -> usize {
    match map.causal {
        true => (query + 1 + map.keys).saturating_sub(map.queries).min(map.keys),
        false => map.keys,
    }
}

/// The least and the largest weight that a map's code can hold: 0 and 1, or further apart.
fn range(map: &HeadMap) -> (f32, f32) {
    map.weights.iter().fold((0.0, 1.0), |(low, high), &weight| (weight.min(low), weight.max(high)))
}

/// The visible weights of a map, row by row, in `bits` bits each, the lowest byte first. The code with all bits set is
/// NaN; the others run from the map's least to its largest weight: evenly in 16 bits, as squares in 8, so that small
/// weights keep their differences.
fn encoded(map: &HeadMap, bits: u32) -> Vec<u8> {
    let (low, high) = range(map);
    let mut bytes = Vec::new();
    for query in 0..map.queries {
        for &weight in &map.weights[query * map.keys..][..visible(map, query)] {
            let share = (weight - low) / (high - low);
            match bits {
                16 if weight.is_nan() => bytes.extend(u16::MAX.to_le_bytes()),
                16 => bytes.extend(((share * 65534.0).round() as u16).to_le_bytes()),
                _ if weight.is_nan() => bytes.push(u8::MAX),
                _ => bytes.push((share.sqrt() * 254.0).round() as u8),
            }
        }
    }
    bytes
}

fn entry(map: &HeadMap, measures: &[HeadMeasures], bits: u32, maps: &Maps) -> Value {
    let &HeadMap { layer, head, queries, keys, causal, .. } = map;
    let (low, high) = range(map);
    // Half a step of the code, where steps are widest.
    let precision = (high - low) * if bits == 16 { 0.5 / 65534.0 } else { 1.0 / 254.0 };
    let own = measures.iter().find(|own| (own.layer, own.head) == (layer, head));
    json!({
        "layer": layer, "head": head, "queries": queries, "keys": keys, "causal": causal, "low": low, "high": high,
        "precision": precision, "measures": own.map_or_else(Map::new, measured),
        "fixed": thumbnail(map, Tone::of(maps, Scale::Fixed)), "row": thumbnail(map, Tone::of(maps, Scale::Row)),
    })
}

/// A byte a cell: weights from 0 to 253, NaN 254, masked 255.
fn thumbnail(map: &HeadMap, tone: Tone) -> Value {
    let cells = Cells::of(map, tone, THUMBNAIL, THUMBNAIL);
    let code = |cell: &Cell| match *cell {
        Cell::Masked => 255,
        Cell::NotANumber => 254,
        Cell::Weight(weight) => (weight.clamp(0.0, 1.0) * 253.0).round() as u8,
        Cell::Signed(number) => ((number.clamp(-1.0, 1.0) + 1.0) * 126.5).round() as u8,
    };
    let mut text = String::new();
    STANDARD.encode_string(cells.cells.iter().map(code).collect::<Vec<u8>>(), &mut text);
    json!({ "rows": cells.rows, "columns": cells.columns, "pooled": cells.pooled, "cells": text })
}

fn theme(theme: Theme) -> Value {
    let Palette { ground, text, faint, masked, hatch, not_a_number } = theme.palette();
    let ramp: Vec<[u8; 3]> = (0..=255u8)
        .map(|step| theme.weight(f64::from(step) / 255.0))
        .map(|colour| [colour.red, colour.green, colour.blue])
        .collect();
    let [ground, text, faint, masked, hatch, not_a_number] =
        [ground, text, faint, masked, hatch, not_a_number].map(|colour| [colour.red, colour.green, colour.blue]);
    json!({ "ramp": ramp, "ground": ground, "text": text, "faint": faint, "masked": masked, "hatch": hatch, "nan": not_a_number })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::examples::{HOSTILE, causal, of_rows, text};

    #[test]
    fn no_token_and_no_note_becomes_markup() {
        let plain = html(&text(&["a", "b"], vec![causal(2, 2)]), &[], &["a".into()], Scale::Fixed);
        // The names of the elements, in their order.
        let elements = |page: &str| -> Vec<String> {
            let page = page.replace(SCRIPT, "").replace(BODY, "").replace(STYLE, "");
            page.split('<')
                .skip(1)
                .map(|tag| {
                    tag.chars().take_while(|letter| letter.is_alphanumeric() || "/!".contains(*letter)).collect()
                })
                .collect()
        };
        for hostile in HOSTILE {
            let page = html(&text(&[hostile, "b"], vec![causal(2, 2)]), &[], &[hostile.into()], Scale::Row);
            assert_eq!(elements(&page), elements(&plain), "{hostile:?}");
            assert!(page.chars().all(|character| character == '\n' || !character.is_control()), "{hostile:?}");
        }
    }

    #[test]
    fn the_page_loads_nothing_and_its_script_writes_no_markup() {
        for forbidden in ["http:", "https:", "src=", "@import", "url("] {
            assert!(
                !SCRIPT.contains(forbidden) && !BODY.contains(forbidden) && !STYLE.contains(forbidden),
                "{forbidden}"
            );
        }
        for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "</script"] {
            assert!(!SCRIPT.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn weights_are_kept_within_the_precision_that_the_page_states() {
        let map = of_rows(&[&[0.0, 1.0, 0.25], &[0.001, 0.5, 0.499], &[-0.5, 3.0, f32::NAN]], false);
        for bits in [16, 8] {
            let entry = entry(&map, &[], bits, &text(&[], vec![map.clone()]));
            let number = |name: &str| entry[name].as_f64().unwrap();
            let (low, high) = (number("low"), number("high"));
            assert_eq!((low, high), (-0.5, 3.0));
            let decoded: Vec<f64> = match bits {
                16 => encoded(&map, 16)
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|&code| f64::from(u16::from_le_bytes(code)) / 65534.0)
                    .collect(),
                _ => encoded(&map, 8).into_iter().map(|code| (f64::from(code) / 254.0).powi(2)).collect(),
            };
            assert_eq!(decoded.len(), 9);
            for (&weight, share) in map.weights.iter().zip(decoded) {
                match weight.is_nan() {
                    true => assert!(share > 1.0),
                    false => {
                        let found = low + (high - low) * share;
                        assert!(
                            (found - f64::from(weight)).abs() <= number("precision") * 1.01,
                            "{bits} bits: {weight} is {found}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn only_what_is_not_masked_is_stored() {
        for (queries, keys, expected) in [(1, 1, 1), (3, 3, 6), (2, 4, 7), (4, 2, 3)] {
            assert_eq!(encoded(&causal(queries, keys), 8).len(), expected, "{queries} x {keys}");
        }
        assert_eq!(encoded(&of_rows(&[&[1.0, 0.0], &[0.0, 1.0]], false), 16).len(), 8);
    }
}
