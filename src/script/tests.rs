use super::*;
use crate::graph::{Graph, TensorType, print_graph};

fn sizes() -> TraceSizes {
    TraceSizes { batch: 4, length: 64, width: 256, heads: 16, context_length: 64, layers: 1 }
}

fn script(body: &str) -> Script {
    let lines: Vec<String> = body.lines().map(|line| format!("    {line}")).collect();
    Script { file: "mine.star".into(), source: format!("def attention(x, q, k, v, ops, cfg):\n{}\n", lines.join("\n")) }
}

fn trace(script: &Script) -> Result<Recording, String> {
    trace_here(script, &sizes()).map(|mut layers| layers.remove(0)).map_err(|error| error.to_string())
}

fn graph_text(script: &Script) -> String {
    let recording = trace(script).unwrap();
    let mut graph = Graph::new();
    let mut leaf =
        |name: &str, shape: &[usize]| crate::graph::ops::input(&mut graph, name, TensorType::real(shape)).unwrap();
    let [x, query, key, value] = ["x", "q", "k", "v"].map(|name| leaf(name, &[4, 64, 256]));
    let parameters: Vec<_> =
        recording.parameters.iter().map(|declared| leaf(&declared.name, &declared.shape)).collect();
    let replayed = replay(&mut graph, script, &recording, &Inputs { x, query, key, value }, &parameters).unwrap();
    print_graph(&graph, &[replayed.output])
}

#[test]
fn every_file_that_comes_with_the_program_is_traced_and_replayed() {
    for file in [REFERENCE].into_iter().chain(GALLERY).chain(BUGS) {
        let script = file.script();
        let sizes = TraceSizes { batch: 2, length: 16, width: 64, heads: 4, context_length: 16, layers: 2 };
        let layers = trace_here(&script, &sizes).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(layers.len(), 2);
        for recording in layers {
            let text = serde_json::to_string(&recording).unwrap();
            assert_eq!(serde_json::from_str::<Recording>(&text).unwrap(), recording, "{}", file.name);
            assert!(recording.observed.iter().any(|(name, _)| name == "weights"), "{}", file.name);
        }
    }
}

#[test]
fn operators_are_the_ops_that_they_stand_for() {
    for (operators, ops) in [
        ("return q + k", "return ops.add(q, k)"),
        ("return q - 2", "return ops.sub(q, 2)"),
        ("return 2 - q", "return ops.sub(2, q)"),
        ("return q * k / v", "return ops.div(ops.mul(q, k), v)"),
        ("return -q", "return ops.neg(q)"),
        ("return -q * 3", "return ops.scale(ops.neg(q), 3)"),
        ("return (q <= k) & (k < v)", "return ops.logical_and(ops.less_equal(q, k), ops.less(k, v))"),
        ("return (q >= k) | (k > v)", "return ops.logical_or(ops.greater_equal(q, k), ops.greater(k, v))"),
        ("return q == k", "return ops.equal(q, k)"),
        ("return q != k", "return ops.logical_not(ops.equal(q, k))"),
        ("return q @ ops.transpose(k) @ v", "return ops.matmul(ops.matmul(q, k, transpose_b=True), v)"),
        ("q += k\nq *= 0.5\nq -= v\nreturn q", "return ops.sub(ops.mul(ops.add(q, k), 0.5), v)"),
        ("q *= (k)\nq -= -(v) # -=\nreturn q", "return ops.sub(ops.mul(q, k), ops.neg(v))"),
        ("return q if not (cfg.d < 0 or None) else k", "return q"),
        ("if (cfg.d == 256) and not False:\n    q = -q\nelif q:\n    q = k\nreturn q", "return ops.neg(q)"),
        ("s = 'a @ b' # @\nreturn q if s == 'a @ b' else k", "return q"),
        ("return ops.add(q, b = k)", "return q + k"),
        ("return q if '%s-%d' % ('a', 7 % 4 % 2) == 'a-1' else k", "return q"),
        ("return ops.concat([q, k], axis=1) if 7 % 3 == 2 else q", "return q"),
    ] {
        assert_eq!(graph_text(&script(operators)), graph_text(&script(ops)), "{operators}");
    }
}

#[test]
fn a_mistake_is_told_with_its_place_and_what_would_be_right() {
    for (body, expected) in [
        (
            "q = ops.split_heads(q, 16)\nk = ops.split_heads(k, 16)\nreturn ops.bmm(q, k)",
            "mine.star:4:12: bmm: [4,16,64,16] x [4,16,64,16]: inner 16 and 64 differ; did you mean transpose_b=True?",
        ),
        ("return ops.softmx(q)", "mine.star:2:12: ops has no softmx; did you mean ops.softmax?"),
        (
            "return ops.split_heads(q, 3)",
            "mine.star:2:12: split_heads: 3 heads do not divide the width 256 of [4,64,256]",
        ),
        ("return ops.softmax(q, axis=3)", "mine.star:2:12: softmax: [4,64,256] has no axis 3; its axes are -3 to 2"),
        ("return ops.softmax(q, dim=3)", "mine.star:2:12: softmax: has no argument dim; it is ops.softmax(x, axis=-1)"),
        ("return ops.softmax()", "mine.star:2:12: softmax: x is missing; it is ops.softmax(x, axis=-1)"),
        ("return ops.scale(q, k)", "mine.star:2:12: scale: factor must be a number, got a tensor"),
        (
            "return q + ops.constant(1.0, [3])",
            "mine.star:2:12: add: [4,64,256] x [3]: shapes do not broadcast: dimension 2 is 256 and 3, equal sizes or 1 would do",
        ),
        (
            "return ops.split_heads(q, 4)",
            "mine.star:2:12: attention returned [4,4,64,64], wanted [B,T,d] = [4,64,256]; did you mean ops.merge_heads of it?",
        ),
        ("q + k", "mine.star: attention returned nothing: end it with return"),
        ("return 1", "mine.star: attention returned a int, wanted a tensor [B, T, d]"),
        ("return q + undefined", "mine.star:2:16: Variable `undefined` not found"),
        ("return q +", "mine.star:2:15: "),
        ("x = 1\nx = -k\nreturn x + q.size", "mine.star:4:16: Object of type `tensor` has no attribute `size`"),
        (
            "return ops.scale(q, float('nan'))",
            "mine.star:2:12: scale: factor: NaN is no constant; it is ops.scale(x, factor)",
        ),
        ("if q:\n    return q\nreturn k", "mine.star:2:8: a tensor has no values while the function is traced"),
        ("return q if not (q > 1) else k", "mine.star:2:22: a tensor has no values"),
        ("if cfg.d > 1 and q:\n    return q", "mine.star:2:22: a tensor has no values"),
        ("b = bool(q)\nreturn q", "mine.star: a tensor has no values"),
        ("return q % k", "mine.star:2:12: %: tensors have none; @ is the matrix product"),
        ("return q @ 2", "mine.star:2:12: matmul: b must be a tensor, got 2"),
        ("return q + None", "mine.star:2:12: +: one side is None"),
        ("return ops.reshape(q, None)", "mine.star:2:12: reshape: shape must be a list of whole numbers, got None"),
        (
            "return ops.reshape(q, [1 << 40])",
            "mine.star:2:12: reshape: shape: a list must hold tensors alone, or whole",
        ),
        ("return ops.softmax(q, axis=1 << 40)", "mine.star:2:12: softmax: axis is beyond 2^30"),
        (
            "return ops.reshape(q, [1, 1, 1, 1, 1, 1, 4, 64, 256])",
            "mine.star:2:12: reshape: the result has 9 dimensions",
        ),
        ("return ops.concat([q] * 60000)", "mine.star:2:12: concat: [4,64,15360000] has more than the "),
        ("return q / 0", "mine.star:2:12: div: division by 0"),
        (
            "return ops.reshape(q, [4, 5, -1])",
            "mine.star:2:12: reshape: [4,64,256] cannot become [4, 5, -1]: the numbers of elements differ",
        ),
        ("return ops.slice(q, 1, 64)", "mine.star:2:12: slice: 64 to 64 holds nothing of axis 1 of [4,64,256]"),
        ("return q * ops.parameter('c_attn', [256])", "mine.star:2:16: parameter: the model has a 'c_attn' of its own"),
        (
            "return q * ops.parameter('W', [256])",
            "mine.star:2:16: parameter: the name 'W' must begin with a small letter",
        ),
        (
            "a = ops.parameter('a', [256])\nreturn q * a * ops.parameter('a', [256])",
            "mine.star:3:20: parameter: 'a' is declared already",
        ),
        (
            "return q * ops.parameter('a', [256], init='big')",
            "mine.star:2:16: parameter: init is 'big': it may be a number, 'normal' or 'unit'",
        ),
        (
            "return q * ops.parameter('a', [256], init=math.inf)",
            "mine.star:2:16: parameter: init is inf: it must be finite",
        ),
        ("return q * math.sqrt(-1)", "mine.star:2:16: math.sqrt of -1 is no number"),
        (
            "return ops.constant(1.0, [70000, 70000])",
            "mine.star:2:12: constant: [70000,70000] has more than the 335544320 elements that are possible here",
        ),
        ("return q ** 2", "mine.star:2:"),
    ] {
        let error = trace(&script(body)).expect_err(body);
        assert!(error.starts_with(expected), "{body}\n  {error}\n  {expected}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn a_file_without_the_function_or_with_another_one_is_refused() {
    for (source, expected) in [
        ("", "mine.star: it defines no attention(x, q, k, v, ops, cfg)"),
        ("def Attention(x): pass", "mine.star: it defines Attention, wanted attention(x, q, k, v, ops, cfg)"),
        ("def attention(q, k, v): return q", "it is called as attention(x, q, k, v, ops, cfg)"),
        ("attention = 3", "mine.star: "),
        ("load('other.star', 'f')", "mine.star:1:1: "),
        ("def attention(x, q, k, v, ops, cfg):\n  return attention(x, q, k, v, ops, cfg)", "mine.star:2:10: "),
    ] {
        let file = Script { file: "mine.star".into(), source: source.into() };
        let error = trace(&file).expect_err(source);
        assert!(error.contains(expected), "{source}: {error}");
    }
}

#[test]
fn what_a_script_prints_and_observes_is_kept() {
    let body = "print('shape', q.shape, cfg.d_head)\nreturn ops.observe('weights', q) + ops.parameter('bias_of_mine', [256], init=0.5)";
    let recording = trace(&script(body)).unwrap();
    assert_eq!(recording.printed, ["shape (4, 64, 256) 16"]);
    assert_eq!(recording.observed, [("weights".to_string(), 1)]);
    assert_eq!(recording.parameters.len(), 1);
    assert_eq!((recording.parameters[0].line, recording.parameters[0].initial), (3, Initial::Constant(0.5)));
}
