//! Layer normalisation.

use headlight::graph::ops::{layer_norm, multiply};

use super::super::case::{Case, in_all_layouts, real};
use super::SHAPES;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for shape in SHAPES {
        let width = [shape[shape.len() - 1]];
        let operands = real(&[shape, &width, &width]);
        // So large that rows which are all but constant bend no faster than a step can follow.
        let name = format!("layer_norm {shape:?} epsilon=0.1");
        cases.extend(in_all_layouts(name, &operands, |g, x| layer_norm(g, x[0], x[1], x[2], 0.1)));
        let name = format!("layer_norm {shape:?} epsilon=1e-5");
        let mut usual = in_all_layouts(name, &operands, |g, x| layer_norm(g, x[0], x[1], x[2], 1e-5));
        usual.iter_mut().for_each(|case| case.near = false);
        cases.extend(usual);
    }
    cases.extend(in_all_layouts("layer_norm with one tensor as weight and bias", &real(&[&[3, 5], &[5]]), |g, x| {
        let y = layer_norm(g, x[0], x[1], x[1], 0.1)?;
        multiply(g, y, x[0])
    }));
    cases
}
