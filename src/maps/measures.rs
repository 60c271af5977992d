//! How much each head does of each pattern, beside what equal weights would give and what goes to keys of the same kind.

use super::map::{HeadMap, Maps};
use super::patterns::{Pattern, Places, Reference, Text, position_of, visible};

/// A pattern stands out where it has so many times its uniform value, and its distractor.
pub const FACTOR: f64 = 2.0;

/// Less weight than this stands out nowhere.
pub const LEAST_WEIGHT: f64 = 0.1;

/// Fewer queries than these may be chance; a reference that is given is one already.
pub const LEAST_QUERIES: usize = 3;

/// Weight on later keys that is more than rounding.
const LEAST_LATER_WEIGHT: f64 = 0.01;

/// A pattern in one head, as means over the queries where it is defined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// The weight on the keys of the pattern; a number of keys for [`Pattern::Diagonal`].
    pub score: f64,
    /// What equal weights over the visible keys give.
    pub uniform: f64,
    /// The weight on as many keys of the same kind, the larger of two where they have two sides.
    pub distractor: Option<f64>,
    /// How many queries it is the mean of.
    pub queries: usize,
}

impl Measure {
    /// Whether the pattern can be seen: against the uniform value, against the distractor, and at all.
    pub fn stands_out(&self, pattern: Pattern) -> bool {
        let enough = self.queries >= if pattern == Pattern::Coreference { 1 } else { LEAST_QUERIES };
        let far = |other: f64| match pattern.less_is_more() {
            true => self.score * FACTOR <= other,
            false => self.score >= FACTOR * other && self.score >= LEAST_WEIGHT,
        };
        match pattern {
            // A mask leaves none, whatever there would be without one.
            Pattern::UpperTriangle => self.score >= LEAST_LATER_WEIGHT,
            _ => enough && far(self.uniform) && self.distractor.is_none_or(far),
        }
    }
}

/// What one head does.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadMeasures {
    pub layer: usize,
    pub head: usize,
    /// The patterns that the text has a place for, in the order of [`Pattern::ALL`].
    pub measures: Vec<(Pattern, Measure)>,
}

impl HeadMeasures {
    /// `None` where the text has no place for the pattern.
    pub fn of(&self, pattern: Pattern) -> Option<&Measure> {
        self.measures.iter().find(|(known, _)| *known == pattern).map(|(_, measure)| measure)
    }
}

/// Measures every map, in their order. `references` are what coreference is measured on; there is none without them.
pub fn measure(maps: &Maps, references: &[Reference]) -> Vec<HeadMeasures> {
    let text = Text::new(&maps.tokens, references);
    let unmeasured = |map: &HeadMap| HeadMeasures { layer: map.layer, head: map.head, measures: Vec::new() };
    let mut measured: Vec<HeadMeasures> = maps.maps.iter().map(unmeasured).collect();
    let shape = |map: &HeadMap| (map.queries, map.keys, map.causal);
    let mut shapes: Vec<(usize, usize, bool)> = maps.maps.iter().map(shape).collect();
    shapes.sort_unstable();
    shapes.dedup();
    for pattern in Pattern::ALL {
        for &of_shape in &shapes {
            // Where queries would look depends on the shape alone: all its heads are read in one go.
            let (heads, alike): (Vec<usize>, Vec<&HeadMap>) =
                maps.maps.iter().enumerate().filter(|(_, map)| shape(map) == of_shape).unzip();
            let measures = match pattern {
                Pattern::Diagonal => alike.into_iter().map(diagonal).collect(),
                Pattern::Entropy => alike.into_iter().map(entropy).collect(),
                _ => weight_on(&alike, |map, position| text.places(pattern, map, position)),
            };
            for (head, measure) in heads.into_iter().zip(measures) {
                measured[head].measures.extend(measure.map(|measure| (pattern, measure)));
            }
        }
    }
    measured
}

/// A mean in the making.
#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: usize,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    /// `None` where nothing was added.
    fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// The weights of the visible keys of a query.
fn row(map: &HeadMap, query: usize, position: usize) -> &[f32] {
    &map.weights[query * map.keys..][..visible(map, position)]
}

/// The means of [`Measure`] for one head.
#[derive(Clone, Copy, Default)]
struct Means {
    score: Mean,
    uniform: Mean,
    distractors: [Mean; 2],
}

impl Means {
    fn add(&mut self, row: &[f32], places: &Places) {
        let sum = |keys: &[usize]| keys.iter().filter_map(|&key| row.get(key)).copied().map(f64::from).sum::<f64>();
        let count = places.targets.len() as f64;
        self.score.add(sum(&places.targets));
        self.uniform.add(count / row.len() as f64);
        let groups = self.distractors.iter_mut().zip(&places.distractors);
        for (mean, group) in groups.filter(|(_, group)| !group.is_empty()) {
            mean.add(sum(group) / group.len() as f64 * count);
        }
    }

    fn measure(self) -> Option<Measure> {
        let distractor = self.distractors.into_iter().filter_map(Mean::value).reduce(f64::max);
        let (score, uniform) = (self.score.value()?, self.uniform.value()?);
        Some(Measure { score, uniform, distractor, queries: self.score.count })
    }
}

/// Mean weight on the places of each query, for maps of one shape.
fn weight_on(maps: &[&HeadMap], places: impl Fn(&HeadMap, usize) -> Option<Places>) -> Vec<Option<Measure>> {
    let Some(first) = maps.first() else { return Vec::new() };
    let mut means = vec![Means::default(); maps.len()];
    for query in 0..first.queries {
        let Some(position) = position_of(first, query) else { continue };
        let Some(places) = places(first, position) else { continue };
        for (means, map) in means.iter_mut().zip(maps) {
            means.add(row(map, query, position), &places);
        }
    }
    means.into_iter().map(Means::measure).collect()
}

/// How many of the keys nearest to a query hold half of its weight, beside how many of the furthest do. Queries that see
/// fewer than four keys say nothing.
fn diagonal(map: &HeadMap) -> Option<Measure> {
    let (mut nearest, mut furthest, mut uniform) = (Mean::default(), Mean::default(), Mean::default());
    for query in 0..map.queries {
        let Some(position) = position_of(map, query) else { continue };
        let row = row(map, query, position);
        let total: f64 = row.iter().map(|weight| f64::from(weight.abs())).sum();
        if row.len() < 4 || total == 0.0 {
            continue;
        }
        let mut keys: Vec<usize> = (0..row.len()).rev().collect();
        if !map.causal {
            keys.sort_by_key(|key| key.abs_diff(position));
        }
        nearest.add(half_of(total, keys.iter().map(|&key| row[key])) as f64);
        furthest.add(half_of(total, keys.iter().rev().map(|&key| row[key])) as f64);
        uniform.add(row.len().div_ceil(2) as f64);
    }
    let (score, uniform, distractor) = (nearest.value()?, uniform.value()?, furthest.value());
    Some(Measure { score, uniform, distractor, queries: nearest.count })
}

/// How many of the weights, in this order, it takes to reach half of their total.
fn half_of(total: f64, weights: impl Iterator<Item = f32>) -> usize {
    let mut sum = 0.0;
    // What rounding leaves is no key.
    let half = total * (0.5 - 1e-6);
    let before = weights.take_while(|weight| {
        sum += f64::from(weight.abs());
        sum < half
    });
    before.count() + 1
}

/// `-sum(p ln p) / ln n` of rows that see n keys, n at least 2, with the weights made to sum to 1: 0 where one key has all
/// of it, 1 where all have the same.
fn entropy(map: &HeadMap) -> Option<Measure> {
    let mut mean = Mean::default();
    for query in 0..map.queries {
        let Some(position) = position_of(map, query) else { continue };
        let row = row(map, query, position);
        let total: f64 = row.iter().map(|weight| f64::from(weight.abs())).sum();
        if row.len() < 2 || total == 0.0 {
            continue;
        }
        let shares = row.iter().map(|weight| f64::from(weight.abs()) / total).filter(|&share| share > 0.0);
        mean.add(shares.map(|share| -share * share.ln()).sum::<f64>() / (row.len() as f64).ln());
    }
    Some(Measure { score: mean.value()?, uniform: 1.0, distractor: None, queries: mean.count })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::Quantity;
    use crate::maps::{find, sentences};

    /// Repeats itself with a delimiter between, in pieces of different lengths.
    const TEXT: &str = "qabcd,efg.abcd,abcd.efg,efg.abcd";

    fn tokens(text: &str) -> Vec<String> {
        text.chars().map(String::from).collect()
    }

    /// A head whose query at position i gives equal parts of its weight to `looks_at(i)`, or all to itself where that is
    /// empty.
    fn head(head: usize, length: usize, causal: bool, looks_at: impl Fn(usize) -> Vec<usize>) -> HeadMap {
        let mut weights = vec![0.0; length * length];
        for query in 0..length {
            let keys = looks_at(query);
            let keys = if keys.is_empty() { vec![query] } else { keys };
            keys.iter().for_each(|key| weights[query * length + key] = 1.0 / keys.len() as f32);
        }
        HeadMap { layer: 0, head, queries: length, keys: length, weights, causal }
    }

    fn maps(text: &str, maps: Vec<HeadMap>) -> Maps {
        Maps {
            tokens: tokens(text),
            layers: 1,
            heads: maps.len(),
            maps,
            quantity: Quantity::Weight,
            source: String::new(),
        }
    }

    /// One head for each pattern that keys can be chosen for.
    fn specialists() -> (Maps, Vec<Reference>, Vec<Pattern>) {
        let text: Vec<char> = TEXT.chars().collect();
        let (length, text) = (text.len(), &text);
        let earlier =
            |i: usize, wanted: &dyn Fn(usize) -> bool| (1..i.saturating_sub(1)).filter(|&key| wanted(key)).collect();
        // From "e" and "c" to a "g", which neither repeats nor follows them.
        let reference = |query: usize, other: Option<usize>| Reference { query, key: 8, other };
        let references = vec![reference(20, Some(3)), reference(30, None)];
        let refers =
            |i: usize| references.iter().filter(move |reference| reference.query == i).map(|reference| reference.key);
        let all = vec![
            (Pattern::PreviousToken, head(0, length, true, |i| (i > 0).then(|| i - 1).into_iter().collect())),
            (Pattern::FirstPosition, head(1, length, true, |_| vec![0])),
            (Pattern::Delimiters, head(2, length, true, |i| earlier(i, &|key| matches!(text[key], ',' | '.')))),
            (Pattern::Induction, head(3, length, true, |i| earlier(i, &|key| text[key - 1] == text[i]))),
            (Pattern::SameToken, head(4, length, true, |i| earlier(i, &|key| text[key] == text[i]))),
            (Pattern::Coreference, head(5, length, true, |i| refers(i).collect())),
            (Pattern::UpperTriangle, head(6, length, false, |i| (i + 1..length).collect())),
        ];
        let (patterns, heads) = all.into_iter().unzip();
        (maps(TEXT, heads), references, patterns)
    }

    #[test]
    fn a_head_that_does_one_thing_is_found_by_it_and_by_no_other_weight() {
        let (maps, references, patterns) = specialists();
        let measured = measure(&maps, &references);
        for (at, &pattern) in patterns.iter().enumerate() {
            let finding = find(pattern, &measured);
            let (best, measure) = finding.best.unwrap();
            assert_eq!((best.head, finding.heads), (at, 1), "{pattern:?}: {}", finding.sentence());
            assert!(measure.score > 0.99 && measure.distractor < Some(0.01), "{pattern:?}: {measure:?}");
        }
    }

    #[test]
    fn equal_weights_give_the_uniform_value_of_everything_and_nothing_stands_out() {
        for causal in [true, false] {
            let length = TEXT.len();
            let even = head(0, length, causal, |i| (0..if causal { i + 1 } else { length }).collect());
            let maps = maps(TEXT, vec![even.clone(), HeadMap { head: 1, ..even }]);
            let measured = measure(&maps, &[Reference { query: 20, key: 6, other: None }]);
            assert_eq!(measured[0].measures.len(), if causal { 8 } else { 9 });
            for (pattern, measure) in &measured[0].measures {
                assert!((measure.score - measure.uniform).abs() < 1e-5, "{pattern:?}: {measure:?}");
                // The groups of distractors are means over queries that may be others.
                let distractor = measure.distractor.unwrap_or(measure.uniform);
                assert!((distractor - measure.uniform).abs() < 0.15 * measure.uniform, "{pattern:?}: {measure:?}");
                let sees = *pattern == Pattern::UpperTriangle;
                assert_eq!(measure.stands_out(*pattern), sees, "{pattern:?}: {measure:?}");
            }
            let expected = match causal {
                true => vec![
                    "nothing stands out: no head has 2 times the weight of equal weights, and of the keys beside, on \
                     anything measured",
                    "every head looks nearly equally at all that it sees: the least entropy is 1.00, of 1 at most",
                    "the upper triangle is empty: no query sees a later key",
                ],
                false => vec![
                    "layer 0 head 0 looks at later tokens: weight 0.48 (equal weights: 0.48; as many earlier keys: 0.48; \
                     over 30 queries), and so does 1 head more",
                    "every head looks nearly equally at all that it sees: the least entropy is 1.00, of 1 at most",
                ],
            };
            assert_eq!(sentences(&maps, &measured), expected);
        }
    }

    #[test]
    fn scores_are_means_over_the_queries_where_they_are_defined() {
        // Query by key; row 4 repeats "a", row 5 repeats "b".
        let rows: [[f32; 6]; 6] = [
            [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [0.5, 0.5, 0.0, 0.0, 0.0, 0.0],
            [0.1, 0.6, 0.3, 0.0, 0.0, 0.0],
            [0.4, 0.1, 0.3, 0.2, 0.0, 0.0],
            [0.1, 0.4, 0.1, 0.2, 0.2, 0.0],
            [0.0, 0.1, 0.5, 0.2, 0.1, 0.1],
        ];
        let map = HeadMap { layer: 2, head: 1, queries: 6, keys: 6, weights: rows.concat(), causal: true };
        let maps = maps("ab.dab", vec![map]);
        let measured = measure(&maps, &[Reference { query: 3, key: 0, other: Some(2) }]);
        for (pattern, score, uniform, distractor, queries) in [
            // Rows 2 to 5: 0.6, 0.3, 0.2, 0.1; two back 0.1, 0.1, 0.1, 0.2.
            (Pattern::PreviousToken, 0.3, (1.0 / 3.0 + 0.25 + 0.2 + 1.0 / 6.0) / 4.0, 0.125, 4),
            // Rows 3 to 5.
            (Pattern::FirstPosition, 0.5 / 3.0, (0.25 + 0.2 + 1.0 / 6.0) / 3.0, 0.2, 3),
            // Key 2, seen from rows 4 and 5; beside it key 1 for both and key 3 for row 5.
            (Pattern::Delimiters, 0.3, (0.2 + 1.0 / 6.0) / 2.0, 0.25, 2),
            // Row 4 finds key 1, with key 2 beside; row 5 finds key 2, with keys 1 and 3 beside.
            (Pattern::Induction, 0.45, (0.2 + 1.0 / 6.0) / 2.0, 0.15, 2),
            // Row 5 finds key 1, with key 2 beside: row 4 would find the first position.
            (Pattern::SameToken, 0.1, 1.0 / 6.0, 0.5, 1),
            (Pattern::Coreference, 0.4, 0.25, 0.3, 1),
            // Rows 3 to 5: the nearest 2, 3, 4 hold half; of the furthest 2, 2, 3.
            (Pattern::Diagonal, 3.0, 8.0 / 3.0, 7.0 / 3.0, 3),
        ] {
            let found = measured[0].of(pattern).unwrap();
            let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
            let same = near(found.score, score) && near(found.uniform, uniform);
            assert!(same && near(found.distractor.unwrap(), distractor), "{pattern:?}: {found:?}");
            assert_eq!(found.queries, queries, "{pattern:?}");
        }
        let sentence = |pattern| find(pattern, &measured).sentence();
        assert_eq!(
            sentence(Pattern::PreviousToken),
            "none found (best 0.30, uniform 0.24, distractor 0.13; layer 2 head 1, over 4 queries): train longer or try \
             another seed"
        );
        assert_eq!(
            sentence(Pattern::Induction),
            "none found (best 0.45, uniform 0.18, distractor 0.15; layer 2 head 1, over 2 queries): give a longer text"
        );
        assert_eq!(sentence(Pattern::UpperTriangle), "none found: no query sees a later key");
        let few = super::measure(&maps, &[]);
        assert_eq!(find(Pattern::Coreference, &few).sentence(), "none found: it is not known what refers to what");
    }

    #[test]
    fn entropy_is_a_share_of_the_largest_and_the_diagonal_a_number_of_keys() {
        let length = 12;
        let tokens: String = "abcdefghijkl".into();
        let own = head(0, length, true, |i| vec![i]);
        let pair = head(1, length, true, |i| if i == 0 { vec![0] } else { vec![i - 1, i] });
        let measured = measure(&maps(&tokens, vec![own, pair]), &[]);
        let of = |head: usize, pattern| *measured[head].of(pattern).unwrap();
        assert_eq!(of(0, Pattern::Entropy).score, 0.0);
        let expected = (2..=length).map(|n| 2f64.ln() / (n as f64).ln()).sum::<f64>() / 11.0;
        assert!((of(1, Pattern::Entropy).score - expected).abs() < 1e-6);
        for head in [0, 1] {
            // Rows that see 4 to 12 keys: half of them, rounded up, is 4.22 on average.
            let found = of(head, Pattern::Diagonal);
            assert_eq!((found.score, found.queries), (1.0, 9));
            assert!((found.uniform - 38.0 / 9.0).abs() < 1e-9, "{found:?}");
            assert!(found.stands_out(Pattern::Diagonal));
        }
    }

    #[test]
    fn maps_of_other_lengths_are_aligned_at_the_bottom_right() {
        // Three queries over five keys: they stand at positions 2, 3 and 4.
        let previous = [1, 2, 3];
        let mut weights = vec![0.0; 15];
        previous.iter().enumerate().for_each(|(query, key)| weights[5 * query + key] = 1.0);
        let long = HeadMap { layer: 0, head: 0, queries: 3, keys: 5, weights, causal: true };
        // Five queries over three keys: the first two see nothing.
        let mut weights = vec![0.0; 15];
        weights[3 * 2] = 1.0;
        weights[3 * 3] = 1.0;
        weights[3 * 4 + 1] = 1.0;
        let short = HeadMap { layer: 0, head: 1, queries: 5, keys: 3, weights, causal: true };
        let measured = measure(&maps("abcde", vec![long, short]), &[]);
        for (head, queries) in [(0, 3), (1, 1)] {
            let found = measured[head].of(Pattern::PreviousToken).unwrap();
            assert_eq!((found.score, found.queries), (1.0, queries), "{head}");
        }
    }

    #[test]
    fn the_smallest_maps_have_no_places_and_break_nothing() {
        for length in [0, 1, 2] {
            let maps = maps(&"ab"[..length], vec![head(0, length, true, |_| vec![0])]);
            let measured = measure(&maps, &[Reference { query: 9, key: 7, other: None }]);
            assert!(measured[0].measures.iter().all(|(_, measure)| measure.score.is_finite()), "{measured:?}");
            assert!(!sentences(&maps, &measured).is_empty());
            for pattern in Pattern::ALL {
                assert!(find(pattern, &measured).sentence().starts_with("none found"), "{pattern:?}");
            }
        }
        let none = maps("", Vec::new());
        assert_eq!(sentences(&none, &measure(&none, &[])).len(), 1);
    }
}
