//! What all benches do around their rows: the device, its ceilings, the files, the baseline, an interruption.

use std::fs::{File, OpenOptions};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};

use super::bench::{CommonArguments, Format};
use super::bench_table;
use super::device::open;
use super::output::{printable_lines, put, warn};
use super::{Outcome, interrupt};
use crate::atomic::{append_line, read_bounded, write_file};
use crate::bench::{Baseline, Ceilings, Limits, MeasuredOn, Report, Row};
use crate::gpu::{Choice, Gpu};

/// The largest report that is read.
const REPORT_LIMIT: u64 = 64 << 20;
/// The longest line that is printed.
const LINE: usize = 1000;

/// A bench under way.
pub struct Session {
    pub gpu: Option<Arc<Gpu>>,
    pub limits: Limits,
    pub report: Report,
    format: Format,
    baseline: Option<Baseline>,
    files: Option<Files>,
    interrupted: Arc<AtomicBool>,
}

/// The files of `--out`.
struct Files {
    json: PathBuf,
    csv: PathBuf,
    appended: File,
}

impl Files {
    /// Makes the directory and both files, so that a place that cannot be written to is refused before the long run.
    fn create(directory: &Path, report: &Report) -> anyhow::Result<Self> {
        let one_line = |error: anyhow::Error| anyhow::anyhow!("{error:#}");
        let failed = || format!("cannot make the directory {}", directory.display());
        std::fs::create_dir_all(directory).with_context(failed).map_err(one_line)?;
        let [json, csv] = ["json", "csv"].map(|ending| directory.join(format!("bench-{}.{ending}", report.bench)));
        write_file(&json, bench_table::json(report)?.as_bytes())?;
        let failed = || format!("cannot write {}", csv.display());
        let created = OpenOptions::new().write(true).create(true).truncate(true).open(&csv);
        let mut appended = created.with_context(failed).map_err(one_line)?;
        append_line(&mut appended, &csv, bench_table::CSV_HEADER)?;
        Ok(Self { json, csv, appended })
    }

    /// Takes in the rows from `first` on. The JSON file is replaced whole: it can be read at any moment.
    fn write(&mut self, report: &Report, first: usize) -> anyhow::Result<()> {
        for row in &report.rows[first..] {
            append_line(&mut self.appended, &self.csv, &bench_table::csv(report, row))?;
        }
        Ok(write_file(&self.json, bench_table::json(report)?.as_bytes())?)
    }
}

fn read_baseline(path: &Path, bench: &str) -> anyhow::Result<Baseline> {
    let file = path.display().to_string();
    let bytes = read_bounded(path, REPORT_LIMIT)?;
    let Ok(text) = String::from_utf8(bytes) else { bail!("{file}: it is not UTF-8") };
    Ok(Baseline::parse(&file, &text, bench)?)
}

impl Session {
    /// Reads the baseline, opens the device, creates the files, and measures what the adapter does at most.
    ///
    /// # Errors
    /// A baseline that is none, a device that is not there, a directory that cannot be written to.
    pub async fn open(
        common: &CommonArguments,
        bench: &str,
        (device, seed, out): (&Choice, u64, Option<&Path>),
    ) -> anyhow::Result<Self> {
        let baseline = common.baseline.as_deref().map(|path| read_baseline(path, bench)).transpose()?;
        let (gpu, line) = open(device).await?;
        let report = Report::new(bench, MeasuredOn::new(gpu.as_ref().map(|gpu| &gpu.profile)), seed);
        let files = out.map(|directory| Files::create(directory, &report)).transpose()?;
        let interrupted = interrupt::listen("the rows that are there come now")?;
        let (format, limits) = (common.format, common.limits());
        let mut session = Self { gpu, limits, report, format, baseline, files, interrupted };
        if let Some(gpu) = &session.gpu {
            session.progress("measuring what the adapter does at most");
            session.report.ceilings = Ceilings::measure(gpu, seed, &session.stop()).await?;
        }
        match session.format {
            Format::Table => put(printable_lines(&session.heading(&line), LINE))?,
            Format::Csv => put(bench_table::CSV_HEADER)?,
            Format::Json => {}
        }
        Ok(session)
    }

    /// Says on a terminal what is being done; a file gets rows only.
    pub fn progress(&self, line: &str) {
        if std::io::stderr().is_terminal() {
            warn(format_args!("  {line}"));
        }
    }

    /// Whether to stop, to be asked between samples.
    pub fn stop(&self) -> impl Fn() -> bool + 'static {
        let interrupted = self.interrupted.clone();
        move || interrupted.load(Ordering::SeqCst)
    }

    fn heading(&self, line: &str) -> String {
        let Report { bench, headlight, seed, .. } = &self.report;
        let mut text = format!("headlight {headlight} bench {bench}, seed {seed}\n{line}\n");
        text.push_str(&bench_table::ceilings(&self.report.ceilings));
        if let Some(baseline) = &self.baseline {
            let on = &baseline.report.on;
            let what = match baseline.difference(&self.report.on) {
                Some(difference) => format!("it is of {difference}"),
                None => format!("of the same adapter and driver ({})", on.adapter),
            };
            text.push_str(&format!("baseline: {}, {what}\n", baseline.file));
        }
        text
    }

    /// Takes rows in: they are in the files from now on.
    ///
    /// # Errors
    /// A file that cannot be written any more.
    pub fn add(&mut self, rows: Vec<Row>) -> anyhow::Result<()> {
        let first = self.report.rows.len();
        self.report.rows.extend(rows);
        if let Some(baseline) = &self.baseline {
            self.report.rows[first..].iter_mut().for_each(|row| row.against_baseline = baseline.speed(row));
        }
        if self.format == Format::Csv {
            self.report.rows[first..].iter().try_for_each(|row| put(bench_table::csv(&self.report, row)))?;
        }
        match &mut self.files {
            Some(files) => files.write(&self.report, first),
            None => Ok(()),
        }
    }

    /// Prints what is there, rows in the order of `rank`.
    ///
    /// # Errors
    /// A report that cannot be written as JSON.
    pub fn finish<K: Ord>(mut self, rank: impl Fn(&Row) -> K) -> anyhow::Result<Outcome> {
        self.report.rows.sort_by_key(&rank);
        let interrupted = self.stop()();
        match self.format {
            Format::Json => put(bench_table::json(&self.report)?)?,
            Format::Csv => {}
            Format::Table => {
                let mut text = bench_table::table(&self.report.rows, self.baseline.as_ref());
                if let Some(baseline) = &self.baseline {
                    match baseline.without_partner(&self.report.rows) {
                        0 => {}
                        count => text.push_str(&format!("{count} rows of the baseline have no partner here\n")),
                    }
                }
                if let Some(files) = &self.files {
                    let (json, csv) = (files.json.display(), files.csv.display());
                    text.push_str(&format!("{json} and {csv} hold the rows\n"));
                }
                if interrupted {
                    text.push_str("interrupted: rows that were not reached are missing\n");
                }
                put(printable_lines(text.trim_end(), LINE))?;
            }
        }
        let timed = self.report.rows.iter().any(|row| row.timing.is_some());
        match self.report.rows.iter().find_map(|row| row.reason.as_deref()) {
            _ if interrupted => Ok(Outcome::Interrupted),
            Some(reason) if !timed => bail!("nothing could be timed: {reason}"),
            _ => Ok(Outcome::Fine),
        }
    }
}
