//! The gradients of attention are those of the formula written out, fused or not.

use headlight::graph::ops::{causal_mask, input, matmul, scale, softmax, transpose};
use headlight::graph::{Graph, GraphError, Reuse, Rewrites, TensorType, Value, rewrite};

use super::case::weighted_sum;
use super::draw::{Draw, draw};
use super::problem::{Planned, Problem};

pub fn fused_and_naive_gradients_of_the_same_attention_agree() -> Result<(), String> {
    for sizes in [(1, 5, 5, 4), (2, 7, 7, 3), (3, 4, 9, 8), (2, 6, 3, 5)] {
        let written = gradients(sizes, None)?;
        for rewrites in [Rewrites::Naive, Rewrites::Fused] {
            let found = gradients(sizes, Some(rewrites))?;
            for (found, expected) in found.iter().flatten().zip(written.iter().flatten()) {
                let close = (found - expected).abs() <= 1e-12 * (1.0 + expected.abs());
                if !close {
                    return Err(format!("{sizes:?} {rewrites:?}: {found} against {expected}"));
                }
            }
        }
    }
    Ok(())
}

/// Loss and gradients of causal attention.
fn gradients(
    (heads, queries, keys, width): (usize, usize, usize, usize),
    rewrites: Option<Rewrites>,
) -> Result<Vec<Vec<f64>>, String> {
    let shapes = [[2, heads, queries, width], [2, heads, keys, width], [2, heads, keys, width]];
    let mut graph = Graph::new();
    let traced = trace(&mut graph, shapes).map_err(|error| error.to_string())?;
    if let Some(rewrites) = rewrites {
        let reports = rewrite(&mut graph, rewrites, &[]);
        if reports.iter().any(|report| report.outcome.is_err()) {
            return Err(format!("{reports:?}"));
        }
    }
    let loss = weighted_sum(&mut graph, traced).map_err(|error| error.to_string())?;
    let problem = Problem::new(graph, loss)?;
    let planned = Planned::new(&problem, Reuse::Pooled)?;
    planned.write(&draw(&problem, Draw::Within).ok_or("nothing to draw")?);
    Ok(planned.run())
}

fn trace(g: &mut Graph, shapes: [[usize; 4]; 3]) -> Result<Value, GraphError> {
    let [query, key, value] = shapes.map(|shape| input(g, "x", TensorType::real(shape)));
    let transposed = transpose(g, key?)?;
    let scores = matmul(g, query?, transposed)?;
    let scaled = scale(g, scores, 0.5)?;
    let masked = causal_mask(g, scaled)?;
    let weights = softmax(g, masked, 3)?;
    matmul(g, weights, value?)
}
