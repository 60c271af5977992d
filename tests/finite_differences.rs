//! Every op's gradient rule against central differences, in f64, through the planned tape.

use std::collections::HashMap;

use headlight::graph::ops::*;
use headlight::graph::{Graph, GraphError, Reuse, Rewrites, TapeBuilder, TensorType, Value, differentiate, rewrite};
use headlight::kernel::elementwise::{Binary, Unary};
use headlight::tape::{Category, CpuExecutor, ElementKind, normal};

type Build = Box<dyn Fn(&mut Graph, &[Value]) -> Result<Value, GraphError>>;

/// An op, its real inputs and the values they may take.
struct Case {
    name: String,
    shapes: Vec<Vec<usize>>,
    /// Moves normal inputs into the op's domain and away from its kinks.
    domain: fn(f64) -> f64,
    build: Build,
}

fn case(
    name: impl Into<String>,
    shapes: &[&[usize]],
    domain: fn(f64) -> f64,
    build: impl Fn(&mut Graph, &[Value]) -> Result<Value, GraphError> + 'static,
) -> Case {
    let shapes = shapes.iter().map(|shape| shape.to_vec()).collect();
    Case { name: name.into(), shapes, domain, build: Box::new(build) }
}

fn anywhere(x: f64) -> f64 {
    x
}

fn positive(x: f64) -> f64 {
    0.3 + x.abs()
}

/// At least 0.1 from the kink at 0.
fn off_zero(x: f64) -> f64 {
    x + 0.1f64.copysign(x)
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &operation in Unary::ALL {
        let domain = match operation {
            Unary::Log | Unary::Sqrt | Unary::Reciprocal | Unary::Power => positive,
            Unary::Absolute | Unary::Relu | Unary::Sign | Unary::Step => off_zero,
            _ => anywhere,
        };
        cases.push(case(operation.name(), &[&[2, 5]], domain, move |g, x| unary(g, x[0], operation, 1.7)));
    }
    for &operation in Binary::ALL {
        if [Binary::PowerOf, Binary::GeluGradient].contains(&operation) {
            continue; // no gradient rule: `a_power_of_two_tensors_has_no_gradient_and_says_so`
        }
        let domain = if operation == Binary::Divide { positive } else { anywhere };
        for (a, b) in [(&[2, 3][..], &[2, 3][..]), (&[2, 3], &[3]), (&[3, 1], &[2, 1, 4]), (&[1], &[2, 2])] {
            let name = format!("{} {a:?} {b:?}", operation.name());
            cases.push(case(name, &[a, b], domain, move |g, x| binary(g, x[0], x[1], operation)));
        }
    }
    for (a, b) in [
        (&[3, 4][..], &[4, 2][..]),
        (&[2, 3, 4], &[2, 4, 2]),
        (&[2, 3, 1, 4], &[2, 3, 4, 2]),
        (&[2, 3, 4], &[4, 2]),
        (&[2, 1, 3, 2], &[1, 3, 2, 2]),
    ] {
        cases.push(case(format!("matmul {a:?} {b:?}"), &[a, b], anywhere, |g, x| matmul(g, x[0], x[1])));
    }
    cases.push(case("matmul transposed", &[&[4, 3], &[2, 4]], anywhere, |g, x| {
        let (a, b) = (transpose(g, x[0])?, transpose(g, x[1])?);
        matmul(g, a, b)
    }));
    cases.push(case("linear", &[&[2, 3, 4], &[4, 5], &[5]], anywhere, |g, x| linear(g, x[0], x[1], x[2])));
    for axis in 0..3 {
        for reduction in [Reduction::Sum, Reduction::Mean, Reduction::Maximum] {
            let name = format!("{reduction:?} over axis {axis}");
            cases.push(case(name, &[&[2, 3, 4]], anywhere, move |g, x| reduce(g, x[0], axis, reduction)));
        }
        cases.push(case(format!("softmax over axis {axis}"), &[&[2, 3, 4]], anywhere, move |g, x| {
            softmax(g, x[0], axis)
        }));
        cases.push(case(format!("slice of axis {axis}"), &[&[3, 4, 5]], anywhere, move |g, x| {
            slice(g, x[0], axis, 1, 3)
        }));
        cases.push(case(format!("concat along axis {axis}"), &[&[2, 2, 2], &[2, 2, 2]], anywhere, move |g, x| {
            concat(g, &[x[0], x[1], x[0]], axis)
        }));
    }
    cases.push(case("permute", &[&[2, 3, 4]], anywhere, |g, x| permute(g, x[0], &[2, 0, 1])));
    cases.push(case("reshape of a permuted tensor", &[&[2, 3, 4]], anywhere, |g, x| {
        let permuted = permute(g, x[0], &[1, 0, 2])?;
        reshape(g, permuted, &[6, 4])
    }));
    for (query, key) in [(3, 3), (2, 4), (4, 2)] {
        let shape = [2, query, key];
        cases.push(case(format!("causal_mask {shape:?}"), &[&shape], anywhere, |g, x| {
            let masked = causal_mask(g, x[0])?;
            softmax(g, masked, 2)
        }));
        for causal in [false, true] {
            let name = format!("scaled_masked_softmax {shape:?} causal={causal}");
            cases.push(case(name, &[&shape], anywhere, move |g, x| scaled_masked_softmax(g, x[0], 0.7, causal)));
            for (heads, key_heads) in [(2, 2), (4, 2)] {
                let query_shape = [2, heads, query, 3];
                let key_shape = [2, key_heads, key, 3];
                let name = format!("attention {query_shape:?} {key_shape:?} causal={causal}");
                let spec = AttentionSpec { scale: 0.6, causal };
                let build = move |g: &mut Graph, x: &[Value]| attention(g, x[0], x[1], x[2], spec);
                cases.push(case(name, &[&query_shape, &key_shape, &key_shape], anywhere, build));
            }
        }
    }
    for shape in [&[3, 5][..], &[2, 2, 3], &[4, 1]] {
        let width = [shape[shape.len() - 1]];
        cases.push(case(format!("layer_norm {shape:?}"), &[shape, &width, &width], anywhere, |g, x| {
            layer_norm(g, x[0], x[1], x[2], 1e-5)
        }));
    }
    cases.push(case("embedding", &[&[5, 3]], anywhere, |g, x| {
        let tokens = input(g, "words", TensorType::words([2, 4]))?;
        embedding(g, x[0], tokens)
    }));
    cases.push(case("cross_entropy", &[&[8, 5]], anywhere, |g, x| {
        let targets = input(g, "words", TensorType::words([8]))?;
        Ok(cross_entropy(g, x[0], targets)?.mean)
    }));
    cases
}

/// What `words` inputs hold; the last two targets are ignored ones where the op has such.
fn words(name: &str) -> Vec<u32> {
    match name {
        "cross_entropy" => vec![0, 3, 4, 3, 1, 2, u32::MAX, u32::MAX],
        _ => vec![0, 3, 4, 3, 1, 3, 0, 4],
    }
}

/// The loss and the gradients of one case, on a planned tape.
fn run(case: &Case, values: &[Vec<f64>], with_gradients: bool) -> (f64, Vec<Vec<f64>>) {
    let mut graph = Graph::new();
    let inputs: Vec<Value> = case
        .shapes
        .iter()
        .enumerate()
        .map(|(index, shape)| input(&mut graph, &format!("x{index}"), TensorType::real(shape.clone())).unwrap())
        .collect();
    let output = (case.build)(&mut graph, &inputs).unwrap();
    let weights = TensorType::real(graph.shape(output).to_vec());
    let weights = input(&mut graph, "weights", weights).unwrap();
    let product = multiply(&mut graph, output, weights).unwrap();
    let count: usize = graph.shape(product).iter().product();
    let flat = reshape(&mut graph, product, &[count]).unwrap();
    let loss = reduce(&mut graph, flat, 0, Reduction::Sum).unwrap();
    let mut wanted = vec![loss];
    if with_gradients {
        wanted.extend(differentiate(&mut graph, loss, &inputs).unwrap());
    }

    let mut tape = TapeBuilder::new(None, Reuse::Pooled);
    let mut leaves = HashMap::new();
    let mut filled = Vec::new();
    for (node, described) in graph.nodes.iter().enumerate().filter(|(_, node)| node.op.name() == "input") {
        let ty = &described.outputs[0];
        let kind = match ty.dtype {
            headlight::graph::Dtype::Real => ElementKind::Real,
            headlight::graph::Dtype::Words => ElementKind::Words,
        };
        let buffer = tape.persistent(&described.label, ty.elements().unwrap(), kind, Category::Input);
        leaves.insert(Value { node, output: 0 }, buffer);
        filled.push((described.label.clone(), buffer, ty.elements().unwrap() as usize));
    }
    let results: Vec<usize> = wanted
        .iter()
        .map(|&value| {
            tape.persistent("result", graph.ty(value).elements().unwrap(), ElementKind::Real, Category::Workspace)
        })
        .collect();
    let roots: Vec<_> = wanted.into_iter().zip(results.iter().copied().map(Some)).collect();
    tape.begin_segment("case");
    tape.lower(&graph, &leaves, &roots).unwrap();
    let executor = CpuExecutor::<f64>::new(tape.finish().unwrap()).unwrap();
    let mut given = values.iter();
    for (label, buffer, count) in filled {
        match label.as_str() {
            "words" => executor.write_words(buffer, &words(&case.name)).unwrap(),
            "weights" => {
                let weights: Vec<f64> = normal(9, 99, count, 1.0).into_iter().map(f64::from).collect();
                executor.write(buffer, &weights).unwrap();
            }
            _ => executor.write(buffer, given.next().unwrap()).unwrap(),
        }
    }
    executor.run(0);
    let read = |&buffer: &usize| executor.read(buffer).unwrap();
    (read(&results[0])[0], results[1..].iter().map(read).collect())
}

#[test]
fn gradients_of_every_op_equal_central_differences() {
    const STEP: f64 = 1e-5;
    for case in cases() {
        let values: Vec<Vec<f64>> = case
            .shapes
            .iter()
            .enumerate()
            .map(|(index, shape)| {
                let count = shape.iter().product();
                normal(5, index as u64, count, 1.0).into_iter().map(|x| (case.domain)(f64::from(x))).collect()
            })
            .collect();
        let (_, gradients) = run(&case, &values, true);
        let mut largest = 0.0f64;
        for (tensor, gradient) in gradients.iter().enumerate() {
            for (index, &found) in gradient.iter().enumerate() {
                let moved = |by: f64| {
                    let mut moved = values.clone();
                    moved[tensor][index] += by;
                    run(&case, &moved, false).0
                };
                let expected = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
                let error = (found - expected).abs();
                // Written so that NaN fails.
                let close = error <= 1e-8 + 1e-6 * expected.abs();
                assert!(close, "{} x{tensor}[{index}]: {found} against {expected}", case.name);
                largest = largest.max(expected.abs());
            }
        }
        let flat = ["sign", "step", "less", "less_equal", "equal", "and", "or"];
        let is_flat = flat.iter().any(|name| case.name.split(' ').next() == Some(name));
        // Layer norm over one element does not depend on it; its bias still counts.
        assert_eq!(largest == 0.0, is_flat, "{}: no gradient at all", case.name);
    }
}

#[test]
fn a_power_of_two_tensors_has_no_gradient_and_says_so() {
    let mut graph = Graph::new();
    let x = input(&mut graph, "x", TensorType::real([1])).unwrap();
    let y = binary(&mut graph, x, x, Binary::PowerOf).unwrap();
    let error = differentiate(&mut graph, y, &[x]).unwrap_err();
    assert!(matches!(error, GraphError::NoGradient { .. }), "{error}");
}

#[test]
fn fused_and_naive_gradients_of_the_same_attention_agree() {
    for (heads, queries, keys, width) in [(1, 5, 5, 4), (2, 7, 7, 3), (3, 4, 9, 8), (2, 6, 3, 5)] {
        let shapes = [vec![2, heads, queries, width], vec![2, heads, keys, width], vec![2, heads, keys, width]];
        let values: Vec<Vec<f64>> = shapes
            .iter()
            .enumerate()
            .map(|(index, shape)| {
                normal(3, index as u64, shape.iter().product(), 1.0).into_iter().map(f64::from).collect()
            })
            .collect();
        let of = |rewrites: Option<Rewrites>| {
            let build = move |g: &mut Graph, x: &[Value]| {
                let transposed = transpose(g, x[1])?;
                let scores = matmul(g, x[0], transposed)?;
                let scaled = scale(g, scores, 0.5)?;
                let masked = causal_mask(g, scaled)?;
                let weights = softmax(g, masked, 3)?;
                let output = matmul(g, weights, x[2])?;
                if let Some(rewrites) = rewrites {
                    let reports = rewrite(g, rewrites, &[]);
                    assert!(reports.iter().all(|report| report.outcome.is_ok()), "{reports:?}");
                }
                Ok(output)
            };
            let case =
                Case { name: "attention".into(), shapes: shapes.to_vec(), domain: anywhere, build: Box::new(build) };
            run(&case, &values, true)
        };
        let written = of(None);
        for rewrites in [Rewrites::Naive, Rewrites::Fused] {
            let (loss, gradients) = of(Some(rewrites));
            assert!((loss - written.0).abs() <= 1e-12 * written.0.abs().max(1.0));
            for (found, expected) in gradients.iter().flatten().zip(written.1.iter().flatten()) {
                assert!((found - expected).abs() <= 1e-12 * (1.0 + expected.abs()), "{found} against {expected}");
            }
        }
    }
}
