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
