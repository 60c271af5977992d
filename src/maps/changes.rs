//! What is told of two panels of maps that are compared.

use super::difference::aligned;
use super::map::{HeadMap, Maps, quoted};
use super::panel::Panel;
use super::patterns::Pattern;
use super::sentences::find;

/// Heads whose rows differ by less of their weight than this are the same, to the eye.
const SAME: f64 = 0.01;

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

/// What `difference`, the weights of `second` less those of `first`, shows, in sentences: how many tokens are compared where
/// not all are, the head that changes most, and its row that does.
pub fn changes(first: &Panel, second: &Panel, difference: &Maps) -> Vec<String> {
    let compared = Compared { first, second, difference, aligned: aligned(&first.maps.tokens, &second.maps.tokens) };
    let mut lines = Vec::new();
    if !compared.is_whole() {
        lines.push(format!(
            "{} of {} and {} tokens are compared: those that both texts begin with and end with",
            compared.aligned.len(),
            first.maps.tokens.len(),
            second.maps.tokens.len()
        ));
    }
    lines.extend(compared.most_changed());
    lines
}

/// Two panels and what the second has less the first.
struct Compared<'a> {
    first: &'a Panel,
    second: &'a Panel,
    difference: &'a Maps,
    /// The places in both texts of each token of the difference.
    aligned: Vec<(usize, usize)>,
}

impl Compared<'_> {
    /// Whether every token stands for one.
    fn is_whole(&self) -> bool {
        [self.first, self.second].iter().all(|panel| panel.maps.tokens.len() == self.aligned.len())
    }

    /// The queries of a map that can choose among keys. Of texts that are compared in part, a query that sees one of the
    /// compared keys may see others too.
    fn queries(&self, map: &HeadMap) -> Vec<usize> {
        let chooses = |&query: &usize| map.visible(query) > 1 || (!self.is_whole() && moved(map, query) > 0.0);
        (0..map.queries).filter(chooses).collect()
    }

    fn most_changed(&self) -> Vec<String> {
        let of_map = |(at, map): (usize, &HeadMap)| {
            let queries = self.queries(map);
            let sum: f64 = queries.iter().map(|&query| moved(map, query)).sum();
            (!queries.is_empty()).then(|| (at, sum / queries.len() as f64))
        };
        let distances = self.difference.maps.iter().enumerate().filter_map(of_map);
        let Some((at, distance)) = distances.reduce(|most, next| if next.1 > most.1 { next } else { most }) else {
            return vec!["no row can be compared: each that both have sees one key".into()];
        };
        let several = self.difference.maps.len() > 1;
        if distance < SAME {
            let heads = if several { "every head" } else { "the head" };
            return vec![format!("{heads} looks the same in both: {}, at most", self.told(at, distance))];
        }
        let map = &self.difference.maps[at];
        let verb = if several { "changes most" } else { "changes" };
        let mut lines = vec![format!("{} {verb}: {}", self.head(at), self.told(at, distance))];
        let row = self.queries(map).into_iter().max_by(|&one, &other| moved(map, one).total_cmp(&moved(map, other)));
        lines.extend(row.and_then(|query| self.row(at, query)));
        lines
    }

    /// How far rows lie apart, in words.
    fn told(&self, at: usize, moved: f64) -> String {
        match self.shares_out(at) {
            true => format!("{moved:.2} of a row's weight lies elsewhere"),
            false => format!("the weights of a row differ by {:.2} in sum", 2.0 * moved),
        }
    }

    /// Whether a row shares out one weight, so that what one key gains others lose: it does in a softmax, of whose keys all
    /// are compared.
    fn shares_out(&self, at: usize) -> bool {
        let is_softmax = |panel: &&Panel| panel.maps.maps.get(at).is_some_and(HeadMap::is_softmax);
        self.is_whole() && [self.first, self.second].iter().all(is_softmax)
    }

    fn head(&self, at: usize) -> String {
        let [first, second] = [self.first, self.second].map(|panel| {
            let map = panel.maps.maps.get(at);
            map.map_or(String::new(), |map| format!("layer {} head {}", map.layer, map.head))
        });
        if first == second {
            return first;
        }
        format!("from {first} of {} to {second} of {} a row", self.first.name, self.second.name)
    }

    /// A token of the difference with its place, or its places where they differ.
    fn token(&self, length: usize, at: usize) -> Option<String> {
        let Maps { tokens, .. } = self.difference;
        let place = (tokens.len() + at).checked_sub(length)?;
        let (in_first, in_second) = *self.aligned.get(place)?;
        Some(match in_first == in_second {
            true => quoted(tokens.get(place)?, in_first),
            false => quoted(tokens.get(place)?, format_args!("{in_first} and {in_second}")),
        })
    }

    /// Which key loses most in a row, and which gains most.
    fn row(&self, at: usize, query: usize) -> Option<String> {
        let map = &self.difference.maps[at];
        let by_change = |&one: &usize, &other: &usize| map.weight(query, one).total_cmp(&map.weight(query, other));
        let seen = 0..map.visible(query);
        let (least, most) = (seen.clone().min_by(by_change)?, seen.max_by(by_change)?);
        let change = |key: usize| Some(format!("{:+.2} on {}", map.weight(query, key), self.token(map.keys, key)?));
        let loses = (map.weight(query, least) < 0.0).then(|| change(least)).flatten();
        let gains = (map.weight(query, most) > 0.0).then(|| change(most)).flatten();
        let changes: Vec<String> = loses.into_iter().chain(gains).collect();
        let by = match self.shares_out(at) {
            true => format!("by {:.2} of its weight", moved(map, query)),
            false => format!("by {:.2} in sum", 2.0 * moved(map, query)),
        };
        Some(format!("there the row of {} changes most, {by}: {}", self.token(map.queries, query)?, changes.join(", ")))
    }
}

/// How much of a row's weight lies elsewhere: half of the sum of what its keys gain or lose.
fn moved(difference: &HeadMap, query: usize) -> f64 {
    let row = &difference.weights[query * difference.keys..][..difference.keys];
    row.iter().map(|&change| f64::from(change.abs())).sum::<f64>() / 2.0
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
        assert_eq!(same, ["every head looks the same in both: 0.00 of a row's weight lies elsewhere, at most"]);
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

    #[test]
    fn texts_of_which_a_part_is_compared_are_told_with_places_in_both() {
        let first = panel("first", ["a", "b", "c"], &[BEFORE], vec![]);
        let mut second = panel("second", ["a", "c", ""], &[STILL], vec![]);
        second.maps.tokens.truncate(2);
        let map = &mut second.maps.maps[0];
        (map.queries, map.keys, map.weights) = (2, 2, vec![1.0, 0.0, 0.25, 0.75]);
        let lines = changes(&first, &second, &difference(&first.maps, &second.maps).unwrap());
        let expected = [
            "2 of 3 and 2 tokens are compared: those that both texts begin with and end with",
            "layer 1 head 0 changes: the weights of a row differ by 1.50 in sum",
            "there the row of \"c\" (2 and 1) changes most, by 1.50 in sum: -0.75 on \"a\" (0), +0.75 on \"c\" (2 and 1)",
        ];
        assert_eq!(lines, expected);
        // One token at the end of a text and at the beginning of the other chooses in one of them.
        let alone = Panel {
            maps: Maps {
                tokens: vec!["c".into()],
                maps: vec![HeadMap { queries: 1, keys: 1, weights: vec![1.0], ..first.maps.maps[0].clone() }],
                ..first.maps.clone()
            },
            ..second.clone()
        };
        let chosen = Panel { maps: Maps { maps: vec![of(STILL)], ..first.maps.clone() }, ..first.clone() };
        let lines = changes(&chosen, &alone, &difference(&chosen.maps, &alone.maps).unwrap());
        assert_eq!(lines[2], "there the row of \"c\" (2 and 0) changes most, by 0.50 in sum: +0.50 on \"c\" (2 and 0)");
        // The first token sees itself alone, in both.
        let begin = Panel { maps: Maps { tokens: vec!["a".into()], ..alone.maps }, ..alone };
        let lines = changes(&chosen, &begin, &difference(&chosen.maps, &begin.maps).unwrap());
        assert_eq!(lines[1..], ["no row can be compared: each that both have sees one key"]);
    }

    fn of(weights: [f32; 9]) -> HeadMap {
        HeadMap { layer: 1, head: 0, queries: 3, keys: 3, weights: weights.to_vec(), causal: true }
    }

    #[test]
    fn weights_that_are_no_softmax_have_no_share_and_masked_keys_are_not_named() {
        let first = panel("first", ["a", "b", "c"], &[STILL], vec![]);
        let wild = panel("second", ["a", "b", "c"], &[[9.0, 0.0, 0.0, 0.5, 2.5, 0.0, 0.2, 0.3, 0.5]], vec![]);
        let lines = changes(&first, &wild, &difference(&first.maps, &wild.maps).unwrap());
        let expected = [
            "layer 1 head 0 changes: the weights of a row differ by 1.00 in sum",
            "there the row of \"b\" (1) changes most, by 2.00 in sum: +2.00 on \"b\" (1)",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn heads_at_different_places_are_both_named() {
        let first = panel("first", ["a", "b", "c"], &[BEFORE], vec![]);
        let mut second = panel("second", ["a", "b", "c"], &[AFTER], vec![]);
        (second.maps.maps[0].layer, second.maps.maps[0].head) = (0, 3);
        let lines = changes(&first, &second, &difference(&first.maps, &second.maps).unwrap());
        assert_eq!(
            lines[0],
            "from layer 1 head 0 of first to layer 0 head 3 of second a row changes: 0.50 of a row's weight lies elsewhere"
        );
    }
}
