//! Sums, means, maxima, cumulative sums and softmax over every axis of every shape.

use headlight::graph::ops::{CumulativeSum, Reduction, reduce, softmax, sum_to_shape};

use super::super::case::{Case, in_all_layouts, real};
use super::SHAPES;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for shape in SHAPES {
        for axis in 0..shape.len() {
            for (name, reduction) in [("sum", Reduction::Sum), ("mean", Reduction::Mean), ("max", Reduction::Maximum)] {
                let name = format!("{name} {shape:?} over axis {axis}");
                cases.extend(in_all_layouts(name, &real(&[shape]), move |g, x| reduce(g, x[0], axis, reduction)));
            }
            for reverse in [false, true] {
                let name = format!("cumsum {shape:?} along axis {axis} reverse={reverse}");
                let op = CumulativeSum { axis, reverse };
                cases.extend(in_all_layouts(name, &real(&[shape]), move |g, x| g.add(op.clone(), &[x[0]])));
            }
            let name = format!("softmax {shape:?} over axis {axis}");
            cases.extend(in_all_layouts(name, &real(&[shape]), move |g, x| softmax(g, x[0], axis)));
        }
    }
    for (from, to) in [(&[2, 3, 4][..], &[3, 1][..]), (&[2, 3], &[]), (&[2, 1, 3, 2], &[1, 3, 1]), (&[5], &[1])] {
        let name = format!("sum {from:?} to the shape {to:?}");
        cases.extend(in_all_layouts(name, &real(&[from]), move |g, x| sum_to_shape(g, x[0], to)));
    }
    cases
}
