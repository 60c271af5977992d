//! What is more and what is less in some maps than in others.

use super::map::{HeadMap, Maps, Quantity};

/// Two texts without a token that stands at the same place in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the texts have different lengths and no token in common at their beginnings and ends")]
pub struct NothingInCommon;

/// The weights of `second` less those of `first`, map by map. Texts of one length are compared token by token. Of others,
/// only those tokens count that both begin with and both end with: what lies between has no counterpart.
///
/// # Errors
/// No token of one text stands for one of the other.
pub fn difference(first: &Maps, second: &Maps) -> Result<Maps, NothingInCommon> {
    let aligned = aligned(&first.tokens, &second.tokens);
    if aligned.is_empty() {
        return Err(NothingInCommon);
    }
    let token = |&(one, other): &(usize, usize)| match (&first.tokens[one], &second.tokens[other]) {
        (one, other) if one == other => one.clone(),
        (one, other) => format!("{one}|{other}"),
    };
    let pairs = first.maps.iter().zip(&second.maps);
    Ok(Maps {
        tokens: aligned.iter().map(token).collect(),
        layers: first.layers,
        heads: first.heads,
        maps: pairs.map(|(one, other)| less((first, one), (second, other), &aligned)).collect(),
        quantity: Quantity::Difference,
        source: second.source.clone(),
    })
}

/// Which token of the second text stands for which of the first, as places in the first and in the second.
pub fn aligned(first: &[String], second: &[String]) -> Vec<(usize, usize)> {
    if first.len() == second.len() {
        return (0..first.len()).map(|at| (at, at)).collect();
    }
    let same = |(one, other): &(&String, &String)| one == other;
    let begin = first.iter().zip(second).take_while(same).count();
    let shorter = first.len().min(second.len());
    let end = first.iter().rev().zip(second.iter().rev()).take_while(same).count().min(shorter - begin);
    let from_end = |back: usize| (first.len() - back, second.len() - back);
    (0..begin).map(|at| (at, at)).chain((1..=end).rev().map(from_end)).collect()
}

/// The second map less the first, where both have a weight for a pair of tokens.
fn less((first, one): (&Maps, &HeadMap), (second, other): (&Maps, &HeadMap), aligned: &[(usize, usize)]) -> HeadMap {
    // Queries and keys are the last tokens of a text.
    let within = |maps: &Maps, length: usize, at: usize| (at + length).checked_sub(maps.tokens.len());
    let places = |lengths: [usize; 2]| -> Vec<[usize; 2]> {
        let place = |&(in_first, in_second): &(usize, usize)| {
            Some([within(first, lengths[0], in_first)?, within(second, lengths[1], in_second)?])
        };
        aligned.iter().filter_map(place).collect()
    };
    let queries = places([one.queries, other.queries]);
    let keys = places([one.keys, other.keys]);
    let row = |query: &[usize; 2]| {
        let query = *query;
        keys.iter().map(move |key| other.weight(query[1], key[1]) - one.weight(query[0], key[0]))
    };
    HeadMap {
        layer: one.layer,
        head: one.head,
        queries: queries.len(),
        keys: keys.len(),
        weights: queries.iter().flat_map(row).collect(),
        causal: one.causal && other.causal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::picture::examples::{causal, of_rows, text};

    fn tokens(text: &str) -> Vec<String> {
        text.chars().map(String::from).collect()
    }

    #[test]
    fn tokens_stand_for_each_other_by_place_or_where_texts_of_other_lengths_agree() {
        for (first, second, expected) in [
            ("", "", &[][..]),
            ("abc", "xyz", &[(0, 0), (1, 1), (2, 2)]),
            ("abc", "abxc", &[(0, 0), (1, 1), (2, 3)]),
            ("abxyc", "abc", &[(0, 0), (1, 1), (4, 2)]),
            ("aa", "aaa", &[(0, 0), (1, 1)]),
            ("aaa", "aa", &[(0, 0), (1, 1)]),
            ("abc", "zbc.", &[]),
            ("abc", "zzbc", &[(1, 2), (2, 3)]),
            ("a", "", &[]),
        ] {
            assert_eq!(aligned(&tokens(first), &tokens(second)), expected, "{first} and {second}");
        }
    }

    #[test]
    fn a_difference_is_the_second_less_the_first_where_both_have_the_tokens() {
        let first =
            text(&["a", "b", "c"], vec![of_rows(&[&[1.0, 0.0, 0.0], &[0.5, 0.5, 0.0], &[0.25, 0.25, 0.5]], true)]);
        let rows: [&[f32]; 4] =
            [&[1.0, 0.0, 0.0, 0.0], &[0.25, 0.75, 0.0, 0.0], &[0.5, 0.25, 0.25, 0.0], &[0.125, 0.125, 0.5, 0.25]];
        let second = text(&["a", "b", "x", "c"], vec![of_rows(&rows, true)]);
        let less = difference(&first, &second).unwrap();
        assert_eq!((less.quantity, less.tokens), (Quantity::Difference, tokens("abc")));
        assert_eq!(less.maps[0].weights, [0.0, 0.0, 0.0, -0.25, 0.25, 0.0, -0.125, -0.125, -0.25]);
        assert!(less.maps[0].causal && less.maps[0].is_masked(0, 1) && !less.maps[0].is_masked(2, 2));
        // Where only one has a mask nothing is masked.
        let open = text(&["a", "B", "c"], vec![of_rows(&[&[0.5, 0.25, 0.25][..]; 3], false)]);
        let less = difference(&first, &open).unwrap();
        assert_eq!(less.tokens, ["a", "b|B", "c"]);
        assert_eq!(less.maps[0].weight(0, 2), 0.25);
        assert!(!less.maps[0].causal);
        assert!(difference(&first, &text(&["x"], vec![causal(1, 1)])).is_err());
    }

    #[test]
    fn maps_of_the_last_tokens_alone_are_aligned_at_their_ends() {
        let first = text(&["a", "b", "c"], vec![of_rows(&[&[0.5, 0.25, 0.25]], true)]);
        let second = text(&["a", "b", "c"], vec![of_rows(&[&[0.0, 1.0, 0.0], &[0.25, 0.25, 0.5]], true)]);
        let less = difference(&first, &second).unwrap();
        assert_eq!((less.maps[0].queries, less.maps[0].keys), (1, 3));
        assert_eq!(less.maps[0].weights, [-0.25, 0.0, 0.25]);
    }
}
