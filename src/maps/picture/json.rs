//! Maps as JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::maps::{HeadMap, HeadMeasures, Panel, Quantity};

/// Maps beside each other.
#[derive(Serialize)]
struct Documents<'a> {
    panels: Vec<Named<'a>>,
    notes: &'a [String],
}

/// Maps that stand alone.
#[derive(Serialize)]
struct Alone<'a> {
    #[serde(flatten)]
    document: Document<'a>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    about: &'a str,
    #[serde(flatten)]
    document: Document<'a>,
}

#[derive(Serialize)]
struct Document<'a> {
    tokens: &'a [String],
    layers: usize,
    heads: usize,
    /// What the numbers are: `weight`, `difference` or `gradient`.
    quantity: &'static str,
    source: &'a str,
    maps: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    layer: usize,
    head: usize,
    queries: usize,
    keys: usize,
    causal: bool,
    measures: Value,
    /// Under what they are called: a list a query; `null` where the key is masked.
    #[serde(flatten)]
    numbers: BTreeMap<&'static str, Vec<Vec<Option<&'a f32>>>>,
}

/// The maps as one JSON object: the tokens' own text, and for each map its weights `[Tq][Tk]` in full precision, `null`
/// where masked, with what was measured of it; differences and gradients are called so in the place of weights. Several
/// panels are a list of such objects, each with its name. Last come the sentences.
///
/// # Errors
/// None that a map can cause.
pub fn json(panels: &[Panel], notes: &[String]) -> serde_json::Result<String> {
    if let [panel] = panels {
        return serde_json::to_string(&Alone { document: Document::of(panel), notes });
    }
    let named =
        panels.iter().map(|panel| Named { name: &panel.name, about: &panel.about, document: Document::of(panel) });
    serde_json::to_string(&Documents { panels: named.collect(), notes })
}

impl<'a> Document<'a> {
    fn of(Panel { maps, measured: measures, .. }: &'a Panel) -> Self {
        let entry = |map: &HeadMap| -> Value {
            let own = measures.iter().find(|own| (own.layer, own.head) == (map.layer, map.head));
            Value::Object(own.map_or_else(Map::new, measured))
        };
        let [quantity, _] = maps.quantity.names();
        Self {
            tokens: &maps.tokens,
            layers: maps.layers,
            heads: maps.heads,
            quantity,
            source: &maps.source,
            maps: maps.maps.iter().map(|map| Entry::of(map, maps.quantity, entry(map))).collect(),
        }
    }
}

/// What was measured of a head, by the pattern's name.
pub fn measured(head: &HeadMeasures) -> Map<String, Value> {
    let measures = head.measures.iter();
    measures
        .map(|(pattern, measure)| {
            let value = json!({
                "score": measure.score, "uniform": measure.uniform, "distractor": measure.distractor,
                "queries": measure.queries,
            });
            (pattern.name().to_string(), value)
        })
        .collect()
}

impl<'a> Entry<'a> {
    fn of(map: &'a HeadMap, quantity: Quantity, measures: Value) -> Self {
        let &HeadMap { layer, head, queries, keys, causal, .. } = map;
        let rows = (0..queries).map(|query| {
            let row = &map.weights[query * keys..(query + 1) * keys];
            row.iter().enumerate().map(|(key, weight)| (!map.is_masked(query, key)).then_some(weight)).collect()
        });
        let [_, called] = quantity.names();
        Self { layer, head, queries, keys, causal, measures, numbers: BTreeMap::from([(called, rows.collect())]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::examples::{HOSTILE, alone, causal, of_rows, text};
    use crate::maps::{Maps, Measure, Pattern};

    #[test]
    fn weights_tokens_and_measures_read_back_and_what_is_masked_is_null() {
        let maps = text(&HOSTILE[..2], vec![of_rows(&[&[1.0, 0.0], &[0.1, 0.9]], true), causal(1, 2)]);
        let measure = Measure { score: 0.9, uniform: 0.5, distractor: None, queries: 1 };
        let measures = [HeadMeasures { layer: 0, head: 0, measures: vec![(Pattern::PreviousToken, measure)] }];
        let panel = Panel { measured: measures.to_vec(), ..alone(&maps) };
        let value: Value =
            serde_json::from_str(&json(std::slice::from_ref(&panel), &["a note".into()]).unwrap()).unwrap();
        assert_eq!((&value["quantity"], &value["notes"]), (&json!("weight"), &json!(["a note"])));
        assert_eq!(value["tokens"], json!(HOSTILE[..2]));
        assert_eq!(value["maps"][0]["weights"], json!([[1.0, null], [0.1, 0.9]]));
        assert_eq!(value["maps"][0]["measures"]["previous"]["score"], json!(0.9));
        assert_eq!(value["maps"][1]["weights"], json!([[0.5, 0.5]]));
        assert_eq!(value["maps"][1]["measures"], json!({}));
        let gradient = Maps { quantity: Quantity::Gradient, ..maps };
        let panels = [panel, Panel { name: "gradient".into(), about: "\"".into(), ..alone(&gradient) }];
        let value: Value = serde_json::from_str(&json(&panels, &[]).unwrap()).unwrap();
        assert_eq!(value["panels"][0]["maps"][0]["measures"]["previous"]["score"], json!(0.9));
        let [second, about] = ["quantity", "about"].map(|name| &value["panels"][1][name]);
        assert_eq!((second, about), (&json!("gradient"), &json!("\"")));
        assert_eq!(value["panels"][1]["maps"][1]["gradients"], json!([[0.5, 0.5]]));
    }
}
