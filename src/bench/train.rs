//! A training step taken apart: what each kernel takes of it, and what lies between the launches.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ceilings::Ceilings;
use super::report::Row;
use super::statistics::Summary;
use super::timed_tape::{BufferContents, TimedLaunches, TimedTape};
use super::timing::{Clock, Limits, Sample, Timed, Timing, TimingError, time_together};
use crate::data::batches::{BatchError, training_batch};
use crate::gpu::Gpu;
use crate::graph::Reuse;
use crate::model::config::GptConfig;
use crate::model::forward::ModelError;
use crate::tape::{Cost, ExecutionError, HostBuffer, Launch};
use crate::train::optimizer_state::OptimizerState;
use crate::train::program::{Program, StepScalars, build_program, segment};
use crate::train::settings::Settings;
use crate::train::trainer::program_spec;

/// A step that cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum StepJobError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Execution(#[from] ExecutionError),
}

/// A training step on an executor, compiled and taken once: its micro-batches, forward and backward, and the update.
pub struct StepJob {
    tape: TimedTape,
    accumulation: usize,
    /// As a reader of a row should know it.
    shape: String,
}

/// Launches that are timed by the host's clock whatever the adapter has; or, where a place for them is given, one by one by
/// the adapter's.
struct StepTimes<'a> {
    launches: TimedLaunches<'a>,
    /// The seconds of each design in each sample.
    apart: Option<BTreeMap<String, Vec<f64>>>,
}

impl<'a> StepTimes<'a> {
    fn whole(launches: TimedLaunches<'a>) -> Self {
        Self { launches, apart: None }
    }

    fn apart(launches: TimedLaunches<'a>) -> Self {
        Self { launches, apart: Some(BTreeMap::new()) }
    }
}

impl Timed for StepTimes<'_> {
    type Error = ExecutionError;

    async fn sample(&mut self, repetitions: u32, clock: Clock) -> Result<Sample, ExecutionError> {
        if clock == Clock::Timestamps
            && let Some(apart) = &mut self.apart
            && let Some(found) = self.launches.launch_seconds(1).await?
        {
            let mut sums: BTreeMap<String, f64> = BTreeMap::new();
            for (launch, seconds) in self.launches.launches().zip(&found.launches) {
                *sums.entry(name(launch)).or_default() += seconds.unwrap_or(0.0);
            }
            for (name, sum) in sums {
                apart.entry(name).or_default().push(sum);
            }
            return Ok(found.sample());
        }
        self.launches.sample(repetitions, Clock::WallClock).await
    }

    fn first_seconds(&self) -> f64 {
        self.launches.first_seconds()
    }
}

impl StepJob {
    /// Plans the step of some settings, sets it up on `gpu` (`None` for the CPU executor) with first weights and a batch
    /// of `tokens`, and takes it once.
    ///
    /// # Errors
    /// A model that does not fit, too few tokens, a device that fails.
    pub async fn new(
        gpu: Option<&Arc<Gpu>>,
        settings: &Settings,
        config: GptConfig,
        tokens: &[u32],
    ) -> Result<Self, StepJobError> {
        let spec = program_spec(settings, config.clone());
        let Program { tape, buffers, .. } = build_program(&spec, gpu.map(|gpu| &gpu.profile), Reuse::Pooled)?;
        let mut contents: Vec<BufferContents> = Vec::new();
        let zeros = OptimizerState::zeros(&config);
        for (places, values) in [
            (&buffers.parameters, settings.initialisation().values(&config)),
            (&buffers.first_moments, zeros.first_moments),
            (&buffers.second_moments, zeros.second_moments),
        ] {
            contents.extend(places.iter().copied().zip(values.into_iter().map(HostBuffer::Real)));
        }
        let batch = training_batch(tokens, settings.batch, settings.context_length, settings.seed, 0, 0)?;
        let scalars = StepScalars { first_micro_batch: true, learning_rate: settings.schedule().rate(0), step: 0 };
        contents.push((buffers.tokens, HostBuffer::Words(batch.inputs)));
        contents.push((buffers.targets, HostBuffer::Words(batch.targets)));
        contents.push((buffers.scalars, HostBuffer::Real(scalars.values(&spec.optimizer).to_vec())));
        let Settings { layers, heads, width, context_length, batch, accumulation, attention, .. } = settings;
        let shape = format!(
            "{} step: {layers} layers, {heads} heads, {width} wide, B={batch}x{accumulation} T={context_length}, {attention}",
            settings.preset.name()
        );
        Ok(Self { tape: TimedTape::new(gpu, tape, &contents).await?, accumulation: *accumulation, shape })
    }

    /// The launches of a step, in order.
    fn step(&self) -> TimedLaunches<'_> {
        let micro_steps = std::iter::repeat_n(segment::MICRO_STEP, self.accumulation);
        self.tape.in_order(micro_steps.chain([segment::UPDATE]))
    }

    /// Takes a step apart. The first row is the whole step by the host's clock, with what its launches leave of it told
    /// beside it; the others are its kernels, those that take the most first.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn measure(
        &self,
        limits: &Limits,
        seed: u64,
        ceilings: &Ceilings,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Row>, ExecutionError> {
        let step = self.step();
        let (cost, launches) = (step.cost(), step.launches().count());
        // In turn, so that what slows the machine down slows both.
        let mut work = [StepTimes::whole(self.step()), StepTimes::apart(self.step())];
        let mut timings = time_together(&mut work, limits, seed, stop).await.into_iter();
        let mut next = || match timings.next().unwrap_or(Err(TimingError::Interrupted)) {
            Err(TimingError::Failed(error)) => Err(error),
            timing => Ok(timing),
        };
        let (whole, apart) = (next()?, next()?);
        let seconds = whole.as_ref().ok().map(|timing| timing.seconds.median);
        let mut first = Row::new((&self.shape, "step", ""), launches, cost, whole, ceilings);
        let Some(seconds) = seconds else { return Ok(vec![first]) };
        let parts = match (&work[1].apart, apart) {
            (Some(samples), Ok(Timing { clock: Clock::Timestamps, .. })) => by_timestamps(&step, samples),
            _ => self.alone(&step, limits, seed, stop).await?,
        };
        let sum: f64 = parts.values().filter_map(|part| part.seconds).map(|found| found.median).sum();
        first.share = Some(1.0);
        if parts.values().all(|part| part.seconds.is_some()) {
            first.note = Some(gaps(seconds, sum, launches));
        }
        let mut rows: Vec<Row> = Vec::new();
        for (name, part) in parts {
            let timing = part.seconds.map(|seconds| Timing {
                seconds,
                clock: part.clock,
                repetitions: 1,
                first_seconds: self.tape.first_seconds(),
            });
            let timing = timing.ok_or("interrupted before it was measured");
            let mut row = Row::new((&self.shape, &name, ""), part.launches, part.cost, timing, ceilings);
            row.share = part.seconds.map(|found| found.median / seconds);
            rows.push(row);
        }
        rows.sort_by(|a, b| b.share.unwrap_or(0.0).total_cmp(&a.share.unwrap_or(0.0)));
        rows.insert(0, first);
        Ok(rows)
    }

    /// The kernels of a step by the host's clock: each distinct launch is repeated alone. What the launches before it left
    /// in caches is missing then, so the sum may exceed the step.
    async fn alone(
        &self,
        step: &TimedLaunches<'_>,
        limits: &Limits,
        seed: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<BTreeMap<String, Part>, ExecutionError> {
        // (place of the first, how often)
        let mut distinct: BTreeMap<String, ((usize, usize), &Launch, f64)> = BTreeMap::new();
        for (place, launch) in step.places().zip(step.launches()) {
            let key = format!("{} {:?}", name(launch), launch.parameters);
            distinct.entry(key).or_insert((place, launch, 0.0)).2 += 1.0;
        }
        let of_one = Limits { seconds: limits.seconds / 10.0, least: 7, ..*limits };
        let mut parts = parts(step, Clock::WallClock);
        let mut missing = Vec::new();
        for ((segment, index), launch, count) in distinct.into_values() {
            let mut work = [StepTimes::whole(self.tape.launch(segment, index))];
            let found = match time_together(&mut work, &of_one, seed, stop).await.pop() {
                Some(Ok(timing)) => timing.seconds,
                Some(Err(TimingError::Failed(error))) => return Err(error),
                _ => {
                    missing.push(name(launch));
                    continue;
                }
            };
            if let Some(part) = parts.get_mut(&name(launch)) {
                part.add(&found, count);
            }
        }
        for name in missing {
            if let Some(part) = parts.get_mut(&name) {
                part.seconds = None;
            }
        }
        Ok(parts)
    }
}

/// The kernels of a step by the adapter's clock.
fn by_timestamps(step: &TimedLaunches<'_>, samples: &BTreeMap<String, Vec<f64>>) -> BTreeMap<String, Part> {
    let mut parts = parts(step, Clock::Timestamps);
    for (name, part) in &mut parts {
        part.seconds = samples.get(name).and_then(|samples| Summary::of(samples));
    }
    parts
}

/// A kernel and its design.
fn name(launch: &Launch) -> String {
    format!("{}/{}", launch.kernel.name, launch.design.map_or("twin", |design| design.name))
}

/// All launches of one design in a step.
struct Part {
    launches: usize,
    cost: Cost,
    clock: Clock,
    seconds: Option<Summary>,
}

impl Part {
    /// Adds `count` launches of the same time. Their intervals add up: that is wider than need be.
    fn add(&mut self, found: &Summary, count: f64) {
        let sum = |earlier: fn(&Summary) -> f64| self.seconds.as_ref().map_or(0.0, earlier) + count * earlier(found);
        self.seconds = Some(Summary {
            samples: self.seconds.map_or(found.samples, |earlier| earlier.samples.min(found.samples)),
            median: sum(|summary| summary.median),
            low: sum(|summary| summary.low),
            high: sum(|summary| summary.high),
            lower_quartile: sum(|summary| summary.lower_quartile),
            upper_quartile: sum(|summary| summary.upper_quartile),
        });
    }
}

/// The designs of a step, not timed yet.
fn parts(step: &TimedLaunches<'_>, clock: Clock) -> BTreeMap<String, Part> {
    let mut parts: BTreeMap<String, Part> = BTreeMap::new();
    for launch in step.launches() {
        let empty = Part { launches: 0, cost: Cost::default(), clock, seconds: None };
        let part = parts.entry(name(launch)).or_insert(empty);
        let cost = launch.cost();
        part.launches += 1;
        part.cost.flops = part.cost.flops.saturating_add(cost.flops);
        part.cost.bytes = part.cost.bytes.saturating_add(cost.bytes);
    }
    parts
}

/// What a step takes beside its launches, in words.
fn gaps(step: f64, launches: f64, count: usize) -> String {
    let gap = step - launches;
    let share = 100.0 * gap / step;
    if gap > 0.0 {
        let (all, each) = (super::units::seconds(gap), super::units::seconds(gap / count as f64));
        format!(
            "gaps: {all} a step ({share:.1}%), {each} a launch: submitting, waiting, and what lies between launches"
        )
    } else {
        format!("gaps: none to be seen: the launches, timed one by one, take {:.2} times the step", launches / step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::Preset;

    fn job(settings: &Settings) -> StepJob {
        let tokens: Vec<u32> = (0..400u32).map(|i| (i / 3 + i / 50) % 11).collect();
        pollster::block_on(StepJob::new(None, settings, settings.model(11).unwrap(), &tokens)).unwrap()
    }

    const QUICK: Limits =
        Limits { warm_up: 1, least: 2, most: 2, seconds: 0.0, spread: 0.0, sample_seconds: 0.0, timestamps: true };

    #[test]
    fn a_step_is_all_of_its_micro_batches_and_one_update() {
        let settings = Settings {
            layers: 1,
            heads: 1,
            width: 8,
            context_length: 8,
            batch: 2,
            accumulation: 3,
            ..Preset::Tiny.settings()
        };
        let job = job(&settings);
        let count = |kernel: &str| job.step().launches().filter(|launch| launch.kernel.name == kernel).count();
        assert_eq!(count("attention_forward"), 3);
        assert_eq!(count("gradient_norm"), 1);
        let rows = pollster::block_on(job.measure(&QUICK, 1, &Ceilings::default(), &|| false)).unwrap();
        assert_eq!((rows[0].name.as_str(), rows[0].share), ("step", Some(1.0)));
        assert!(rows[0].note.as_ref().is_some_and(|note| note.starts_with("gaps: ")), "{:?}", rows[0].note);
        let launches: usize = rows[1..].iter().map(|row| row.launches).sum();
        assert_eq!(launches, rows[0].launches);
        let flops: u64 = rows[1..].iter().map(|row| row.flops).sum();
        assert_eq!(flops, rows[0].flops);
        for pair in rows[1..].windows(2) {
            assert!(pair[0].share >= pair[1].share, "{pair:?}");
        }
        assert!(rows.iter().all(|row| row.timing.is_some_and(|timing| timing.seconds.median > 0.0)));
    }

    #[test]
    fn gaps_are_told_in_words_that_are_true() {
        assert!(gaps(0.1, 0.09, 10).starts_with("gaps: 10.0 ms a step (10.0%), 1.00 ms a launch"));
        assert!(gaps(0.1, 0.11, 10).ends_with("take 1.10 times the step"));
    }
}
