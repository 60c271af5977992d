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
    let of_map = |map: &HeadMap| {
        let measures = Pattern::ALL.into_iter().filter_map(|pattern| {
            let measure = match pattern {
                Pattern::Diagonal => diagonal(map),
                Pattern::Entropy => entropy(map),
                _ => weight_on(map, |position| text.places(pattern, map, position)),
            };
            measure.map(|measure| (pattern, measure))
        });
        HeadMeasures { layer: map.layer, head: map.head, measures: measures.collect() }
    };
    maps.maps.iter().map(of_map).collect()
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
fn row<'a>(map: &'a HeadMap, query: usize, position: usize) -> &'a [f32] {
    &map.weights[query * map.keys..][..visible(map, position)]
}

/// Mean weight on the places of each query.
fn weight_on(map: &HeadMap, places: impl Fn(usize) -> Option<Places>) -> Option<Measure> {
    let (mut score, mut uniform, mut distractors) = (Mean::default(), Mean::default(), [Mean::default(); 2]);
    for query in 0..map.queries {
        let Some(position) = position_of(map, query) else { continue };
        let Some(Places { targets, distractors: groups }) = places(position) else { continue };
        let row = row(map, query, position);
        let sum =
            |keys: &[usize]| keys.iter().filter_map(|&key| row.get(key)).map(|&weight| f64::from(weight)).sum::<f64>();
        let count = targets.len() as f64;
        score.add(sum(&targets));
        uniform.add(count / row.len() as f64);
        for (mean, group) in distractors.iter_mut().zip(&groups).filter(|(_, group)| !group.is_empty()) {
            mean.add(sum(group) / group.len() as f64 * count);
        }
    }
    let distractor = distractors.into_iter().filter_map(Mean::value).reduce(f64::max);
    Some(Measure { score: score.value()?, uniform: uniform.value()?, distractor, queries: score.count })
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
