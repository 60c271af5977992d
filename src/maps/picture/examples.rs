//! Maps for tests.

use crate::maps::{HeadMap, Maps, Panel, Quantity};

/// A map with these rows.
pub fn of_rows(rows: &[&[f32]], causal: bool) -> HeadMap {
    HeadMap { layer: 0, head: 0, queries: rows.len(), keys: rows[0].len(), weights: rows.concat(), causal }
}

/// A causal map whose rows are uniform over what they see.
pub fn causal(queries: usize, keys: usize) -> HeadMap {
    let mut map = HeadMap { layer: 0, head: 0, queries, keys, weights: vec![0.0; queries * keys], causal: true };
    for query in 0..queries {
        let visible = (0..keys).filter(|&key| !map.is_masked(query, key)).count();
        for key in 0..visible {
            map.weights[query * keys + key] = 1.0 / visible as f32;
        }
    }
    map
}

/// Maps over a text; they are numbered as the heads of one layer.
pub fn text(tokens: &[&str], mut maps: Vec<HeadMap>) -> Maps {
    for (head, map) in maps.iter_mut().enumerate() {
        map.head = head;
    }
    let tokens = tokens.iter().map(|token| token.to_string()).collect();
    Maps { tokens, layers: 1, heads: maps.len(), maps, quantity: Quantity::Weight, source: "made for a test".into() }
}

/// Maps that nothing stands beside.
pub fn alone(maps: &Maps) -> Panel {
    Panel { name: String::new(), about: String::new(), maps: maps.clone(), measured: Vec::new() }
}

/// Tokens that a careless writer would let out of their place.
pub const HOSTILE: [&str; 8] = [
    "</script><script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'><svg onload=alert(1)>",
    "<!--<script>",
    "]]>",
    "&lt;",
    "\u{0}\u{1b}]0;title\u{7}\u{202e}\u{2028}",
    "${alert(1)}`\\u003c",
];
