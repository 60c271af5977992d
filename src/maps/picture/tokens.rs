//! Which token stands at a row or a column of a map.

use super::letters::Letters;
use crate::maps::{HeadMap, Maps, Quantity};

/// The label of a query, at most `columns` columns of a terminal wide. Queries are the last Tq tokens, as the mask is
/// aligned.
pub fn query(maps: &Maps, map: &HeadMap, query: usize, (letters, columns): (Letters, usize)) -> String {
    named(maps, map.queries, query, (letters, columns))
}

/// The label of a key; keys are the last Tk tokens.
pub fn key(maps: &Maps, map: &HeadMap, key: usize, (letters, columns): (Letters, usize)) -> String {
    named(maps, map.keys, key, (letters, columns))
}

/// How many columns a label may take: where two texts are compared it may be of two tokens.
fn room(maps: &Maps, columns: usize) -> usize {
    if maps.quantity == Quantity::Difference { 2 * columns + 1 } else { columns }
}

/// Where the text has no such token its number stands for it.
fn named(maps: &Maps, length: usize, at: usize, (letters, columns): (Letters, usize)) -> String {
    let token = (maps.tokens.len() + at).checked_sub(length).and_then(|place| maps.tokens.get(place));
    token.map_or_else(|| format!("({at})"), |token| letters.label_within(token, room(maps, columns)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::examples::{causal, text};

    #[test]
    fn queries_and_keys_are_the_last_tokens_of_the_text() {
        let maps = text(&["a", " ", "\n", "d"], vec![causal(2, 4), causal(4, 2), causal(6, 4)]);
        let labels = |map: &HeadMap| -> (Vec<String>, Vec<String>) {
            let queries = (0..map.queries).map(|at| query(&maps, map, at, (Letters::Any, 9))).collect();
            (queries, (0..map.keys).map(|at| key(&maps, map, at, (Letters::Any, 9))).collect())
        };
        let whole = ["a", "␣", "⏎", "d"];
        assert_eq!(
            labels(&maps.maps[0]),
            (whole[2..].iter().map(|label| label.to_string()).collect(), whole.map(String::from).into())
        );
        assert_eq!(labels(&maps.maps[1]).1, ["⏎", "d"]);
        assert_eq!(labels(&maps.maps[2]).0, ["(0)", "(1)", "a", "␣", "⏎", "d"]);
    }
}
