//! What `headlight memory` prints and writes.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Map, Value, json};

use super::csv::quoted;
use crate::bench::units;
use crate::gpu::Profile;
use crate::graph::Recompute;
use crate::tape::Category;
use crate::train::memory::{Binding, Footprint, MemoryLimit};
use crate::train::settings::Settings;

/// One attention at one context length.
pub struct Column {
    pub attention: String,
    /// In the order of [`Category::ALL`].
    pub bytes: [u64; Category::ALL.len()],
    /// `None` where no u64 counts them.
    pub total: Option<u64>,
    pub binding: Binding,
    /// Why the attention runs as written; `None` where it was rewritten as asked.
    pub as_written: Option<String>,
    /// What a step really made.
    pub measured: Option<u64>,
    /// The most memory of the process meanwhile.
    pub peak_resident: Option<u64>,
}

/// All attentions at one context length.
pub struct Row {
    pub context_length: usize,
    pub columns: Vec<Column>,
}

/// How far an attention can go.
pub struct Fits {
    pub attention: String,
    pub largest: Option<u64>,
    /// The next length and why it does not fit; `None` where the longest that is looked at does.
    pub next: Option<(u64, String)>,
}

impl Column {
    pub fn new(attention: String, footprint: &Footprint, binding: Binding) -> Self {
        let bytes = Category::ALL.map(|category| footprint.bytes(category));
        let (total, as_written) = (footprint.total(), footprint.as_written.clone());
        Self { attention, bytes, total, binding, as_written, measured: None, peak_resident: None }
    }

    fn of(&self, category: Category) -> u64 {
        Category::ALL.iter().zip(&self.bytes).find(|&(&own, _)| own == category).map_or(0, |(_, &bytes)| bytes)
    }
}

/// The files of `--out`, created before anything is computed.
pub struct Files {
    pub json: PathBuf,
    pub csv: PathBuf,
}

impl Files {
    /// Makes the directory and the files.
    ///
    /// # Errors
    /// A place that cannot be written to.
    pub fn create(directory: &Path) -> anyhow::Result<Self> {
        let failed = || format!("cannot write into {}", directory.display());
        std::fs::create_dir_all(directory).with_context(failed).map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let [json, csv] = ["memory.json", "memory.csv"].map(|name| directory.join(name));
        for file in [&json, &csv] {
            std::fs::File::create(file)
                .with_context(|| format!("cannot write {}", file.display()))
                .map_err(|error| anyhow::anyhow!("{error:#}"))?;
        }
        Ok(Self { json, csv })
    }
}

/// What is looked at and on what, and what is counted.
pub fn heading(
    settings: &Settings,
    vocabulary_size: usize,
    device: &str,
    profile: Option<&Profile>,
    memory: Option<MemoryLimit>,
) -> String {
    let Settings { preset, layers, heads, width, batch, accumulation, recompute, .. } = settings;
    let mut text = format!(
        "training {}: {layers} layers, {heads} heads, {width} wide, {vocabulary_size} tokens known, batch {batch} x \
         {accumulation}, {}\n{device}\n",
        preset.name(),
        match recompute {
            Recompute::None => "nothing computed again",
            Recompute::Attention => "scores and weights computed again",
            Recompute::Block => "blocks computed again",
        }
    );
    let mut limits = Vec::new();
    if let Some(profile) = profile {
        let limit = &profile.limits;
        limits.push(format!("{} bytes a binding, {} a buffer", limit.binding_bytes, limit.buffer_bytes));
    }
    if let Some(MemoryLimit { bytes, source }) = memory {
        limits.push(format!("{bytes} bytes of memory {source}"));
    }
    if !limits.is_empty() {
        let _ = writeln!(text, "limits: {}", limits.join(", "));
    }
    text.push_str(
        "bytes of every buffer that a run makes; all are made before the first step, so the total is the peak\n",
    );
    text
}

/// The table of one context length.
pub fn row(row: &Row) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_row(&mut text, row);
    text
}

/// The width of a column's numbers.
const WIDTH: usize = 14;

fn write_row(text: &mut String, row: &Row) -> std::fmt::Result {
    let columns = &row.columns;
    write!(text, "{:<20}", format!("T = {}", row.context_length))?;
    for column in columns {
        write!(text, "{:>WIDTH$}", short(&column.attention))?;
    }
    let pair = match &columns[..] {
        [first, second] => Some([first, second]),
        _ => None,
    };
    match pair {
        Some([first, second]) => {
            writeln!(text, "   {} / {}", short(&first.attention), short(&second.attention))?;
        }
        None => writeln!(text)?,
    }
    for (at, category) in Category::ALL.into_iter().enumerate() {
        write!(text, "  {:<18}", category.name())?;
        for column in columns {
            write!(text, "{:>WIDTH$}", units::bytes(column.bytes[at]))?;
        }
        writeln!(text)?;
    }
    write!(text, "  {:<18}", "total")?;
    for column in columns {
        write!(text, "{:>WIDTH$}", column.total.map_or("uncountable".into(), units::bytes))?;
    }
    if let Some([Some(first), Some(second)]) = pair.map(|pair| pair.map(|column| column.total)) {
        write!(text, "   {}", units::ratio(first as f64 / second as f64))?;
    }
    writeln!(text)?;
    for column in columns {
        let Column { attention, total, binding, as_written, measured, peak_resident, .. } = column;
        let total = total.map_or("more than 64 bits count".into(), |total| total.to_string());
        match binding {
            Binding::Whole => write!(text, "  {attention}: {total} bytes, one binding a buffer")?,
            Binding::Windows { buffers, largest } => {
                write!(
                    text,
                    "  {attention}: {total} bytes, {buffers} buffers bound in windows, the largest {largest}"
                )?;
            }
            Binding::Refused(refusal) => write!(text, "  {attention}: {total} bytes, refused: {refusal}")?,
        }
        writeln!(text)?;
        let indent = " ".repeat(attention.chars().count() + 4);
        if let Some(reason) = as_written {
            writeln!(text, "{indent}runs as written: {reason}")?;
        }
        if let Some(measured) = measured {
            writeln!(text, "{indent}a step was run: {measured} bytes were made")?;
        }
        if let Some(peak) = peak_resident {
            let peak = units::bytes(*peak);
            writeln!(text, "{indent}{peak} resident at most: buffers, program, driver and shader compiler together")?;
        }
    }
    Ok(())
}

/// An attention's name where there is little room: the end of a path tells most.
fn short(attention: &str) -> String {
    let name = attention.rsplit(['/', ':']).next().unwrap_or(attention);
    let excess = name.chars().count().saturating_sub(WIDTH - 1);
    name.chars().skip(excess).collect()
}

/// What was seen: growth between the two longest lengths, and how far each attention can go.
pub fn ending(rows: &[Row], fits: &[Fits]) -> String {
    let mut text = String::new();
    let mut by_length: Vec<&Row> = rows.iter().collect();
    by_length.sort_by_key(|row| row.context_length);
    if let [.., shorter, longer] = by_length[..] {
        let mut grown = Vec::new();
        for (before, after) in shorter.columns.iter().zip(&longer.columns) {
            let grew = |category: Category, name: &str| {
                let (before, after) = (before.of(category), after.of(category));
                (before > 0 && after > 0)
                    .then(|| format!("{name} grew {}", units::growth(after as f64 / before as f64)))
            };
            let attention = short(&before.attention);
            let scores = grew(Category::AttentionScores, &format!("the scores of {attention}"));
            let state = grew(Category::LogSumExp, &format!("the log-sum-exp of {attention}"));
            grown.extend(scores.or(state));
        }
        if !grown.is_empty() {
            let (from, to) = (shorter.context_length, longer.context_length);
            let _ = writeln!(text, "from T={from} to {to} {}", grown.join(", "));
        }
    }
    for Fits { attention, largest, next } in fits {
        let largest = match largest {
            Some(largest) => format!("the largest T that fits is {largest}"),
            None => "no T fits".into(),
        };
        let _ = match next {
            Some((next, reason)) => writeln!(text, "{attention}: {largest}; at {next}: {reason}"),
            None => writeln!(text, "{attention}: {largest}, the longest that is looked at"),
        };
    }
    text.trim_end().to_string()
}

/// A category as a key.
fn key(category: Category) -> String {
    format!("{}_bytes", category.name().replace([' ', '-'], "_"))
}

fn binding_word(binding: &Binding) -> &'static str {
    match binding {
        Binding::Whole => "one binding",
        Binding::Windows { .. } => "in windows",
        Binding::Refused(_) => "refused",
    }
}

/// The rows as JSON.
pub fn json(settings: &Settings, vocabulary_size: usize, adapter: &str, rows: &[Row], fits: &[Fits]) -> String {
    let columns = rows.iter().flat_map(|row| row.columns.iter().map(move |column| (row.context_length, column)));
    let rows: Vec<Value> = columns
        .map(|(context_length, column)| {
            let mut predicted = Map::new();
            for (category, &bytes) in Category::ALL.into_iter().zip(&column.bytes) {
                predicted.insert(key(category), bytes.into());
            }
            predicted.insert("total_bytes".into(), json!(column.total));
            let refusal = match &column.binding {
                Binding::Refused(refusal) => Some(refusal.to_string()),
                _ => None,
            };
            json!({
                "context_length": context_length,
                "attention": column.attention,
                "predicted": predicted,
                "binding": binding_word(&column.binding),
                "refusal": refusal,
                "as_written": column.as_written,
                "measured_bytes": column.measured,
                "peak_resident_bytes": column.peak_resident,
            })
        })
        .collect();
    let fits: Vec<Value> = fits
        .iter()
        .map(|fits| json!({ "attention": fits.attention, "largest_context_length": fits.largest }))
        .collect();
    let Settings { preset, layers, heads, width, batch, accumulation, recompute, .. } = settings;
    let whole = json!({
        "preset": preset,
        "layers": layers,
        "heads": heads,
        "width": width,
        "vocabulary_size": vocabulary_size,
        "batch": batch,
        "accumulation": accumulation,
        "recompute": recompute,
        "adapter": adapter,
        "rows": rows,
        "fits": fits,
    });
    format!("{whole:#}\n")
}

/// The rows as CSV.
pub fn csv(rows: &[Row]) -> String {
    let mut text = format!(
        "context_length,attention,{},total_bytes,binding,measured_bytes,peak_resident_bytes,refusal\n",
        Category::ALL.map(key).join(",")
    );
    for row in rows {
        for column in &row.columns {
            let optional = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
            let refusal = match &column.binding {
                Binding::Refused(refusal) => refusal.to_string(),
                _ => String::new(),
            };
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{}",
                row.context_length,
                quoted(&column.attention),
                column.bytes.map(|bytes| bytes.to_string()).join(","),
                optional(column.total),
                binding_word(&column.binding),
                optional(column.measured),
                optional(column.peak_resident),
                quoted(&refusal),
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::memory::Refusal;

    fn column(attention: &str, scores: u64, log_sum_exp: u64, binding: Binding) -> Column {
        let bytes = Category::ALL.map(|category| match category {
            Category::AttentionScores => scores,
            Category::LogSumExp => log_sum_exp,
            _ => 0,
        });
        let total = Some(scores + log_sum_exp);
        let attention = attention.into();
        Column { attention, bytes, total, binding, as_written: None, measured: None, peak_resident: None }
    }

    fn rows() -> Vec<Row> {
        let limit = MemoryLimit { bytes: 5, source: "by --memory-limit" };
        let refused = Binding::Refused(Refusal::Memory { bytes: 4096, limit });
        [(1024, 4096, 256, refused), (512, 1024, 128, Binding::Whole)]
            .into_iter()
            .map(|(context_length, scores, state, binding)| Row {
                context_length,
                columns: vec![column("naive", scores, 0, binding), column("fused", 0, state, Binding::Whole)],
            })
            .collect()
    }

    #[test]
    fn growth_is_told_between_the_two_longest_lengths_whatever_their_order() {
        let fits = [
            Fits { attention: "naive".into(), largest: Some(1023), next: Some((1024, "it is too large".into())) },
            Fits { attention: "fused".into(), largest: Some(1 << 20), next: None },
        ];
        let text = ending(&rows(), &fits);
        assert_eq!(
            text,
            "from T=512 to 1024 the scores of naive grew 4.0x, the log-sum-exp of fused grew 2.0x\n\
             naive: the largest T that fits is 1023; at 1024: it is too large\n\
             fused: the largest T that fits is 1048576, the longest that is looked at"
        );
        assert_eq!(ending(&rows()[..1], &[]), "");
    }

    #[test]
    fn a_row_says_what_is_refused_and_by_which_limit() {
        let text = row(&rows()[0]);
        let refused = "naive: 4096 bytes, refused: it needs 4096 bytes in all and there are 5 by --memory-limit";
        assert!(text.contains(refused), "{text}");
        assert!(text.contains("fused: 256 bytes, one binding a buffer"), "{text}");
        assert!(text.contains("naive / fused") && text.contains("16.0x"), "{text}");
    }

    #[test]
    fn every_line_of_the_csv_has_as_many_fields_as_its_head() {
        let mut rows = rows();
        rows[1].columns[0].attention = "a,\"b\".star".into();
        let text = csv(&rows);
        let lines: Vec<&str> = text.lines().collect();
        let fields = |line: &str| {
            let mut inside = false;
            1 + line
                .chars()
                .filter(|&c| {
                    inside ^= c == '"';
                    c == ',' && !inside
                })
                .count()
        };
        assert_eq!(lines.len(), 5);
        assert!(lines.iter().all(|line| fields(line) == fields(lines[0])), "{text}");
        assert!(text.contains("\"a,\"\"b\"\".star\""), "{text}");
    }
}
