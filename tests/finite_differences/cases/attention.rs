//! Masks, attention weights and fused attention, with queries and keys of different lengths.

use headlight::graph::ops::{
    AttentionSpec, CausalMask, attention, causal_mask, permute, reshape, scaled_masked_softmax, softmax,
};

use super::super::case::{Case, in_all_layouts, real};

/// Shapes of scores; where there are more queries than keys, the first see nothing.
const SCORES: [&[usize]; 9] =
    [&[1, 1], &[3, 3], &[2, 5], &[5, 2], &[2, 4, 2], &[2, 2, 4], &[2, 1, 3, 3], &[1, 2, 1, 2, 5], &[2, 1, 2, 3, 1]];

/// B, H, Hkv, Tq, Tk, D
const ATTENTION: [[usize; 6]; 11] = [
    [1, 1, 1, 1, 1, 1],
    [2, 2, 2, 3, 3, 3],
    [2, 2, 2, 2, 4, 3],
    [2, 2, 2, 4, 2, 3],
    [1, 4, 2, 2, 5, 3],
    [1, 4, 2, 5, 2, 3],
    [2, 2, 1, 3, 3, 4],
    [1, 3, 3, 4, 4, 5],
    [1, 2, 2, 1, 7, 2],
    [1, 1, 1, 7, 1, 2],
    [1, 6, 2, 3, 3, 1],
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for shape in SCORES {
        let operands = real(&[shape]);
        cases.extend(in_all_layouts(format!("causal_mask {shape:?} then softmax"), &operands, |g, x| {
            let masked = causal_mask(g, x[0])?;
            let axis = g.shape(masked).len() - 1;
            softmax(g, masked, axis)
        }));
        cases.extend(in_all_layouts(format!("causal_mask {shape:?} filled with -0.7"), &operands, |g, x| {
            g.add(CausalMask { fill: -0.7 }, &[x[0]])
        }));
        for causal in [false, true] {
            let name = format!("scaled_masked_softmax {shape:?} causal={causal}");
            cases.extend(in_all_layouts(name, &operands, move |g, x| scaled_masked_softmax(g, x[0], 0.7, causal)));
        }
    }
    for sizes in ATTENTION {
        let [batch, heads, key_heads, query, key, width] = sizes;
        let (query, key) = ([batch, heads, query, width], [batch, key_heads, key, width]);
        for causal in [false, true] {
            let name = format!("attention {query:?} {key:?} causal={causal}");
            let spec = AttentionSpec { scale: 0.6, causal };
            cases.extend(in_all_layouts(&name, &real(&[&query, &key, &key]), move |g, x| {
                attention(g, x[0], x[1], x[2], spec)
            }));
            // Heads merged, as a model goes on.
            cases.extend(in_all_layouts(format!("{name} merged"), &real(&[&query, &key, &key]), move |g, x| {
                let output = attention(g, x[0], x[1], x[2], spec)?;
                let merged = permute(g, output, &[0, 2, 1, 3])?;
                let [batch, heads, query, width] = query;
                reshape(g, merged, &[batch * query, heads * width])
            }));
        }
    }
    for causal in [false, true] {
        let name = format!("attention of a tensor to itself causal={causal}");
        let spec = AttentionSpec { scale: 0.6, causal };
        cases.extend(in_all_layouts(name, &real(&[&[2, 2, 3, 3]]), move |g, x| attention(g, x[0], x[0], x[0], spec)));
    }
    cases
}
