//! Several ops in a row, as models have them.

use headlight::graph::ops::{
    AttentionSpec, Reduction, add, attention, concat, cross_entropy, embedding, gelu, layer_norm, linear, multiply,
    permute, reduce, reshape, slice, softmax, transpose,
};

use super::super::case::{Case, Leaf, in_all_layouts, real};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(in_all_layouts("chain of views", &real(&[&[3, 4, 5]]), |g, x| {
        let permuted = permute(g, x[0], &[2, 0, 1])?;
        let part = slice(g, permuted, 0, 1, 5)?;
        let merged = reshape(g, part, &[4, 12])?;
        let transposed = transpose(g, merged)?;
        let both = concat(g, &[transposed, transposed], 1)?;
        let part = slice(g, both, 1, 2, 7)?;
        reshape(g, part, &[5, 3, 4])
    }));
    cases.extend(in_all_layouts("chain of slices put together in another order", &real(&[&[5, 6]]), |g, x| {
        let parts = [(4, 6), (0, 3), (3, 4)].map(|(start, end)| slice(g, x[0], 1, start, end));
        let [a, b, c] = parts;
        let joined = concat(g, &[a?, b?, c?], 1)?;
        let turned = transpose(g, joined)?;
        multiply(g, turned, turned)
    }));
    cases.extend(in_all_layouts("chain of a maximum subtracted", &real(&[&[3, 5]]), |g, x| {
        let largest = reduce(g, x[0], 1, Reduction::Maximum)?;
        let largest = reshape(g, largest, &[3, 1])?;
        multiply(g, x[0], largest)
    }));
    let (batch, length, heads, head) = (2, 3, 2, 2);
    let width = heads * head;
    // Query, key and value are cut out of one product, and the heads are views.
    let shapes: [&[usize]; 5] = [&[batch, length, width], &[width, 3 * width], &[3 * width], &[width, width], &[width]];
    cases.extend(in_all_layouts("chain of an attention layer", &real(&shapes), move |g, x| {
        let packed = linear(g, x[0], x[1], x[2])?;
        let heads = [0, 1, 2].map(|part| {
            let part = slice(g, packed, 2, part * width, (part + 1) * width)?;
            let split = reshape(g, part, &[batch, length, heads, head])?;
            permute(g, split, &[0, 2, 1, 3])
        });
        let [query, key, value] = heads;
        let output = attention(g, query?, key?, value?, AttentionSpec { scale: 0.7, causal: true })?;
        let merged = permute(g, output, &[0, 2, 1, 3])?;
        let merged = reshape(g, merged, &[batch, length, width])?;
        let projected = linear(g, merged, x[3], x[4])?;
        add(g, x[0], projected)
    }));
    // The embedding is also the head: two terms for one table.
    let leaves = [real(&[&[5, 4], &[4], &[4]]), vec![Leaf::Words(vec![6]), Leaf::Words(vec![6])]].concat();
    cases.extend(in_all_layouts("chain with a table that is embedding and head", &leaves, |g, x| {
        let rows = embedding(g, x[0], x[3])?;
        let normal = layer_norm(g, rows, x[1], x[2], 0.1)?;
        let active = gelu(g, normal)?;
        let sum = add(g, rows, active)?;
        let head = transpose(g, x[0])?;
        let logits = headlight::graph::ops::matmul(g, sum, head)?;
        Ok(cross_entropy(g, logits, x[4])?.mean)
    }));
    cases.extend(in_all_layouts("chain of two softmaxes over different axes", &real(&[&[3, 4]]), |g, x| {
        let rows = softmax(g, x[0], 1)?;
        let columns = softmax(g, x[0], 0)?;
        multiply(g, rows, columns)
    }));
    cases
}
