//! What is told of two panels of maps that are compared.

use super::map::{HeadMap, Maps};
use super::panel::Panel;
use super::patterns::Pattern;
use super::sentences::find;

/// Heads whose rows differ by less of their weight than this are the same, to the eye.
const SAME: f64 = 0.01;

/// How much of a row's weight lies elsewhere: half of the sum of what its keys gain or lose.
fn moved(difference: &HeadMap, query: usize) -> f64 {
    let row = &difference.weights[query * difference.keys..][..difference.keys];
    row.iter().map(|&change| f64::from(change.abs())).sum::<f64>() / 2.0
}

/// The mean over the queries that can choose.
fn mean_moved(difference: &HeadMap) -> f64 {
    let choose = |&query: &usize| (0..difference.keys).filter(|&key| !difference.is_masked(query, key)).count() > 1;
    let queries: Vec<usize> = (0..difference.queries).filter(choose).collect();
    queries.iter().map(|&query| moved(difference, query)).sum::<f64>() / queries.len().max(1) as f64
}

/// The patterns that stand out in either of two panels, in sentences, with the heads that show them in each.
pub fn standing_out(first: &Panel, second: &Panel) -> Vec<String> {
    let lines: Vec<String> = Pattern::ALL.into_iter().filter_map(|pattern| in_either(pattern, first, second)).collect();
    if lines.is_empty() { vec!["nothing stands out in either".into()] } else { lines }
}

/// The heads that show a pattern, where one of the panels has one.
fn in_either(pattern: Pattern, first: &Panel, second: &Panel) -> Option<String> {
    let [one, other] = [first, second].map(|panel| (panel, find(pattern, &panel.measured)));
    if pattern == Pattern::Entropy || one.1.heads + other.1.heads == 0 {
        return None;
    }
    let told = |(panel, finding): &(&Panel, super::Finding<'_>)| match finding.best {
        Some((head, measure)) => {
            let verdict = if finding.heads == 0 { " at best, which is not enough" } else { "" };
            let (layer, head) = (head.layer, head.head);
            format!("{} {:.2} in layer {layer} head {head}{verdict}", panel.name, measure.score)
        }
        None => format!("{} has no place for it", panel.name),
    };
    Some(format!("{}: {}; {}", pattern.name(), told(&one), told(&other)))
}

/// What `difference`, the weights of `second` less those of `first`, shows, in sentences: the head that changes most, and
/// its row that does.
pub fn changes(first: &Panel, second: &Panel, difference: &Maps) -> Vec<String> {
    let distances: Vec<f64> = difference.maps.iter().map(mean_moved).collect();
    let Some((at, &distance)) = distances.iter().enumerate().max_by(|(_, one), (_, other)| one.total_cmp(other)) else {
        return Vec::new();
    };
    let map = &difference.maps[at];
    if distance < SAME {
        let heads = if distances.len() > 1 { "every head" } else { "the head" };
        return vec![format!(
            "{heads} looks the same in both: {distance:.4} of a row's weight lies elsewhere, at most"
        )];
    }
    let one_head = [first, second]
        .map(|panel| panel.maps.maps.get(at))
        .iter()
        .flatten()
        .all(|own| (own.layer, own.head) == (map.layer, map.head));
    let head = match one_head {
        true => format!("layer {} head {}", map.layer, map.head),
        false => "the head".into(),
    };
    let beyond = if distances.len() > 1 { " changes most" } else { " changes" };
    let mut lines = vec![format!("{head}{beyond}: {distance:.2} of a row's weight lies elsewhere")];
    let row = (0..map.queries).max_by(|&one, &other| moved(map, one).total_cmp(&moved(map, other)));
    lines.extend(row.and_then(|query| of_row(difference, map, query)));
    lines
}

/// Which key loses most in a row, and which gains most.
fn of_row(difference: &Maps, map: &HeadMap, query: usize) -> Option<String> {
    let by_change = |&one: &usize, &other: &usize| map.weight(query, one).total_cmp(&map.weight(query, other));
    let (least, most) = ((0..map.keys).min_by(by_change)?, (0..map.keys).max_by(by_change)?);
    let change = |key: usize| Some(format!("{:+.2} on {}", map.weight(query, key), difference.quoted(map.keys, key)?));
    let row = difference.quoted(map.queries, query)?;
    let share = moved(map, query);
    Some(format!(
        "there the row of {row} changes most, by {share:.2} of its weight: {}, {}",
        change(least)?,
        change(most)?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::{HeadMeasures, Measure, Quantity, difference};

    fn panel(name: &str, tokens: [&str; 3], rows: &[[f32; 9]], measured: Vec<HeadMeasures>) -> Panel {
        let map = |(head, weights): (usize, &[f32; 9])| HeadMap {
            layer: 1,
            head,
            queries: 3,
            keys: 3,
            weights: weights.to_vec(),
            causal: true,
        };
        let maps = Maps {
            tokens: tokens.map(String::from).to_vec(),
            layers: 2,
            heads: rows.len(),
            maps: rows.iter().enumerate().map(map).collect(),
            quantity: Quantity::Weight,
            source: String::new(),
        };
        Panel { name: name.into(), about: String::new(), maps, measured }
    }

    const STILL: [f32; 9] = [1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.2, 0.3, 0.5];
    const BEFORE: [f32; 9] = [1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 1.0, 0.0, 0.0];
    const AFTER: [f32; 9] = [1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.25, 0.75];

    fn measured(head: usize, score: f64) -> HeadMeasures {
        let measure = Measure { score, uniform: 0.2, distractor: Some(0.1), queries: 5 };
        HeadMeasures { layer: 1, head, measures: vec![(Pattern::Induction, measure)] }
    }

    #[test]
    fn the_head_and_the_row_that_change_most_are_named_with_what_they_look_at() {
        let first = panel("first", ["a", "\n", "small"], &[STILL, BEFORE], vec![]);
        let second = panel("second", ["a", "\n", "large"], &[STILL, AFTER], vec![]);
        let less = difference(&first.maps, &second.maps).unwrap();
        assert_eq!(
            changes(&first, &second, &less),
            [
                "layer 1 head 1 changes most: 0.50 of a row's weight lies elsewhere",
                "there the row of \"small|large\" (2) changes most, by 1.00 of its weight: -1.00 on \"a\" (0), +0.75 on \
                 \"small|large\" (2)"
            ]
        );
        let same = changes(&first, &first, &difference(&first.maps, &first.maps).unwrap());
        assert_eq!(same, ["every head looks the same in both: 0.0000 of a row's weight lies elsewhere, at most"]);
    }

    #[test]
    fn a_pattern_is_told_where_it_stands_out_in_either() {
        let tokens = ["a", "b", "c"];
        let first = panel("first", tokens, &[STILL, BEFORE], vec![measured(0, 0.3), measured(1, 0.7)]);
        for (second, expected) in [
            (vec![measured(0, 0.65), measured(1, 0.1)], Some("second 0.65 in layer 1 head 0")),
            (vec![measured(0, 0.25)], Some("second 0.25 in layer 1 head 0 at best, which is not enough")),
            (vec![], Some("second has no place for it")),
        ] {
            let second = panel("second", tokens, &[STILL, AFTER], second);
            let expected = expected.map(|told| format!("induction: first 0.70 in layer 1 head 1; {told}"));
            assert_eq!(standing_out(&first, &second).first(), expected.as_ref());
        }
        let faint = panel("first", tokens, &[STILL], vec![measured(0, 0.3)]);
        assert_eq!(standing_out(&faint, &faint), ["nothing stands out in either"]);
    }
}
