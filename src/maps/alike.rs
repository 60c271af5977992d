//! Heads that look at the same keys, and heads that do not.

use super::map::{HeadMap, Maps};

/// Two maps and how far their rows lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadPair {
    /// Indices into [`Maps::maps`].
    pub first: usize,
    pub second: usize,
    /// The mean over queries that see two keys or more of `sum_j |a_j - b_j| / 2`: the share of a row's weight that lies
    /// elsewhere, from 0 to 1 where rows sum to 1.
    pub distance: f64,
}

/// All pairs of maps of one shape, the closest first.
pub fn pairs_by_distance(maps: &Maps) -> Vec<HeadPair> {
    let mut pairs = Vec::new();
    for (first, a) in maps.maps.iter().enumerate() {
        for (second, b) in maps.maps.iter().enumerate().skip(first + 1) {
            pairs.extend(distance(a, b).map(|distance| HeadPair { first, second, distance }));
        }
    }
    pairs.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    pairs
}

fn distance(a: &HeadMap, b: &HeadMap) -> Option<f64> {
    if (a.queries, a.keys, a.causal) != (b.queries, b.keys, b.causal) {
        return None;
    }
    let chooses = |&query: &usize| a.visible(query) >= 2;
    let queries: Vec<usize> = (0..a.queries).filter(chooses).collect();
    let of_query = |query: usize| {
        let row = query * a.keys..(query + 1) * a.keys;
        let pairs = a.weights[row.clone()].iter().zip(&b.weights[row]);
        pairs.map(|(a, b)| f64::from((a - b).abs())).sum::<f64>() / 2.0
    };
    (!queries.is_empty()).then(|| queries.iter().map(|&query| of_query(query)).sum::<f64>() / queries.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::Quantity;

    #[test]
    fn distance_is_the_share_of_a_row_that_lies_elsewhere() {
        let map = |head: usize, weights: [f32; 9], causal: bool| HeadMap {
            layer: 0,
            head,
            queries: 3,
            keys: 3,
            weights: weights.to_vec(),
            causal,
        };
        let maps = vec![
            map(0, [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0], true),
            map(1, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], true),
            map(2, [1.0, 0.0, 0.0, 0.9, 0.1, 0.0, 0.5, 0.5, 0.0], true),
            map(3, [1.0, 0.0, 0.0, 0.9, 0.1, 0.0, 0.5, 0.5, 0.0], false),
        ];
        let maps =
            Maps { tokens: Vec::new(), layers: 1, heads: 4, maps, quantity: Quantity::Weight, source: String::new() };
        let pairs = pairs_by_distance(&maps);
        // The first row has no choice; a head with a mask is not compared with one without.
        let expected = [(0, 2, 0.3), (1, 2, 0.95), (0, 1, 1.0)];
        assert_eq!(pairs.len(), expected.len());
        for (pair, (first, second, distance)) in pairs.iter().zip(expected) {
            assert_eq!((pair.first, pair.second), (first, second));
            assert!((pair.distance - distance).abs() < 1e-6, "{pair:?}");
        }
    }
}
