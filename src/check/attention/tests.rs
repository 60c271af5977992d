//! Every file that comes with the program, and what must be noticed of any.

use super::*;
use crate::script::{BUGS, GALLERY, REFERENCE, TraceHere, Tracer, builtin};

fn here() -> std::sync::Arc<dyn Tracer> {
    std::sync::Arc::new(TraceHere)
}

fn run(request: &Request<'_>) -> Report {
    pollster::block_on(check(request, &here(), &RunOn::Cpu)).unwrap_or_else(|error| panic!("{error}"))
}

fn request(script: &Script, seed: u64) -> Request<'_> {
    Request { script, against: None, seed, trace: true, planted: None }
}

fn script(body: &str) -> Script {
    let lines: Vec<String> = body.lines().map(|line| format!("    {line}")).collect();
    let head = "def attention(x, q, k, v, ops, cfg):\n    q = ops.split_heads(q, cfg.heads)\n    k = ops.split_heads(k, \
                cfg.heads)\n    v = ops.split_heads(v, cfg.heads)\n    n = q.shape[2]\n";
    Script { file: "mine.star".into(), source: format!("{head}{}\n", lines.join("\n")) }
}

fn kinds(report: &Report) -> Vec<Kind> {
    report.findings.iter().filter(|finding| finding.mistake).map(|finding| finding.kind).collect()
}

#[test]
fn every_bug_is_named_by_what_was_measured_of_it_whatever_the_seed() {
    use Kind::{
        Leaks, LooksAhead, MaskAfterSoftmax, MissingTranspose, NoRowMaximum, NotANumber, RefusesShapes, ScoresTooLarge,
        ScoresTooSmall, WrongAxis,
    };
    // With what the first line that departs says.
    let expected: &[(&str, &[Kind], &str, &str)] = &[
        ("infinity_times_zero", &[NotANumber], "-inf times 0 is not a number", "(1 - visible) * -math.inf"),
        (
            "leaks_one_token",
            &[LooksAhead, Leaks],
            "each position sees one position ahead: query ",
            "ops.where(visible, scores",
        ),
        ("mask_after_softmax", &[MaskAfterSoftmax, Leaks], "is the mask applied after the softmax?", "ops.softmax("),
        (
            "missing_transpose",
            &[RefusesShapes, MissingTranspose, Leaks],
            "the keys are not transposed",
            "ops.bmm(q, k)",
        ),
        ("no_row_maximum", &[NoRowMaximum], "does the softmax subtract the row maximum?", "ops.exp(scores)"),
        ("no_scale", &[ScoresTooLarge], "the scores are 8.0 times as large as q k^T / sqrt(d_head)", "ops.softmax("),
        ("scale_too_small", &[ScoresTooSmall], "too small by a factor of 512.0", "cfg.d_head * cfg.d_head"),
        ("wrong_axis", &[WrongAxis, Leaks], "columns sum to 1, and rows to ", "ops.softmax("),
    ];
    assert_eq!(expected.len(), BUGS.len());
    for &(name, mistakes, sentence, departing) in expected {
        let script = builtin(&format!("bugs/{name}")).unwrap().script();
        for seed in [1337, 0, 99] {
            let report = run(&request(&script, seed));
            assert!(!report.passed, "{name}");
            assert_eq!(kinds(&report), mistakes, "{name} {:?}", report.findings);
            let said = report.findings.iter().any(|finding| finding.sentence.contains(sentence));
            assert!(said, "{name}: {:?}", report.findings);
            let departure = report.trace.and_then(|trace| trace.departure);
            let line = departure.and_then(|departure| script.source.lines().nth(departure.line as usize - 1));
            assert!(line.is_some_and(|line| line.contains(departing)), "{name}: {line:?}");
        }
    }
}

#[test]
fn the_reference_passes_with_nothing_to_say_and_uses_little_of_its_tolerance() {
    for seed in 0..6 {
        let report = run(&request(&REFERENCE.script(), seed));
        assert!(report.passed && report.findings.is_empty(), "{report:?}");
        assert_eq!((report.rows.len(), report.inputs), (8, 13));
        assert_eq!(report.trace.unwrap().departure, None);
        for row in &report.rows {
            assert!(row.worst.share() < 0.25, "{row:?}");
        }
    }
}

#[test]
fn what_differs_on_purpose_is_told_to_differ_and_not_to_be_wrong() {
    for (name, differs, sentence) in [
        ("alibi", true, "follow no product alone"),
        ("cosine", true, "follow no product alone; q k^T explains 9"),
        ("learned_temperature", false, ""),
        ("no_projection", true, "the scores are x x^T, not q k^T"),
        ("relu", true, "rows sum to 0 to "),
        ("shared_qk", true, "the scores are q q^T, not q k^T"),
        ("window", true, "the last row gives weight to 16 keys of 64"),
    ] {
        let report = run(&request(&builtin(name).unwrap().script(), 1337));
        assert_eq!(report.passed, !differs, "{name}");
        assert_eq!(kinds(&report), [], "{name} {:?}", report.findings);
        assert!(!differs || report.findings.iter().any(|finding| finding.sentence.contains(sentence)), "{name}");
        assert_eq!(report.trace.unwrap().departure.is_some(), differs, "{name}");
    }
    assert_eq!(GALLERY.len(), 7);
}

/// A function, the mistakes that are found, what is said, and what is not.
type Sentences<'a> = (String, &'a [Kind], &'a [&'a str], &'a [&'a str]);

/// What was not named once, and what was accused in vain.
#[test]
fn plain_mistakes_are_named_from_measurement_and_their_line_is_told() {
    use Kind::{
        DependsOnOther, Differs, Leaks, LooksAhead, NoSoftmax, NotANumber, NotItself, PlainAverage, RowsMix,
        ScoresNegated, ScoresTooLarge, ScoresTooSmall, WeightsTransposed, WrongAxis,
    };
    let scores = "s = ops.causal_mask(ops.bmm(q, k, transpose_b=True) / math.sqrt(cfg.d_head))";
    let rest = "return ops.merge_heads(ops.bmm(ops.softmax(s), v))";
    let out = format!("{scores}\ny = ops.merge_heads(ops.bmm(ops.softmax(s), v))");
    let scaled = |by: &str| format!("s = ops.causal_mask(ops.bmm(q, k, transpose_b=True) {by})\n{rest}");
    let masked = |mask: &str| {
        format!("s = ops.bmm(q, k, transpose_b=True) / math.sqrt(cfg.d_head)\ns = ops.where({mask}, s, -1e9)\n{rest}")
    };
    let (row, column) = ("ops.row_index(n)", "ops.column_index(n)");
    let table: Vec<Sentences<'_>> = vec![
        (
            format!("{scores}\nreturn ops.merge_heads(ops.bmm(ops.softmax(s), k))"),
            &[DependsOnOther],
            &[
                "does not depend on v, although the reference does: what do the weights multiply?",
                "line 7 is the first that departs: bmm of (weights) and (k) is nothing",
            ],
            &["with 100"],
        ),
        (
            format!("{scores}\nreturn ops.merge_heads(ops.bmm(ops.softmax(s), ops.split_heads(x, cfg.heads)))"),
            &[],
            &["does not depend on v, although the reference does, and it depends on x", "bmm of (weights) and (x)"],
            &[],
        ),
        ("return x".into(), &[], &["on q and k and v, ", "what is returned is (x), and not the output"], &["strict"]),
        ("return x * 0.0".into(), &[DependsOnOther], &["on q and k and v, "], &["strict", "-0", "rows sum"]),
        (
            "s = ops.bmm(q, k, transpose_b=True) / math.sqrt(cfg.d_head)\n\
             return ops.merge_heads(ops.bmm(ops.causal_mask(s, fill=0.0), v))"
                .into(),
            &[NoSoftmax],
            &["weights are negative, down to -"],
            &["explains"],
        ),
        (
            format!("{scores}\nreturn ops.merge_heads(ops.bmm(ops.softmax(s, axis=1), v))"),
            &[WrongAxis],
            &["the softmax runs over the heads"],
            &[],
        ),
        (
            format!("{scores}\nreturn ops.merge_heads(ops.bmm(ops.softmax(s, axis=0), v))"),
            &[WrongAxis, RowsMix],
            &["the softmax runs over the batch"],
            &[],
        ),
        (scaled("* (1 // cfg.d_head)"), &[DependsOnOther, PlainAverage], &["multiplied by 0", "plain average"], &[]),
        (scaled("* -1 / math.sqrt(cfg.d_head)"), &[ScoresNegated], &["their sign is wrong"], &["divided", "average"]),
        (scaled("* math.sqrt(cfg.d_head)"), &[ScoresTooLarge], &["multiplied by sqrt(d_head) in the"], &["unknown"]),
        (scaled("/ math.sqrt(cfg.d)"), &[ScoresTooSmall], &["sqrt(d) of the whole model"], &["average", "unknown"]),
        (scaled("/ cfg.d_head"), &[ScoresTooSmall], &["divided by d_head", "nearly an average"], &["unknown"]),
        (scaled("* 1.5 / math.sqrt(cfg.d_head)"), &[ScoresTooLarge], &["what are they divided by?"], &["saturates"]),
        (
            format!("{scores}\nreturn ops.merge_heads(ops.bmm(ops.softmax(s), v, transpose_a=True))"),
            &[WeightsTransposed, Leaks],
            &["the weights are used transposed", "line 7 is the first"],
            &["swapped", "axis"],
        ),
        (
            masked(&format!("{column} < {row}")),
            &[NotItself, Leaks],
            &["position 0, which sees nothing, gives 0.01562 to each of all 64 keys"],
            &["Is there a causal mask"],
        ),
        (
            masked(&format!("({column} <= {row}) | ({column} < 4)")),
            &[LooksAhead, Leaks],
            &["it looks ahead by up to 3, from 3 of 64 queries"],
            &["off by"],
        ),
        (
            "s = ops.causal_mask(ops.bmm(q, v, transpose_b=True) / math.sqrt(cfg.d_head))\n\
             return ops.merge_heads(ops.bmm(ops.softmax(s), v))"
                .into(),
            &[],
            &["the scores are q v^T, not q k^T", "does not depend on k"],
            &["explains"],
        ),
        (format!("{out}\nreturn y + ops.roll(y, 1, axis=0)"), &[RowsMix], &["rows of the batch mix"], &[]),
        (format!("{out}\nreturn y + ops.sqrt(y * 0.0)"), &[NotANumber], &["line 8, sqrt: its gradient"], &[]),
        (format!("{out}\nreturn y / (y - y)"), &[NotANumber], &["line 8, div: the first infinity"], &[]),
        (format!("{out}\nreturn y + math.inf"), &[NotANumber], &["line 8, add: the first infinity"], &[]),
        (
            format!("{scores}\nw = ops.softmax(s) + 1e-6\nreturn ops.merge_heads(ops.bmm(w, v))"),
            &[Kind::NoMask, Leaks],
            &["rows sum to 1.0000640000"],
            &["1.0 to 1.0"],
        ),
        (
            "s = ops.causal_mask(ops.bmm(q, k, transpose_b=True) / math.sqrt(cfg.d_head))\n\
             return ops.reshape(ops.bmm(ops.softmax(s), v), x.shape)"
                .into(),
            &[Leaks],
            &["line 7 is the first that departs: reshape of (output) is nothing"],
            &[],
        ),
        (
            format!(
                "{scores}\nw = ops.softmax(s)\nreturn ops.merge_heads(ops.bmm(1.2 * w - 0.2 * ops.roll(w, 1, axis=1), v))"
            ),
            &[],
            &["weights are negative, down to -0."],
            &["is there a softmax"],
        ),
        (scaled("/ cfg.d"), &[ScoresTooSmall], &["divided by d, the width of the whole model"], &[]),
    ];
    let mut failures = Vec::new();
    for (body, mistakes, said, unsaid) in table {
        let report = run(&request(&script(&body), 5));
        let says = |words: &str| report.findings.iter().any(|finding| finding.sentence.contains(words));
        let named = report.findings.iter().any(|finding| finding.kind != Differs);
        let told = said.iter().all(|words| says(words)) && !unsaid.iter().any(|words| says(words));
        if report.passed || kinds(&report) != mistakes || !named || !told {
            failures.push(format!("{body}\n{mistakes:?} {said:?} {unsaid:?}\n{:#?}\n", report.findings));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn what_is_not_finite_and_reaches_nothing_is_not_accused() {
    let body = "s = ops.causal_mask(ops.bmm(q, k, transpose_b=True) / math.sqrt(cfg.d_head))\nr = ops.log(s - s - 1.0)\n\
                return ops.merge_heads(ops.bmm(ops.softmax(s), v))";
    let report = run(&request(&script(body), 5));
    assert!(report.passed, "{:?}", report.findings);
}

#[test]
fn keys_that_are_used_outside_of_the_scores_say_nothing_of_the_softmax() {
    let body = "s = ops.causal_mask(ops.bmm(q, k, transpose_b=True) / math.sqrt(cfg.d_head))\n\
                return ops.merge_heads(ops.bmm(ops.softmax(s), v) + 1e-3 * ops.exp(k))";
    let report = run(&request(&script(body), 5));
    assert_eq!((kinds(&report), report.shifted), (vec![], None));
}

/// Other ways to write the same function, and mistakes that no file shows.
#[test]
fn other_ways_to_be_right_pass_and_other_mistakes_are_named() {
    let rest = "return ops.merge_heads(ops.bmm(ops.softmax(s, axis=-1), v))";
    let scores = "s = ops.bmm(q, k, transpose_b=True) / math.sqrt(cfg.d_head)";
    for (body, mistakes, sentence) in [
        ("return ops.merge_heads(ops.attention(q, k, v))".to_string(), &[][..], ""),
        (format!("s = ops.causal_mask(ops.bmm(q / math.sqrt(cfg.d_head), ops.transpose(k), ))\n{rest}"), &[], ""),
        (
            // The row maximum by hand.
            format!(
                "{scores}\ns = ops.causal_mask(s)\ns = ops.exp(s - ops.max(s, axis=-1, keepdims=True))\n\
                 w = s / ops.sum(s, axis=-1, keepdims=True)\nreturn ops.merge_heads(w @ v)"
            ),
            &[],
            "",
        ),
        (
            // Masked after the softmax, and made to sum to 1 again: the sums before saw the future.
            format!(
                "{scores}\nw = ops.where(ops.column_index(n) <= ops.row_index(n), ops.softmax(s), 0.0)\n\
                 return ops.merge_heads(w / ops.sum(w, axis=-1, keepdims=True) @ v)"
            ),
            &[Kind::Leaks],
            "leaks through rounding",
        ),
        (format!("{scores}\n{rest}"), &[Kind::NoMask, Kind::Leaks], "Is there a causal mask"),
        (format!("{scores}\ns = ops.causal_mask(s, fill=-9.0)\n{rest}"), &[Kind::NoMask, Kind::Leaks], "low enough?"),
        (
            format!("s = ops.bmm(k, q, transpose_b=True) / math.sqrt(cfg.d_head)\ns = ops.causal_mask(s)\n{rest}"),
            &[Kind::QueryAndKeySwapped],
            "queries and keys are swapped",
        ),
        (
            format!("{scores}\ns = ops.where(ops.column_index(n) < ops.row_index(n), s, -1e38)\n{rest}"),
            &[Kind::NotItself],
            "the mask is strict: no position but the first sees itself, and position 0 sees nothing",
        ),
        (
            format!("{scores}\ns = ops.where(ops.column_index(n) <= ops.row_index(n) + 3, s, -1e38)\n{rest}"),
            &[Kind::LooksAhead, Kind::Leaks],
            "sees 3 positions ahead",
        ),
        (
            // The wrong axis, masked behind it.
            format!(
                "{scores}\nw = ops.softmax(s, axis=-2)\nw = ops.where(ops.column_index(n) <= ops.row_index(n), w, 0.0)\n\
                 return ops.merge_heads(w @ v)"
            ),
            &[Kind::WrongAxis, Kind::Leaks],
            "the first column sums to 1",
        ),
        (
            // Two mistakes at once.
            format!("s = ops.bmm(q, k, transpose_b=True)\n{rest}"),
            &[Kind::NoMask, Kind::ScoresTooLarge, Kind::Leaks],
            "8.0 times",
        ),
    ] {
        let report = run(&request(&script(&body), 5));
        assert_eq!(kinds(&report), mistakes, "{body}\n{:?}", report.findings);
        assert_eq!(report.passed, mistakes.is_empty(), "{body} {:?}", report.rows);
        let said = sentence.is_empty() || report.findings.iter().any(|finding| finding.sentence.contains(sentence));
        assert!(said, "{body}\n{:?}", report.findings);
    }
}

#[test]
fn weights_are_what_counts_and_not_what_is_observed() {
    let body = "s = ops.bmm(q, k, transpose_b=True) / math.sqrt(cfg.d_head)\nw = ops.observe('weights', ops.softmax(s))\n\
                w = ops.where(ops.column_index(n) <= ops.row_index(n), w, 0.0)\nreturn ops.merge_heads(w @ v)";
    let report = run(&request(&script(body), 5));
    assert_eq!(kinds(&report), [Kind::MaskAfterSoftmax, Kind::Leaks]);
    assert!(report.findings.iter().any(|finding| finding.sentence.contains("observed as 'weights' is not")));
}

#[test]
fn a_gradient_that_is_one_percent_off_fails_and_only_in_its_row() {
    for tensor in ["output", "dq", "dk", "dv"] {
        let planted = Some(PlantedError { tensor, factor: 1.01 });
        let report = run(&Request { planted, ..request(&REFERENCE.script(), 3) });
        assert!(!report.passed);
        for row in &report.rows {
            assert_eq!(row.agrees, row.tensor != tensor, "{row:?}");
        }
    }
}

#[test]
fn two_functions_are_compared_with_each_other() {
    let reference = REFERENCE.script();
    for (name, agrees) in
        [("reference", true), ("bugs/no_row_maximum", true), ("bugs/no_scale", false), ("window", false)]
    {
        let other = builtin(name).unwrap().script();
        for (theirs, against) in [(&reference, &other), (&other, &reference)] {
            let report = run(&Request { against: Some(against), ..request(theirs, 3) });
            assert_eq!((report.passed, report.rows.len()), (agrees, 10), "{name}");
            assert!(report.findings.is_empty() && report.measured.is_none());
        }
    }
    // What both refuse is no difference; what one refuses is.
    let square = builtin("bugs/missing_transpose").unwrap().script();
    let report = run(&Request { against: Some(&square), ..request(&square, 3) });
    assert!(report.passed && report.inputs == 6, "{:?}", report.refusals);
    let report = run(&Request { against: Some(&square), ..request(&reference, 3) });
    assert_eq!((report.passed, report.refusals.len()), (false, 4));
    // A gradient that goes through x alone.
    let (of_x, of_q) = (script("return x"), script("return x + 0 * ops.merge_heads(q)"));
    let report = run(&Request { against: Some(&of_q), ..request(&of_x, 3) });
    assert!(report.passed, "{:?}", report.rows);
}

#[test]
fn a_script_that_runs_nowhere_is_an_error_with_its_place() {
    let broken = script("return ops.bmm(q, ops.transpose(v), transpose_b=True)");
    let error = pollster::block_on(check(&request(&broken, 0), &here(), &RunOn::Cpu)).unwrap_err().to_string();
    assert!(error.starts_with("mine.star:"), "{error}");
}

#[test]
fn functions_without_attention_are_measured_without_a_panic() {
    for body in ["return x", "return ops.merge_heads(v)", "return ops.merge_heads(q * 0)", "return x / (x - x)"] {
        let report = run(&request(&script(body), 0));
        assert!(!report.passed, "{body}");
    }
}
