//! The gradients of attention are those of the formula written out, fused or not, however it is written.

use headlight::graph::ops::{
    CausalMask, add_constant, binary, causal_mask, constant, divide, index, input, matmul, multiply, negate, permute,
    reshape, scale, select, softmax, subtract, transpose, unary,
};
use headlight::graph::{Graph, GraphError, Reuse, Rewrites, TensorType, Value, evaluate, print_graph, rewrite};
use headlight::kernel::elementwise::{Binary, Unary};
use headlight::tape::{Contents, RunOn, Tensor, normal};

use super::case::weighted_sum;
use super::draw::{Draw, draw};
use super::problem::{Planned, Problem};

/// Attention of query, key and value `[B, H, T, D]`, written out.
type Trace = fn(&mut Graph, [Value; 3]) -> Result<Value, GraphError>;
type Step = fn(&mut Graph, Value) -> Result<Value, GraphError>;

/// What the fused op must say of itself, and the attention as it is written.
type Form = (&'static str, Trace);

/// heads, queries, keys, width of a head
type Sizes = (usize, usize, usize, usize);

const SQUARE: [Sizes; 3] = [(1, 5, 5, 4), (2, 7, 7, 3), (1, 1, 1, 2)];
const OBLONG: [Sizes; 2] = [(3, 4, 9, 8), (2, 6, 3, 5)];

/// `softmax(scores(query key^T)) value`, query and key changed before.
fn attend(
    g: &mut Graph,
    [query, key, value]: [Value; 3],
    of_query: Step,
    transposed: Step,
    scores: Step,
) -> Result<Value, GraphError> {
    let (query, keys) = (of_query(g, query)?, transposed(g, key)?);
    let product = matmul(g, query, keys)?;
    let scores = scores(g, product)?;
    let weights = softmax(g, scores, 3)?;
    matmul(g, weights, value)
}

fn scores(g: &mut Graph, inputs: [Value; 3], scores: Step) -> Result<Value, GraphError> {
    attend(g, inputs, |_, query| Ok(query), transpose, scores)
}

/// Row and column index of scores.
fn positions(g: &mut Graph, scores: Value) -> Result<(Value, Value), GraphError> {
    let [queries, keys] = [2, 3].map(|axis| g.shape(scores)[axis]);
    Ok((index(g, &[queries, 1], 0)?, index(g, &[1, keys], 1)?))
}

/// Fills where the column is larger than the row.
fn filled(g: &mut Graph, scores: Value, fill: f64) -> Result<Value, GraphError> {
    let (row, column) = positions(g, scores)?;
    let seen = binary(g, column, row, Binary::LessEqual)?;
    let fill = constant(g, &[], fill)?;
    select(g, seen, scores, fill)
}

/// Forms for queries and keys of any number.
const ANY: [Form; 18] = [
    ("scale=0.5 causal", |g, x| {
        scores(g, x, |g, s| {
            let scaled = scale(g, s, 0.5)?;
            causal_mask(g, scaled)
        })
    }),
    ("scale=1)", |g, x| scores(g, x, |_, s| Ok(s))),
    ("scale=0.5)", |g, x| scores(g, x, |g, s| scale(g, s, 0.5))),
    ("scale=0.5)", |g, x| {
        scores(g, x, |g, s| {
            let half = constant(g, &[], 0.5)?;
            multiply(g, s, half)
        })
    }),
    ("scale=0.5)", |g, x| {
        scores(g, x, |g, s| {
            let half = constant(g, &[1, 1, 1, 1], 0.5)?;
            multiply(g, half, s)
        })
    }),
    ("scale=0.5)", |g, x| {
        scores(g, x, |g, s| {
            let two = constant(g, &[], 2.0)?;
            divide(g, s, two)
        })
    }),
    ("scale=0.25)", |g, x| {
        scores(g, x, |g, s| {
            let sixteen = constant(g, &[1], 16.0)?;
            let root = unary(g, sixteen, Unary::Sqrt, 0.0)?;
            divide(g, s, root)
        })
    }),
    ("scale=-0.5)", |g, x| {
        scores(g, x, |g, s| {
            let negative = negate(g, s)?;
            scale(g, negative, 0.5)
        })
    }),
    // On the query.
    ("scale=0.5 causal", |g, x| attend(g, x, |g, query| scale(g, query, 0.5), transpose, causal_mask)),
    ("scale=-0.5)", |g, x| {
        let of_query: Step = |g, query| {
            let two = constant(g, &[], 2.0)?;
            let half = divide(g, query, two)?;
            negate(g, half)
        };
        attend(g, x, of_query, transpose, |_, s| Ok(s))
    }),
    // On the key, before and behind its transpose.
    ("scale=0.5)", |g, x| {
        let transposed: Step = |g, key| {
            let half = constant(g, &[], 0.5)?;
            let scaled = multiply(g, key, half)?;
            transpose(g, scaled)
        };
        attend(g, x, |_, query| Ok(query), transposed, |_, s| Ok(s))
    }),
    ("scale=-0.5 causal", |g, x| {
        let transposed: Step = |g, key| {
            let two = constant(g, &[], 2.0)?;
            let keys = transpose(g, key)?;
            let negative = negate(g, keys)?;
            divide(g, negative, two)
        };
        attend(g, x, |_, query| Ok(query), transposed, causal_mask)
    }),
    // A part of it everywhere.
    ("scale=0.75 causal", |g, x| {
        let transposed: Step = |g, key| {
            let doubled = scale(g, key, 2.0)?;
            let keys = transpose(g, doubled)?;
            scale(g, keys, 0.5)
        };
        let masked: Step = |g, s| {
            let scaled = scale(g, s, 0.25)?;
            causal_mask(g, scaled)
        };
        attend(g, x, |g, query| scale(g, query, 3.0), transposed, masked)
    }),
    ("scale=1 causal", |g, x| scores(g, x, |g, s| g.add(CausalMask { fill: f64::NEG_INFINITY }, &[s]))),
    // Aligned at the last query and the last key.
    ("scale=1 causal", |g, x| {
        scores(g, x, |g, s| {
            let (row, column) = positions(g, s)?;
            let more = g.shape(s)[3] as f64 - g.shape(s)[2] as f64;
            let last = add_constant(g, row, more)?;
            let seen = binary(g, column, last, Binary::LessEqual)?;
            let fill = constant(g, &[], f64::NEG_INFINITY)?;
            select(g, seen, s, fill)
        })
    }),
    ("scale=1 causal", |g, x| {
        scores(g, x, |g, s| {
            let (row, column) = positions(g, s)?;
            let more = g.shape(s)[3] as f64 - g.shape(s)[2] as f64;
            let ahead = subtract(g, column, row)?;
            let limit = constant(g, &[], more)?;
            let hidden = binary(g, limit, ahead, Binary::Less)?;
            let fill = constant(g, &[], -1e38)?;
            select(g, hidden, fill, s)
        })
    }),
    ("scale=0.5 causal", |g, x| {
        scores(g, x, |g, s| {
            let scaled = scale(g, s, 0.5)?;
            let masked = causal_mask(g, scaled)?;
            unary(g, masked, Unary::Identity, 0.0)
        })
    }),
    ("scale=0)", |g, x| scores(g, x, |g, s| scale(g, s, 0.0))),
];

/// Forms for as many queries as keys.
const AS_MANY: [Form; 10] = [
    ("scale=1 causal", |g, x| scores(g, x, |g, s| filled(g, s, f64::NEG_INFINITY))),
    ("scale=1 causal", |g, x| scores(g, x, |g, s| filled(g, s, -1e30))),
    ("scale=1 causal", |g, x| scores(g, x, |g, s| filled(g, s, -1e9))),
    ("scale=1 causal", |g, x| scores(g, x, |g, s| g.add(CausalMask { fill: -1e9 }, &[s]))),
    ("scale=0.5 causal", |g, x| {
        scores(g, x, |g, s| {
            let two = constant(g, &[], 2.0)?;
            let scaled = divide(g, s, two)?;
            filled(g, scaled, -1e30)
        })
    }),
    // A later key is hidden: the number comes first.
    ("scale=1 causal", |g, x| {
        scores(g, x, |g, s| {
            let (row, column) = positions(g, s)?;
            let later = binary(g, row, column, Binary::Less)?;
            let one = constant(g, &[], 1e30)?;
            let fill = negate(g, one)?;
            select(g, later, fill, s)
        })
    }),
    // Not later, by a comparison with 0.
    ("scale=1 causal", |g, x| {
        scores(g, x, |g, s| {
            let (row, column) = positions(g, s)?;
            let later = binary(g, row, column, Binary::Less)?;
            let zero = constant(g, &[], 0.0)?;
            let seen = binary(g, later, zero, Binary::Equal)?;
            let fill = constant(g, &[1, 1], -1e30)?;
            select(g, seen, s, fill)
        })
    }),
    // Not seen, likewise, and in the shape of the scores.
    ("scale=1 causal", |g, x| {
        scores(g, x, |g, s| {
            let (row, column) = positions(g, s)?;
            let seen = binary(g, column, row, Binary::LessEqual)?;
            let zero = constant(g, &[], 0.0)?;
            let hidden = binary(g, zero, seen, Binary::Equal)?;
            let size = g.shape(s)[2];
            let hidden = reshape(g, hidden, &[1, 1, size, size])?;
            let fill = constant(g, &[1, 1, 1, 1], -1e30)?;
            select(g, hidden, fill, s)
        })
    }),
    ("scale=1 causal", |g, x| {
        scores(g, x, |g, s| {
            let size = g.shape(s)[2];
            let (row, column) = positions(g, s)?;
            let (row, column) = (reshape(g, row, &[1, 1, size, 1])?, reshape(g, column, &[1, 1, 1, size])?);
            let seen = binary(g, column, row, Binary::LessEqual)?;
            let fill = constant(g, &[], -1e30)?;
            select(g, seen, s, fill)
        })
    }),
    ("scale=1 causal", |g, x| {
        scores(g, x, |g, s| {
            let shape = g.shape(s).to_vec();
            let (row, column) = (index(g, &shape, 2)?, index(g, &shape, 3)?);
            let later = binary(g, row, column, Binary::LessEqual)?;
            let seen = permute(g, later, &[0, 1, 3, 2])?;
            let fill = constant(g, &shape, -1e30)?;
            select(g, seen, s, fill)
        })
    }),
];

pub fn fused_and_naive_gradients_of_the_same_attention_agree() -> Result<(), String> {
    let any = ANY.iter().flat_map(|form| SQUARE.iter().chain(&OBLONG).map(move |&sizes| (form, sizes)));
    let square = AS_MANY.iter().flat_map(|form| SQUARE.iter().map(move |&sizes| (form, sizes)));
    for (number, (&(says, trace), sizes)) in any.chain(square).enumerate() {
        let written = Results::of(trace, sizes, None)?;
        for rewrites in [Rewrites::Naive, Rewrites::Fused] {
            let found = Results::of(trace, sizes, Some(rewrites))?;
            let says = match rewrites {
                Rewrites::Fused => format!("attention(%0, %1, %2; {says}"),
                Rewrites::Naive => "scaled_masked_softmax(".into(),
            };
            if !found.graph.contains(&says) {
                return Err(format!("form {number} {sizes:?} does not say {says}:\n{}", found.graph));
            }
            for (found, expected) in found.numbers.iter().flatten().zip(written.numbers.iter().flatten()) {
                let close = (found - expected).abs() <= 1e-12 * (1.0 + expected.abs());
                if !close {
                    return Err(format!("form {number} {sizes:?} {rewrites:?}: {found} against {expected}"));
                }
            }
        }
    }
    Ok(())
}

/// What comes of an attention, rewritten or not.
struct Results {
    /// The output, the loss and the gradients.
    numbers: Vec<Vec<f64>>,
    graph: String,
}

impl Results {
    fn of(trace: Trace, (heads, queries, keys, width): Sizes, rewrites: Option<Rewrites>) -> Result<Self, String> {
        let shapes = [[2, heads, queries, width], [2, heads, keys, width], [2, heads, keys, width]];
        let mut graph = Graph::new();
        let leaves = shapes.map(|shape| input(&mut graph, "x", TensorType::real(shape)).unwrap());
        let output = trace(&mut graph, leaves).map_err(|error| error.to_string())?;
        if let Some(rewrites) = rewrites {
            let reports = rewrite(&mut graph, rewrites, &[]);
            if reports.iter().any(|report| report.outcome.is_err()) {
                return Err(format!("{reports:?}"));
            }
        }
        let text = print_graph(&graph, &[output]);
        let tensors: Vec<Tensor> = (0u64..).zip(shapes).map(|(at, shape)| tensor(at, &shape)).collect();
        let bound: Vec<(Value, &Tensor)> = leaves.into_iter().zip(&tensors).collect();
        let outputs = pollster::block_on(evaluate(&graph, &bound, &[output], &RunOn::CpuWide));
        let mut numbers: Vec<Vec<f64>> =
            outputs.map_err(|error| error.to_string())?.iter().map(|tensor| tensor.values().to_vec()).collect();
        let loss = weighted_sum(&mut graph, output).map_err(|error| error.to_string())?;
        let problem = Problem::new(graph, loss)?;
        let planned = Planned::new(&problem, Reuse::Pooled)?;
        planned.write(&draw(&problem, Draw::Within).ok_or("nothing to draw")?);
        numbers.extend(planned.run());
        Ok(Self { numbers, graph: text })
    }
}

fn tensor(number: u64, shape: &[usize]) -> Tensor {
    let values = normal(31, number, shape.iter().product(), 1.0).into_iter().map(f64::from).collect();
    Tensor { shape: shape.to_vec(), contents: Contents::Real(values) }
}
