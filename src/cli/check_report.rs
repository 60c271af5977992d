//! What `headlight check` prints.

use std::fmt::Write;

use crate::check::attention::{
    Along, Case, Causality, Extreme, Fit, LineTrace, Measures, Report, Row, SHIFT, Span, Stored, number, span_words,
};

/// What the second column ran on.
pub struct Column {
    pub on: String,
    pub is_adapter: bool,
}

/// The whole report as text, without a newline at its end.
pub fn print(report: &Report, column: &Column) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_report(&mut text, report, column);
    text.trim_end().to_string()
}

fn write_report(text: &mut String, report: &Report, column: &Column) -> std::fmt::Result {
    let reference = report.against.as_deref().unwrap_or("the closed form, softmax(q k^T / sqrt(d_head), causal) v");
    writeln!(text, "{} against {reference}", report.file)?;
    // Without an adapter the line that says so is a sentence of its own.
    let on = if column.is_adapter { &column.on } else { "the CPU executor, no adapter" };
    writeln!(text, "{} random inputs; f64 on the CPU executor, f32 on {on}", report.inputs)?;
    for line in report.printed.iter().flat_map(|printed| printed.lines()) {
        writeln!(text, "it prints: {line}")?;
    }
    if !report.parameters.is_empty() {
        writeln!(text, "its learned parameters have their initial values: {}", report.parameters.join(", "))?;
    }
    for fusion in &report.fusion {
        match fusion.fused {
            true => writeln!(text, "in f32 it runs fused, as one kernel: {}", fusion.words)?,
            false => writeln!(text, "in f32 it runs as written: {}", fusion.words)?,
        }
    }
    writeln!(text)?;
    table(text, report)?;
    for refusal in &report.refusals {
        writeln!(text, "refused at {}: {}", refusal.shape, refusal.error)?;
    }
    if let Some(measured) = &report.measured {
        writeln!(text)?;
        writeln!(text, "measured at {}", measured.case)?;
        match measured.source {
            Some(source) => writeln!(text, "weights: {}", source.words())?,
            None => writeln!(text, "weights: none were found; ops.observe('weights', ..) names them")?,
        }
        measures(text, measured.theirs.as_ref(), measured.reference.as_ref())?;
    }
    behaviour(text, report)?;
    if let Some(trace) = &report.trace {
        writeln!(text)?;
        lines(text, trace)?;
        if report.against.is_none() {
            departure(text, trace)?;
        }
    }
    writeln!(text)?;
    verdict(text, report)
}

fn table(text: &mut String, report: &Report) -> std::fmt::Result {
    let right = if report.against.is_some() { "other" } else { "reference" };
    writeln!(
        text,
        "{:<6}  {:<6}  {:<7}  {:>7}  {:>7}  {:>14}  {:>14}  at",
        "tensor", "stored", "", "largest", "allowed", "theirs", right
    )?;
    for row in &report.rows {
        let Row { tensor, stored, agrees, worst } = row;
        let stored = if *stored == Stored::F64 { "f64" } else { "f32" };
        let verdict = if *agrees { "agrees" } else { "DIFFERS" };
        let at = format!("[{},{},{}] of {}", worst.index[0], worst.index[1], worst.index[2], short(&worst.case));
        writeln!(
            text,
            "{tensor:<6}  {stored:<6}  {verdict:<7}  {:>7.1e}  {:>7.0e}  {:>14.7e}  {:>14.7e}  {at}",
            worst.relative, worst.allowed, worst.theirs, worst.reference
        )?;
    }
    writeln!(
        text,
        "largest: of all differences, over the largest value of the tensor; the case that comes closest to what is allowed"
    )
}

fn short(case: &Case) -> String {
    let shape = &case.shape;
    format!(
        "B{} T{} H{} d_head {} std {} seed {}",
        shape.batch, shape.length, shape.heads, shape.head_width, case.spread, case.seed
    )
}

/// A name, and how it is read off.
type MeasureRow<'a> = (&'a str, &'a dyn Fn(&Measures) -> String);

fn measures(text: &mut String, theirs: Option<&Measures>, reference: Option<&Measures>) -> std::fmt::Result {
    let span = |span: &Span| -> String {
        let place = |words: &str, extreme: &Extreme| format!("{words} (head {}, {})", extreme.head, extreme.line);
        if span.least.value == span.largest.value || span.is(span.least.value) {
            return number(span.least.value);
        }
        let [least, largest] = span_words(span.least.value, span.largest.value);
        if least == largest {
            return least;
        }
        format!("{} to {}", place(&least, &span.least), place(&largest, &span.largest))
    };
    let rows: [MeasureRow<'_>; 8] = [
        ("rows sum to", &|m| span(&m.row_sums)),
        ("columns sum to", &|m| span(&m.column_sums)),
        ("weight on the future, at most", &|m| match m.reach {
            0 => "0".into(),
            reach => format!(
                "{} (head {}, {} on {}), up to {reach} ahead",
                number(m.future.value),
                m.future.head,
                m.future.query,
                m.future.key
            ),
        }),
        ("weight on itself", &|m| span(&m.on_itself)),
        ("entropy / log(t+1) of row t", &|m| m.entropy.as_ref().map_or("rows are no distributions".into(), span)),
        ("keys with weight in the last row", &|m| m.keys_of_last_row.to_string()),
        ("scores are", &|m| match m.fit {
            Some(fit) if fit.is_exact() => {
                let down = if fit.along == Along::Columns { ", compared down the columns" } else { "" };
                format!("{} / sqrt(d_head) times {}{down}", fit.product.words(), number(fit.scale))
            }
            Some(fit) if Fit::is_near(&fit) => {
                format!("no product; {} explains {:.1}%", fit.product.words(), 100.0 * fit.quality)
            }
            Some(_) => "no product".into(),
            None => "unknown: no row has weights that differ".into(),
        }),
        ("rows that pass no gradient", &|m| match m.dead_rows {
            Some(dead) => format!(
                "{:.0}%, the worst {} (head {}, {})",
                100.0 * dead.share,
                number(dead.worst.value),
                dead.worst.head,
                dead.worst.line
            ),
            None => "unknown: 'weights' and 'scores' are not both observed".into(),
        }),
    ];
    let cell = |measures: Option<&Measures>, of: &dyn Fn(&Measures) -> String| measures.map_or("-".into(), of);
    writeln!(text, "{:<34} {:<50} reference", "", "theirs")?;
    for (name, of) in rows {
        writeln!(text, "{name:<34} {:<50} {}", cell(theirs, of), cell(reference, of))?;
    }
    Ok(())
}

fn behaviour(text: &mut String, report: &Report) -> std::fmt::Result {
    for Causality { case, stored, pairs, moved, reach, worst } in &report.causality {
        let stored = if *stored == Stored::F64 { "f64" } else { "f32" };
        let name = format!("outputs before a change, T={}, {stored}", case.shape.length);
        match worst {
            None if *pairs == 0 => writeln!(text, "{name:<34} cannot be told to move: they are not finite")?,
            None => writeln!(text, "{name:<34} do not move, in {pairs} pairs of positions")?,
            Some(leak) => writeln!(
                text,
                "{name:<34} MOVE in {moved} of {pairs} pairs of positions, up to {reach} ahead: position {} by {} when {} changes",
                leak.moved,
                number(leak.by),
                leak.changed
            )?,
        }
    }
    if let Some(found) = &report.through_model {
        let name = "the same through two layers";
        match found.sees_the_future() {
            false if !found.is_finite() => writeln!(text, "{name:<34} cannot be told to move: losses are no numbers")?,
            false => writeln!(text, "{name:<34} do not move, at {} positions of a model", found.probed)?,
            true => writeln!(
                text,
                "{name:<34} MOVE at {} of {} positions of a model when later tokens change",
                found.moved, found.probed
            )?,
        }
    }
    if let Some(shifted) = &report.shifted {
        let words = match (shifted.not_finite_wide, shifted.not_finite_narrow) {
            (0, 0) => format!(
                "the output moves by {} in f64, and f32 lies {} from f64",
                number(shifted.moved_wide),
                number(shifted.narrow_from_wide)
            ),
            (0, lost) => format!("{lost} of {} numbers are NOT FINITE in f32, all are in f64", shifted.elements),
            (lost, _) => format!("{lost} of {} numbers are NOT FINITE in f64", shifted.elements),
        };
        writeln!(text, "{:<34} {words}", format!("scores + {SHIFT}"))?;
    }
    Ok(())
}

fn lines(text: &mut String, trace: &LineTrace) -> std::fmt::Result {
    writeln!(text, "line by line at {}", trace.case)?;
    writeln!(
        text,
        "{:>4} {:<14} {:<14} {:>10} {:>10} {:>17} {:>17} {:>5}  is",
        "line", "op", "shape", "least", "largest", "rows sum to", "columns sum to", "NaN"
    )?;
    let sums = |sums: Option<[f64; 2]>| match sums {
        None => String::new(),
        Some([least, largest]) if (least - largest).abs() < 1e-9 => number(least),
        Some([least, largest]) => format!("{}..{}", number(least), number(largest)),
    };
    for line in &trace.lines {
        let shape = line.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        writeln!(
            text,
            "{:>4} {:<14} {:<14} {:>10} {:>10} {:>17} {:>17} {:>5}  {}",
            line.line,
            line.op,
            format!("[{shape}]"),
            number(line.least),
            number(line.largest),
            sums(line.row_sums),
            sums(line.column_sums),
            line.nan,
            line.equals.as_deref().unwrap_or("")
        )?;
    }
    writeln!(text, "is: the tensor of the closed form that a line equals; sums leave masked scores out")
}

fn departure(text: &mut String, trace: &LineTrace) -> std::fmt::Result {
    match &trace.departure {
        None => writeln!(text, "no line departs from the reference"),
        Some(departure) => writeln!(text, "{}", departure.words(SHIFT)),
    }
}

fn verdict(text: &mut String, report: &Report) -> std::fmt::Result {
    let other = report.against.as_deref().unwrap_or("the reference");
    if report.passed {
        for finding in &report.findings {
            writeln!(text, "note: {}", finding.sentence)?;
        }
        return writeln!(
            text,
            "PASSED: it agrees with {other} on {} random inputs, outputs and gradients. That is strong evidence, not proof.",
            report.inputs
        );
    }
    for finding in report.findings.iter().filter(|finding| finding.mistake) {
        writeln!(text, "WRONG: {}", finding.sentence)?;
    }
    for finding in report.findings.iter().filter(|finding| !finding.mistake) {
        writeln!(text, "differs: {}", finding.sentence)?;
    }
    let mistakes = report.findings.iter().any(|finding| finding.mistake);
    let tail = match () {
        () if report.against.is_some() => "",
        () if mistakes => ", by what is said above",
        () => "; nothing measured tells a mistake from a different function: --trace shows every line",
    };
    writeln!(text, "FAILED: it is not {other}{tail}")
}
