//! The map to look at first.

use super::map::HeadMap;
use super::measures::HeadMeasures;
use super::panel::Panel;

/// The head whose weight on the keys of some pattern lies furthest above what equal weights, and keys of the same kind,
/// would get: its place among `measured`. The first where none stands out; `None` where there is none at all.
pub fn outstanding(measured: &[HeadMeasures]) -> Option<usize> {
    let far = |head: &HeadMeasures| -> f64 {
        let shown = head.measures.iter().filter(|(pattern, own)| !pattern.less_is_more() && own.stands_out(*pattern));
        shown.map(|(_, own)| own.score - own.distractor.unwrap_or(0.0).max(own.uniform)).fold(0.0, f64::max)
    };
    // Of those that are equally far, the first.
    let (place, _) =
        measured.iter().enumerate().rev().max_by(|(_, one), (_, other)| far(one).total_cmp(&far(other)))?;
    Some(place)
}

/// The row of panels to look at first: where they show differences or gradients, the one with most of them; else the one
/// that [`outstanding`] names in the last panel. `None` where there is no map.
pub fn first_row(panels: &[Panel]) -> Option<usize> {
    let last = panels.last().filter(|panel| !panel.maps.maps.is_empty())?;
    if !last.maps.quantity.is_signed() {
        return Some(outstanding(&last.measured).unwrap_or(0));
    }
    let size = |map: &HeadMap| map.weights.iter().map(|number| f64::from(number.abs())).sum::<f64>();
    let rows = last.maps.maps.iter().map(size).enumerate().rev();
    rows.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(row, _)| row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::examples::{alone, of_rows, text};
    use crate::maps::{Maps, Measure, Pattern, Quantity};

    fn head(pattern: Pattern, score: f64, uniform: f64, distractor: Option<f64>) -> HeadMeasures {
        let measure = Measure { score, uniform, distractor, queries: 9 };
        HeadMeasures { layer: 0, head: 0, measures: vec![(pattern, measure)] }
    }

    #[test]
    fn the_first_head_to_look_at_is_the_one_furthest_above_chance() {
        let plain = head(Pattern::PreviousToken, 0.1, 0.1, Some(0.1));
        let clear = head(Pattern::PreviousToken, 0.7, 0.1, Some(0.1));
        let clearer = head(Pattern::Induction, 0.9, 0.1, Some(0.05));
        // More weight than any, and nearly as much on what is of the same kind.
        let distracted = head(Pattern::Induction, 0.95, 0.1, Some(0.9));
        let narrow = head(Pattern::Diagonal, 1.0, 20.0, None);
        assert_eq!(outstanding(&[plain.clone(), clear.clone(), clearer, distracted, narrow]), Some(2));
        assert_eq!(outstanding(&[plain.clone(), clear.clone(), clear]), Some(1));
        assert_eq!(outstanding(&[plain.clone(), plain]), Some(0));
        assert_eq!(outstanding(&[]), None);
    }

    #[test]
    fn differences_are_looked_at_where_they_are_largest_and_weights_where_something_stands_out() {
        let maps = text(&["a"], vec![of_rows(&[&[0.1]], true), of_rows(&[&[-0.3]], true), of_rows(&[&[0.3]], true)]);
        let clear = head(Pattern::PreviousToken, 0.7, 0.1, Some(0.1));
        let measured = vec![head(Pattern::PreviousToken, 0.1, 0.1, None), clear];
        let weights = Panel { measured, ..alone(&maps) };
        let less = alone(&Maps { quantity: Quantity::Difference, ..maps.clone() });
        assert_eq!(first_row(std::slice::from_ref(&weights)), Some(1));
        assert_eq!(first_row(&[alone(&maps), weights.clone()]), Some(1));
        assert_eq!(first_row(&[weights, less]), Some(1));
        assert_eq!(first_row(&[alone(&maps)]), Some(0));
        assert_eq!(first_row(&[alone(&Maps { maps: vec![], ..maps })]), None);
        assert_eq!(first_row(&[]), None);
    }
}
