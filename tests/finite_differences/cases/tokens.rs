//! Ops that read token ids: repeated and unused ids, targets that are ignored.

use headlight::graph::ops::{add, cross_entropy, embedding, reshape};

use super::super::case::{Case, Leaf, in_all_layouts, real};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (table, tokens) in
        [([1, 1], &[1][..]), ([1, 3], &[5]), ([5, 3], &[2, 4]), ([11, 2], &[3]), ([7, 5], &[1, 2, 1, 3])]
    {
        let leaves = [real(&[&table]), vec![Leaf::Words(tokens.to_vec())]].concat();
        let name = format!("embedding {table:?} {tokens:?}");
        cases.extend(in_all_layouts(name, &leaves, |g, x| embedding(g, x[0], x[1])));
    }
    let leaves = [real(&[&[5, 3]]), vec![Leaf::Given(vec![4; 6])]].concat();
    cases.extend(in_all_layouts("embedding of one id again and again", &leaves, |g, x| embedding(g, x[0], x[1])));
    let leaves = [real(&[&[5, 3]]), vec![Leaf::Words(vec![4]), Leaf::Words(vec![2, 2])]].concat();
    cases.extend(in_all_layouts("embedding table that two lookups share", &leaves, |g, x| {
        let first = embedding(g, x[0], x[1])?;
        let tokens = reshape(g, x[2], &[4])?;
        let second = embedding(g, x[0], tokens)?;
        add(g, first, second)
    }));

    for logits in [[1, 1], [1, 5], [3, 1], [8, 5], [7, 13]] {
        let leaves = [real(&[&logits]), vec![Leaf::Words(vec![logits[0]])]].concat();
        let name = format!("cross_entropy {logits:?}");
        cases.extend(in_all_layouts(name, &leaves, |g, x| Ok(cross_entropy(g, x[0], x[1])?.mean)));
    }
    for (name, targets) in [
        ("with every target ignored", vec![u32::MAX; 3]),
        ("with one target that counts", vec![u32::MAX, 4, u32::MAX]),
        ("with one target thrice", vec![2; 3]),
    ] {
        let leaves = [real(&[&[3, 5]]), vec![Leaf::Given(targets)]].concat();
        let name = format!("cross_entropy {name}");
        cases.extend(in_all_layouts(name, &leaves, |g, x| Ok(cross_entropy(g, x[0], x[1])?.mean)));
    }
    let leaves = [real(&[&[2, 3, 5]]), vec![Leaf::Words(vec![2, 3])]].concat();
    cases.extend(in_all_layouts("cross_entropy of [2, 3, 5] seen as rows", &leaves, |g, x| {
        let rows = reshape(g, x[0], &[6, 5])?;
        Ok(cross_entropy(g, rows, x[1])?.mean)
    }));
    cases
}
