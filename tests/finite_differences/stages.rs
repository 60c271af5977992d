//! What a graph can grow by: each op, in each of its roles, on top of a value of any shape.

use headlight::graph::Domain;
use headlight::graph::Value;
use headlight::graph::ops::{
    Attention, AttentionSpec, BinaryOp, CausalMask, Concat, Constant, CrossEntropy, CumulativeSum, Embedding, Index,
    LayerNorm, MatMul, Permute, Reduce, Reduction, Reshape, ScaledMaskedSoftmax, Select, Slice, Softmax, UnaryOp,
};
use headlight::kernel::elementwise::{Binary, Unary};

use super::weave::Weaver;

type Add = Box<dyn Fn(&mut Weaver, Value) -> Option<Value> + Send + Sync>;

pub struct Stage {
    pub name: String,
    pub add: Add,
}

fn stage(name: impl Into<String>, add: impl Fn(&mut Weaver, Value) -> Option<Value> + Send + Sync + 'static) -> Stage {
    Stage { name: name.into(), add: Box::new(add) }
}

/// Every stage.
pub fn stages() -> Vec<Stage> {
    [elementwise(), along_an_axis(), products(), attention(), views(), tokens()].into_iter().flatten().collect()
}

fn elementwise() -> Vec<Stage> {
    let mut stages = Vec::new();
    for &operation in Unary::ALL {
        let constants = if operation == Unary::Power { &[2.0, 1.7, -1.0, 0.0][..] } else { &[0.7] };
        for &constant in constants {
            let name = format!("{} {constant}", operation.name());
            stages.push(stage(name, move |weaver, x| weaver.put(UnaryOp { operation, constant }, &[x])));
        }
    }
    for &operation in Binary::ALL {
        if matches!(operation.row().domain, Domain::NotDifferentiable { .. }) {
            continue;
        }
        for first in [true, false] {
            let name = format!("{} {}", operation.name(), if first { "left" } else { "right" });
            stages.push(stage(name, move |weaver, x| {
                let shape = broadcast(weaver, x);
                let other = weaver.operand(&shape);
                weaver.put(BinaryOp { operation }, &if first { [x, other] } else { [other, x] })
            }));
        }
    }
    for role in ["condition", "a", "b"] {
        stages.push(stage(format!("where {role}"), move |weaver, x| {
            let shapes = [broadcast(weaver, x), weaver.shape(x)];
            let others = shapes.map(|shape| weaver.operand(&shape));
            // As a learner writes it: a comparison picks.
            let compared = if role == "condition" { x } else { others[0] };
            let shape = weaver.shape(compared);
            let bound = weaver.operand(&shape);
            let condition = weaver.put(BinaryOp { operation: Binary::Less }, &[compared, bound])?;
            let inputs = match role {
                "condition" => [condition, others[0], others[1]],
                "a" => [condition, x, others[1]],
                _ => [condition, others[1], x],
            };
            weaver.put(Select, &inputs)
        }));
    }
    stages.push(stage("constant", |weaver, x| {
        let shape = weaver.shape(x);
        let constant = weaver.put(Constant { shape, value: 0.7 }, &[])?;
        weaver.put(BinaryOp { operation: Binary::Multiply }, &[constant, x])
    }));
    stages.push(stage("index", |weaver, x| {
        let x = at_least(weaver, x, 1)?;
        let shape = broadcast(weaver, x);
        let shape = if shape.is_empty() { vec![1] } else { shape };
        let axis = weaver.below(shape.len());
        let positions = weaver.put(Index { shape, axis }, &[])?;
        weaver.put(BinaryOp { operation: Binary::Subtract }, &[x, positions])
    }));
    stages
}

/// A shape that broadcasts with that of `x`: the same, one without its first dimensions, one with a 1 in it, or one
/// with a dimension more.
fn broadcast(weaver: &mut Weaver, x: Value) -> Vec<usize> {
    let mut shape = weaver.shape(x);
    match weaver.below(4) {
        1 => shape.drain(..shape.len() / 2).for_each(drop),
        2 if !shape.is_empty() => {
            let at = weaver.below(shape.len());
            shape[at] = 1;
        }
        3 if shape.len() < 5 => shape.insert(0, 2),
        _ => {}
    }
    shape
}

fn along_an_axis() -> Vec<Stage> {
    let mut stages = Vec::new();
    for reduction in [Reduction::Sum, Reduction::Mean, Reduction::Maximum] {
        stages.push(stage(format!("reduce {reduction:?}"), move |weaver, x| {
            let (x, axis) = axis(weaver, x)?;
            weaver.put(Reduce { axis, reduction }, &[x])
        }));
    }
    for reverse in [false, true] {
        stages.push(stage(format!("cumsum reverse={reverse}"), move |weaver, x| {
            let (x, axis) = axis(weaver, x)?;
            weaver.put(CumulativeSum { axis, reverse }, &[x])
        }));
    }
    stages.push(stage("softmax", |weaver, x| {
        let (x, axis) = axis(weaver, x)?;
        weaver.put(Softmax { axis }, &[x])
    }));
    stages.push(stage("layer_norm", |weaver, x| {
        let (x, _) = axis(weaver, x)?;
        let width = [weaver.shape(x)[weaver.shape(x).len() - 1]];
        let (weight, bias) = (weaver.operand(&width), weaver.operand(&width));
        weaver.put(LayerNorm { epsilon: 0.1 }, &[x, weight, bias])
    }));
    stages
}

/// `x` with at least one dimension, and one of its axes.
fn axis(weaver: &mut Weaver, x: Value) -> Option<(Value, usize)> {
    let x = at_least(weaver, x, 1)?;
    let rank = weaver.shape(x).len();
    Some((x, weaver.below(rank)))
}

fn at_least(weaver: &mut Weaver, x: Value, rank: usize) -> Option<Value> {
    if weaver.shape(x).len() < rank { weaver.in_rank(x, rank) } else { Some(x) }
}

fn products() -> Vec<Stage> {
    let columns = |weaver: &mut Weaver, x: Value, biased: bool| {
        let x = at_least(weaver, x, 2)?;
        let shape = weaver.shape(x);
        let columns = 1 + weaver.below(4);
        let mut other = shape[..weaver.below(shape.len() - 1)].to_vec();
        // The leading sizes of the other side are ones, or those of `x`, or missing.
        let lead = shape.len() - 2;
        other.truncate(lead);
        let missing = lead - other.len();
        let other: Vec<usize> = shape[missing..lead].iter().map(|&size| [1, size][weaver.below(2)]).collect();
        let other = weaver.operand(&[&other[..], &[shape[shape.len() - 1], columns]].concat());
        let mut inputs = vec![x, other];
        if biased {
            inputs.push(weaver.operand(&[columns]));
        }
        weaver.put(MatMul, &inputs)
    };
    let rows = |weaver: &mut Weaver, x: Value| {
        let shape = weaver.shape(x);
        let rows = 1 + weaver.below(4);
        let lead = [&shape[..shape.len() - 2], &[]][weaver.below(2)].to_vec();
        let other = weaver.operand(&[&lead[..], &[rows, shape[shape.len() - 2]]].concat());
        weaver.put(MatMul, &[other, x])
    };
    vec![
        stage("matmul left", move |weaver, x| columns(weaver, x, false)),
        stage("matmul left with bias", move |weaver, x| columns(weaver, x, true)),
        stage("matmul right", move |weaver, x| {
            let x = at_least(weaver, x, 2)?;
            rows(weaver, x)
        }),
        stage("matmul right transposed", move |weaver, x| {
            let x = at_least(weaver, x, 2)?;
            let rank = weaver.shape(x).len();
            let mut order: Vec<usize> = (0..rank).collect();
            order.swap(rank - 2, rank - 1);
            let x = weaver.put(Permute { order }, &[x])?;
            rows(weaver, x)
        }),
        stage("matmul bias", |weaver, x| {
            let x = weaver.in_rank(x, 1)?;
            let columns = weaver.shape(x)[0];
            let (a, b) = (weaver.operand(&[2, 3]), weaver.operand(&[3, columns]));
            weaver.put(MatMul, &[a, b, x])
        }),
        stage("matmul of one value and its transpose", |weaver, x| {
            let x = at_least(weaver, x, 2)?;
            let rank = weaver.shape(x).len();
            let mut order: Vec<usize> = (0..rank).collect();
            order.swap(rank - 2, rank - 1);
            let transposed = weaver.put(Permute { order }, &[x])?;
            weaver.put(MatMul, &[x, transposed])
        }),
    ]
}

fn attention() -> Vec<Stage> {
    let mut stages = Vec::new();
    for causal in [false, true] {
        stages.push(stage(format!("scaled_masked_softmax causal={causal}"), move |weaver, x| {
            let x = at_least(weaver, x, 2)?;
            weaver.put(ScaledMaskedSoftmax { scale: 0.7, causal }, &[x])
        }));
        for role in ["query", "key", "value"] {
            stages.push(stage(format!("attention {role} causal={causal}"), move |weaver, x| {
                let x = weaver.in_rank(x, 4)?;
                let [batch, heads, length, width] = weaver.shape(x)[..] else { return None };
                let (other, group) = (1 + weaver.below(4), 1 + weaver.below(2));
                let spec = AttentionSpec { scale: 0.6, causal };
                let inputs = match role {
                    "query" => {
                        let key_heads = if heads % 2 == 0 { heads / group } else { heads };
                        let shape = [batch, key_heads, other, width];
                        [x, weaver.operand(&shape), weaver.operand(&shape)]
                    }
                    _ => {
                        let query = weaver.operand(&[batch, heads * group, other, width]);
                        let second = weaver.operand(&[batch, heads, length, width]);
                        if role == "key" { [query, x, second] } else { [query, second, x] }
                    }
                };
                weaver.put(Attention { spec }, &inputs)
            }));
        }
    }
    stages.push(stage("causal_mask", |weaver, x| {
        let x = at_least(weaver, x, 2)?;
        weaver.put(CausalMask { fill: -0.7 }, &[x])
    }));
    stages
}

fn views() -> Vec<Stage> {
    vec![
        stage("concat", |weaver, x| {
            let (x, axis) = axis(weaver, x)?;
            let mut shape = weaver.shape(x);
            shape[axis] = 1 + weaver.below(3);
            let other = weaver.operand(&shape);
            let parts = [vec![x, other], vec![other, x], vec![x, other, x]];
            let parts = &parts[weaver.below(3)];
            weaver.put(Concat { axis }, parts)
        }),
        stage("slice", |weaver, x| {
            let (x, axis) = axis(weaver, x)?;
            let size = weaver.shape(x)[axis];
            let start = weaver.below(size);
            let end = start + 1 + weaver.below(size - start);
            weaver.put(Slice { axis, start, end }, &[x])
        }),
        stage("permute", |weaver, x| {
            let mut left: Vec<usize> = (0..weaver.shape(x).len()).collect();
            let mut order = Vec::new();
            while !left.is_empty() {
                let at = weaver.below(left.len());
                order.push(left.remove(at));
            }
            weaver.put(Permute { order }, &[x])
        }),
        stage("reshape", |weaver, x| {
            let mut shape = weaver.shape(x);
            match (weaver.below(3), shape.len()) {
                (0, 2..) => {
                    let at = weaver.below(shape.len() - 1);
                    let size = shape.remove(at);
                    shape[at] *= size;
                }
                (1, 1..5) => {
                    let at = weaver.below(shape.len());
                    let factor = (2..=shape[at]).find(|&factor| shape[at].is_multiple_of(factor)).unwrap_or(1);
                    shape[at] /= factor;
                    shape.insert(at, factor);
                }
                _ => shape = vec![shape.iter().product()],
            }
            weaver.put(Reshape { shape }, &[x])
        }),
    ]
}

fn tokens() -> Vec<Stage> {
    vec![
        stage("embedding", |weaver, x| {
            let table = weaver.in_rank(x, 2)?;
            let rows = 1 + weaver.below(3);
            let vocabulary = weaver.shape(table)[0];
            let ids = weaver.words(&[rows, 2], vocabulary);
            weaver.put(Embedding, &[table, ids])
        }),
        stage("cross_entropy", |weaver, x| {
            let logits = weaver.in_rank(x, 2)?;
            let [rows, vocabulary] = weaver.shape(logits)[..] else { return None };
            let targets = weaver.words(&[rows], vocabulary);
            weaver.put(CrossEntropy, &[logits, targets])
        }),
    ]
}
