//! Rows of a bench as a table, as CSV and as JSON.

use std::fmt::Write;

use crate::bench::{Baseline, Ceilings, Report, Row, Speed, Verdict, units};

/// The columns of the CSV form.
pub const CSV_HEADER: &str = "bench,adapter,driver,backend,kind,shape,name,pass,clock,samples,repetitions,median_s,low_s,\
     high_s,lower_quartile_s,upper_quartile_s,first_s,launches,flops,bytes,gflop_per_s,gb_per_s,share_of_flops,\
     share_of_bytes,share,reason,note,speed_against_baseline,is_noise";

/// A row in the columns of [`CSV_HEADER`]; what is not known is empty.
pub fn csv(report: &Report, row: &Row) -> String {
    let on = &report.on;
    let mut fields: Vec<String> =
        [&report.bench, &on.adapter, &on.driver, &on.backend, &on.kind, &row.shape, &row.name, &row.pass]
            .map(|text| quoted(text))
            .into();
    let timing = row.timing.as_ref();
    let number = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
    fields.push(timing.map_or(String::new(), |timing| timing.clock.word().into()));
    fields.push(timing.map_or(String::new(), |timing| timing.seconds.samples.to_string()));
    fields.push(timing.map_or(String::new(), |timing| timing.repetitions.to_string()));
    let seconds = timing.map(|timing| &timing.seconds);
    fields.push(number(seconds.map(|seconds| seconds.median)));
    fields.push(number(seconds.map(|seconds| seconds.low)));
    fields.push(number(seconds.map(|seconds| seconds.high)));
    fields.push(number(seconds.map(|seconds| seconds.lower_quartile)));
    fields.push(number(seconds.map(|seconds| seconds.upper_quartile)));
    fields.push(number(timing.map(|timing| timing.first_seconds)));
    fields.extend([row.launches.to_string(), row.flops.to_string(), row.bytes.to_string()]);
    let rates = row.rates.as_ref();
    fields.push(number(rates.and_then(|rates| rates.flops).map(|flops| flops / 1e9)));
    fields.push(number(rates.and_then(|rates| rates.bytes).map(|bytes| bytes / 1e9)));
    fields.push(number(rates.and_then(|rates| rates.share_of_flops)));
    fields.push(number(rates.and_then(|rates| rates.share_of_bytes)));
    fields.push(number(row.share));
    fields.push(quoted(row.reason.as_deref().unwrap_or_default()));
    fields.push(quoted(row.note.as_deref().unwrap_or_default()));
    let speed = row.against_baseline;
    fields.push(number(speed.map(|speed| speed.ratio)));
    fields.push(speed.map_or(String::new(), |speed| speed.is_noise.to_string()));
    fields.join(",")
}

/// A text as a CSV field (RFC 4180, section 2), on one line.
fn quoted(text: &str) -> String {
    let line = text.replace(['\r', '\n'], " ");
    match line.contains([',', '"']) {
        true => format!("\"{}\"", line.replace('"', "\"\"")),
        false => line,
    }
}

/// A report as JSON: one object.
///
/// # Errors
/// None that a report can cause.
pub fn json(report: &Report) -> anyhow::Result<String> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    Ok(text)
}

/// What the adapter does at most, in a line.
pub fn ceilings(ceilings: &Ceilings) -> String {
    let giga = |rate: f64| figure(rate / 1e9);
    match (ceilings.flops, ceilings.bytes) {
        (Some(flops), Some(bytes)) => format!(
            "at most, as measured now: {} GFLOP/s (multiply-adds in registers), {} GB/s (a large copy, read and written)\n",
            giga(flops),
            giga(bytes)
        ),
        _ => "what it does at most was not measured: there are no shares\n".into(),
    }
}

/// Three digits.
fn figure(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 9.995 => format!("{value:.1}"),
        value if value >= 0.005 => format!("{value:.2}"),
        _ => "<0.01".into(),
    }
}

/// A column: its title and its texts, by row.
struct Column {
    title: &'static str,
    texts: Vec<String>,
}

impl Column {
    fn new(title: &'static str, rows: &[Row], text: impl Fn(&Row) -> Option<String>) -> Self {
        Self { title, texts: rows.iter().map(|row| text(row).unwrap_or_default()).collect() }
    }

    fn width(&self) -> usize {
        self.texts.iter().map(|text| text.chars().count()).chain([self.title.len()]).max().unwrap_or(0)
    }
}

fn percent(share: f64) -> String {
    format!("{:.0}%", 100.0 * share)
}

/// The first row of the same shape and pass: what the others are compared with.
fn first_of<'a>(rows: &'a [Row], row: &Row) -> Option<&'a Row> {
    rows.iter().find(|other| (&other.shape, &other.pass) == (&row.shape, &row.pass))
}

/// How many times as fast, with room for the mark of noise, so that digits stand under digits.
fn speed(speed: Speed) -> String {
    format!("{}{}", units::ratio(speed.ratio), if speed.is_noise { "~" } else { " " })
}

fn against_first(rows: &[Row], row: &Row) -> Option<String> {
    let first = first_of(rows, row)?;
    // The parts of a whole are no rivals.
    if first.key() == row.key() || row.share.is_some() {
        return None;
    }
    let (this, first) = (row.timing.as_ref()?, first.timing.as_ref()?);
    Some(Speed::of(this, first).map_or("other clock".into(), speed))
}

fn against_baseline(baseline: &Baseline, row: &Row) -> String {
    match baseline.verdict(row) {
        Verdict::Speed(Speed { ratio, is_noise: true }) => format!("{} noise", units::ratio(ratio)),
        Verdict::Speed(Speed { ratio, .. }) => units::ratio(ratio),
        Verdict::OtherClock => "other clock".into(),
        Verdict::NotMeasured => "not measured".into(),
        Verdict::Missing => "not in it".into(),
    }
}

/// Rows of one shape behind each other stand under its name. Columns that say nothing anywhere are left out.
pub fn table(rows: &[Row], baseline: Option<&Baseline>) -> String {
    let timed = |text: fn(&crate::bench::Timing) -> String| move |row: &Row| row.timing.as_ref().map(text);
    let rate = |of: fn(&crate::bench::report::Rates) -> Option<f64>| {
        move |row: &Row| row.rates.as_ref().and_then(of).map(|rate| figure(rate / 1e9))
    };
    let share = |of: fn(&crate::bench::report::Rates) -> Option<f64>| {
        move |row: &Row| row.rates.as_ref().and_then(of).map(percent)
    };
    let mut columns = vec![
        Column::new("median", rows, timed(|timing| units::seconds(timing.seconds.median))),
        Column::new("95%", rows, timed(|timing| format!("±{:.1}%", 100.0 * timing.seconds.relative_half_width()))),
        Column::new("spread", rows, timed(|timing| format!("{:.1}%", 100.0 * timing.seconds.spread()))),
        Column::new("n", rows, timed(|timing| timing.seconds.samples.to_string())),
        Column::new("clock", rows, timed(|timing| timing.clock.word().into())),
        Column::new("launches", rows, |row| row.share.map(|_| row.launches.to_string())),
        Column::new("share", rows, |row| row.share.map(|share| format!("{:.1}%", 100.0 * share))),
        Column::new("GFLOP/s", rows, rate(|rates| rates.flops)),
        Column::new("", rows, share(|rates| rates.share_of_flops)),
        Column::new("GB/s", rows, rate(|rates| rates.bytes)),
        Column::new("", rows, share(|rates| rates.share_of_bytes)),
        Column::new("first run", rows, |row| match row.share {
            None => row.timing.as_ref().map(|timing| units::seconds(timing.first_seconds)),
            Some(_) => None,
        }),
        Column::new("x", rows, |row| against_first(rows, row)),
    ];
    if let Some(baseline) = baseline {
        columns.push(Column::new("to baseline", rows, |row| Some(against_baseline(baseline, row))));
    }
    columns.retain(|column| column.texts.iter().any(|text| !text.is_empty()));
    let label = |row: &Row| format!("  {} {}", row.name, row.pass).trim_end().to_string();
    let labels = rows.iter().map(|row| label(row).chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut shape = None;
    for (index, row) in rows.iter().enumerate() {
        if shape != Some(&row.shape) {
            // A blank line between shapes, and the titles over each, so that a screen always shows some.
            let _ = writeln!(text, "{}{}", if shape.is_none() { "" } else { "\n" }, row.shape);
            let titles: String =
                columns.iter().map(|column| format!("  {:>1$}", column.title, column.width())).collect();
            let _ = writeln!(text, "{}", format!("{:labels$}{titles}", "").trim_end());
            shape = Some(&row.shape);
        }
        let _ = match &row.reason {
            Some(reason) => writeln!(text, "{:labels$}  n/a: {reason}", label(row)),
            None => {
                let fields: String =
                    columns.iter().map(|column| format!("  {:>1$}", column.texts[index], column.width())).collect();
                writeln!(text, "{}", format!("{:labels$}{fields}", label(row)).trim_end())
            }
        };
        if let Some(note) = &row.note {
            let _ = writeln!(text, "    {note}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::{report, row};

    #[test]
    fn a_table_tells_shape_clock_interval_rates_and_how_fast_each_is_beside_the_first() {
        let refused = Row::without_time("B=1 H=1 T=9 D=4", "naive", "forward", "it needs 3 bytes, there are 2".into());
        let noted = Row { note: Some("not fused: line 3".into()), ..row("mine.star", "forward", 0.004) };
        let rows = [
            row("naive", "forward", 0.002),
            row("fused", "forward", 0.001),
            noted,
            row("naive", "backward", 0.002),
            row("fused", "backward", 0.00201),
            refused,
        ];
        insta::assert_snapshot!(table(&rows, None), @"
        B=1 H=1 T=8 D=4
                              median    95%  spread   n  clock  GFLOP/s       GB/s        first run       x
          naive forward      2.00 ms  ±2.0%    4.0%  10   wall     2.00  12%  0.50   50%     250 ms
          fused forward      1.00 ms  ±2.0%    4.0%  10   wall     4.00  25%  1.00  100%     250 ms  2.00x
          mine.star forward  4.00 ms  ±2.0%    4.0%  10   wall     1.00   6%  0.25   25%     250 ms  0.50x
            not fused: line 3
          naive backward     2.00 ms  ±2.0%    4.0%  10   wall     2.00  12%  0.50   50%     250 ms
          fused backward     2.01 ms  ±2.0%    4.0%  10   wall     1.99  12%  0.50   50%     250 ms  1.00x~

        B=1 H=1 T=9 D=4
                              median    95%  spread   n  clock  GFLOP/s       GB/s        first run       x
          naive forward      n/a: it needs 3 bytes, there are 2
        ");
    }

    #[test]
    fn a_baseline_has_a_column_that_says_what_is_noise_and_what_has_no_partner() {
        let earlier = report(vec![row("naive", "forward", 0.004), row("fused", "forward", 0.00101)]);
        let baseline = Baseline { file: "old.json".into(), report: earlier };
        let rows = [row("naive", "forward", 0.002), row("fused", "forward", 0.001), row("fused", "both", 0.001)];
        let text = table(&rows, Some(&baseline));
        let ends: Vec<&str> = text.lines().skip(2).map(|line| line.rsplit("  ").next().unwrap().trim()).collect();
        assert_eq!(ends, ["2.00x", "1.01x noise", "not in it"], "{text}");
    }

    #[test]
    fn the_parts_of_a_whole_have_shares_and_are_no_rivals() {
        let part = |name: &str, share| Row { share: Some(share), ..row(name, "", 0.001) };
        let text = table(&[part("step", 1.0), part("matmul/tiled", 0.5), part("fill/vec4", 0.001)], None);
        assert!(text.contains("launches   share") && text.contains("  50.0%") && text.contains("   0.1%"), "{text}");
        assert!(!text.contains('x') && !text.contains("first run"), "{text}");
    }

    #[test]
    fn every_csv_line_has_the_fields_of_the_header_and_quotes_what_must_be() {
        let refused = Row::without_time("query, key NN 1x2x3", "a \"b\"", "", "one\ntwo".into());
        let report = report(vec![row("naive", "forward", 0.002), refused]);
        let lines: Vec<String> = report.rows.iter().map(|row| csv(&report, row)).collect();
        let columns = CSV_HEADER.split(',').count();
        assert_eq!(lines[0].split(',').count(), columns, "{}", lines[0]);
        assert!(
            lines[0].starts_with("attention,WebGPU defaults,,none,GPU,B=1 H=1 T=8 D=4,naive,forward,wall,10,1,0.002,")
        );
        assert_eq!(lines[1].split(',').count(), columns + 1, "{}", lines[1]);
        assert!(lines[1].contains(",\"query, key NN 1x2x3\",\"a \"\"b\"\"\",,,,"), "{}", lines[1]);
        assert!(lines[1].ends_with(",one two,,,"), "{}", lines[1]);
    }

    #[test]
    fn figures_have_three_digits_and_small_ones_are_not_nothing() {
        for (value, text) in
            [(1234.5, "1234"), (99.96, "100"), (12.345, "12.3"), (9.999, "10.0"), (0.5, "0.50"), (0.004, "<0.01")]
        {
            assert_eq!(figure(value), text);
        }
    }
}
