//! The one timing core: every bench hands its work to [`time_together`].
//!
//! Work that is to be compared is timed together: a sample of each in turn, in a random order that changes each round, so
//! that a machine that slows down for a while slows all of them. What is short is repeated within a sample, so that
//! queueing and waiting do not count; the first run, in which drivers compile, counts apart.

use std::future::Future;

use serde::{Deserialize, Serialize};
use web_time::Instant;

use super::order::shuffled;
use super::statistics::Summary;

/// When a row is measured well enough, or long enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Runs before anything counts.
    pub warm_up: u32,
    /// Samples a row at least; six are needed for an interval at 95%.
    pub least: usize,
    /// Samples a row at most.
    pub most: usize,
    /// Seconds after which a row that has the least samples gets no more.
    pub seconds: f64,
    /// Half the width of the confidence interval, as a share of the median, at which a row is done.
    pub spread: f64,
    /// What a sample should take at least: shorter work is repeated within it.
    pub sample_seconds: f64,
    /// Whether to go by the adapter's own clock where it has one.
    pub timestamps: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { warm_up: 2, least: 10, most: 200, seconds: 3.0, spread: 0.02, sample_seconds: 0.005, timestamps: true }
    }
}

/// The most often that work is repeated within a sample: what is queued at once stays bounded.
const MOST_REPETITIONS: u32 = 256;

/// What a time was taken by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The adapter's own: the sum of the launches, each in a pass of its own, without what lies between them.
    Timestamps,
    /// The host's, from queueing to the end of the last launch, with all that lies between.
    WallClock,
}

impl Clock {
    /// As a table shows it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Timestamps => "gpu",
            Self::WallClock => "wall",
        }
    }
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Seconds of one repetition by the host's clock.
    pub wall: f64,
    /// Seconds of one repetition by the adapter's clock; `None` where it has none, was not asked, or did not say.
    pub device: Option<f64>,
}

/// Work that can be done again and again.
pub trait Timed {
    type Error;

    /// Does the work so many times over and waits for its end. [`Clock::Timestamps`] asks for the adapter's clock too.
    fn sample(&mut self, repetitions: u32, clock: Clock) -> impl Future<Output = Result<Sample, Self::Error>>;

    /// Seconds of setting up and of the first run, in which drivers compile.
    fn first_seconds(&self) -> f64;
}

/// What was measured of one row. No number in it is 0 or less but, on clocks that are coarse, `first_seconds`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Seconds of one repetition.
    pub seconds: Summary,
    pub clock: Clock,
    /// Repetitions a sample.
    pub repetitions: u32,
    /// Seconds of setting up and of the first run, compiling included.
    pub first_seconds: f64,
}

impl Timing {
    /// Whether its numbers can be times: above 0, and in order.
    pub fn is_sound(&self) -> bool {
        let Summary { median, low, high, lower_quartile, upper_quartile, .. } = self.seconds;
        let in_order = |low: f64, high: f64| 0.0 < low && low <= median && median <= high && high.is_finite();
        in_order(low, high) && in_order(lower_quartile, upper_quartile)
    }
}

/// A row without a time.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum TimingError<E> {
    #[error(transparent)]
    Failed(E),
    #[error("no clock measured anything above 0")]
    NoClock,
    #[error("interrupted before it was measured")]
    Interrupted,
}

/// The result of some work and the seconds it took by the host's clock.
///
/// # Errors
/// Those of the work.
pub async fn by_wall_clock<T, E>(work: impl Future<Output = Result<T, E>>) -> Result<(T, f64), E> {
    let start = Instant::now();
    let result = work.await?;
    Ok((result, start.elapsed().as_secs_f64()))
}

/// Where the measurement of one row stands.
struct Row<E> {
    repetitions: u32,
    clock: Clock,
    samples: Vec<f64>,
    /// Seconds that its samples took in all.
    spent: f64,
    ended: Option<TimingError<E>>,
}

impl<E> Row<E> {
    fn is_open(&self, limits: &Limits) -> bool {
        if self.ended.is_some() || self.samples.len() >= limits.most {
            return false;
        }
        let narrow = || Summary::of(&self.samples).is_some_and(|found| found.relative_half_width() <= limits.spread);
        self.samples.len() < limits.least.max(1) || !(self.spent >= limits.seconds || narrow())
    }

    /// Takes a sample in. One that the adapter's clock did not measure turns the row to the host's clock, since a median
    /// may not mix two of them.
    fn take(&mut self, sample: Sample) {
        self.spent += sample.wall.max(0.0) * f64::from(self.repetitions);
        match (self.clock, believable(sample)) {
            (Clock::Timestamps, Some(device)) => self.samples.push(device),
            (Clock::Timestamps, None) => {
                self.clock = Clock::WallClock;
                self.samples.clear();
            }
            (Clock::WallClock, _) if is_time(sample.wall) => self.samples.push(sample.wall),
            // Too short for the clock.
            (Clock::WallClock, _) if self.repetitions < MOST_REPETITIONS => {
                self.repetitions *= 2;
                self.samples.clear();
            }
            (Clock::WallClock, _) => self.ended = Some(TimingError::NoClock),
        }
    }
}

fn is_time(seconds: f64) -> bool {
    seconds.is_finite() && seconds > 0.0
}

/// The adapter's time, where it can be true: launches cannot take longer than the wall clock saw them run, and where
/// they fill less than a fiftieth of that, the unit is more likely wrong than the launches are short.
fn believable(sample: Sample) -> Option<f64> {
    let device = sample.device.filter(|&device| is_time(device))?;
    (0.02..=1.05).contains(&(device / sample.wall)).then_some(device)
}

/// Times work side by side. `stop` is asked between samples: once it says so, every row keeps what it has.
///
/// A row of the result stands for that of `work`; [`TimingError::Failed`] ends one row and not the others.
pub async fn time_together<T: Timed>(
    work: &mut [T],
    limits: &Limits,
    seed: u64,
    stop: &dyn Fn() -> bool,
) -> Vec<Result<Timing, TimingError<T::Error>>> {
    let mut rows: Vec<Row<T::Error>> = Vec::new();
    for timed in work.iter_mut() {
        rows.push(if stop() {
            let ended = Some(TimingError::Interrupted);
            Row { repetitions: 1, clock: Clock::WallClock, samples: Vec::new(), spent: 0.0, ended }
        } else {
            warmed_up(timed, limits).await
        });
    }
    let mut round = 0;
    while rows.iter().any(|row| row.is_open(limits)) && !stop() {
        for index in shuffled(rows.len(), seed, round, SAMPLES) {
            let row = &mut rows[index];
            if !row.is_open(limits) || stop() {
                continue;
            }
            match work[index].sample(row.repetitions, row.clock).await {
                Ok(sample) => row.take(sample),
                Err(error) => row.ended = Some(TimingError::Failed(error)),
            }
        }
        round += 1;
    }
    let finish = |(row, timed): (Row<T::Error>, &T)| match (row.ended, Summary::of(&row.samples)) {
        (Some(error), _) => Err(error),
        (None, None) => Err(TimingError::Interrupted),
        (None, Some(seconds)) => {
            let (clock, repetitions) = (row.clock, row.repetitions);
            Ok(Timing { seconds, clock, repetitions, first_seconds: timed.first_seconds() })
        }
    };
    rows.into_iter().zip(work.iter()).map(finish).collect()
}

/// The kind of [`shuffled`] that samples are.
const SAMPLES: u64 = 0;

/// Runs work that is not counted yet, and finds out how often to repeat it and what clock to go by.
async fn warmed_up<T: Timed>(timed: &mut T, limits: &Limits) -> Row<T::Error> {
    let mut row = Row { repetitions: 1, clock: Clock::WallClock, samples: Vec::new(), spent: 0.0, ended: None };
    if let Err(error) = warm_up(timed, limits, &mut row).await {
        row.ended = Some(TimingError::Failed(error));
    }
    row
}

async fn warm_up<T: Timed>(timed: &mut T, limits: &Limits, row: &mut Row<T::Error>) -> Result<(), T::Error> {
    let mut wall = 0.0;
    // At least once: how long it takes must be known.
    for _ in 0..limits.warm_up.max(1) {
        wall = timed.sample(1, Clock::WallClock).await?.wall;
        if wall > limits.seconds {
            break;
        }
    }
    let wanted = if is_time(wall) { (limits.sample_seconds / wall).ceil() } else { f64::from(MOST_REPETITIONS) };
    row.repetitions = (wanted as u32).clamp(1, MOST_REPETITIONS);
    if limits.timestamps && believable(timed.sample(row.repetitions, Clock::Timestamps).await?).is_some() {
        row.clock = Clock::Timestamps;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    const LIMITS: Limits =
        Limits { warm_up: 1, least: 7, most: 50, seconds: 1e9, spread: 0.02, sample_seconds: 0.005, timestamps: true };

    /// Work that says it took certain times, and writes down when it was asked.
    struct Told<'a> {
        name: usize,
        wall: fn(usize) -> f64,
        device: fn(usize) -> Option<f64>,
        fails_at: usize,
        asked: usize,
        log: &'a RefCell<Vec<usize>>,
    }

    impl<'a> Told<'a> {
        fn new(name: usize, log: &'a RefCell<Vec<usize>>, wall: fn(usize) -> f64) -> Self {
            Self { name, wall, device: |_| None, fails_at: usize::MAX, asked: 0, log }
        }
    }

    impl Timed for Told<'_> {
        type Error = &'static str;

        async fn sample(&mut self, _: u32, clock: Clock) -> Result<Sample, &'static str> {
            let asked = self.asked;
            self.asked += 1;
            self.log.borrow_mut().push(self.name);
            if asked == self.fails_at {
                return Err("lost");
            }
            let device = if clock == Clock::Timestamps { (self.device)(asked) } else { None };
            Ok(Sample { wall: (self.wall)(asked), device })
        }

        fn first_seconds(&self) -> f64 {
            0.5
        }
    }

    fn timed(work: &mut [Told<'_>], limits: &Limits) -> Vec<Result<Timing, TimingError<&'static str>>> {
        pollster::block_on(time_together(work, limits, 1, &|| false))
    }

    #[test]
    fn what_is_steady_is_done_after_the_least_samples_and_what_is_not_after_the_most() {
        let log = RefCell::default();
        let mut work =
            [Told::new(0, &log, |_| 0.01), Told::new(1, &log, |asked| if asked % 2 == 0 { 0.01 } else { 0.02 })];
        let rows = timed(&mut work, &LIMITS);
        let counted: Vec<usize> = rows.iter().map(|row| row.as_ref().unwrap().seconds.samples).collect();
        assert_eq!(counted, [LIMITS.least, LIMITS.most]);
        let steady = rows[0].as_ref().unwrap();
        assert_eq!((steady.seconds.median, steady.clock, steady.repetitions), (0.01, Clock::WallClock, 1));
        assert_eq!(steady.first_seconds, 0.5);
        // Time runs out: the least is still taken.
        let short = Limits { seconds: 0.05, ..LIMITS };
        let rows = timed(&mut [Told::new(0, &log, |asked| if asked % 2 == 0 { 0.01 } else { 0.02 })], &short);
        assert_eq!(rows[0].as_ref().unwrap().seconds.samples, LIMITS.least);
    }

    #[test]
    fn samples_of_rows_alternate_in_a_changing_order() {
        let log = RefCell::default();
        let mut work: Vec<Told<'_>> = (0..3).map(|name| Told::new(name, &log, |_| 0.01)).collect();
        timed(&mut work, &LIMITS);
        let log = log.borrow();
        // A run and a look at the clock each, then rounds.
        let rounds: Vec<&[usize]> = log[6..].chunks(3).collect();
        assert_eq!(rounds.len(), LIMITS.least);
        assert!(rounds.windows(2).any(|pair| pair[0] != pair[1]), "{rounds:?}");
        for round in rounds {
            let mut sorted = round.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
        }
    }

    #[test]
    fn what_is_short_is_repeated_within_a_sample() {
        let log = RefCell::default();
        for (wall, repetitions) in
            [((|_| 0.1) as fn(usize) -> f64, 1), (|_| 0.001, 5), (|_| 1e-6, MOST_REPETITIONS), (|_| 0.0, 256)]
        {
            let row = pollster::block_on(warmed_up(&mut Told::new(0, &log, wall), &LIMITS));
            assert_eq!(row.repetitions, repetitions);
        }
    }

    #[test]
    fn a_time_is_never_zero() {
        let log = RefCell::default();
        let told = |wall, device| Told { device, ..Told::new(0, &log, wall) };
        type Case = (fn(usize) -> f64, fn(usize) -> Option<f64>, Option<(Clock, f64)>);
        let cases: [Case; 8] = [
            (|_| 0.01, |_| Some(0.008), Some((Clock::Timestamps, 0.008))),
            (|_| 0.01, |_| None, Some((Clock::WallClock, 0.01))),
            (|_| 0.01, |_| Some(0.0), Some((Clock::WallClock, 0.01))),
            (|_| 0.01, |_| Some(-1.0), Some((Clock::WallClock, 0.01))),
            // Longer than the wall clock saw, or hardly there at all.
            (|_| 0.01, |_| Some(8.0), Some((Clock::WallClock, 0.01))),
            (|_| 0.01, |_| Some(8e-9), Some((Clock::WallClock, 0.01))),
            // Good at first, then not: no median of two clocks.
            (|_| 0.01, |asked| (asked < 4).then_some(0.008), Some((Clock::WallClock, 0.01))),
            (|_| 0.0, |_| Some(0.0), None),
        ];
        for (index, (wall, device, expected)) in cases.into_iter().enumerate() {
            let rows = timed(&mut [told(wall, device)], &LIMITS);
            match (&rows[0], expected) {
                (Ok(timing), Some((clock, median))) => {
                    assert_eq!((timing.clock, timing.seconds.median), (clock, median), "{index}");
                    assert_eq!(timing.seconds.samples, LIMITS.least, "{index}");
                }
                (Err(error), None) => assert_eq!(error.to_string(), "no clock measured anything above 0"),
                other => panic!("{index}: {other:?}"),
            }
        }
    }

    #[test]
    fn the_adapters_clock_is_left_alone_where_it_is_not_wanted() {
        let log = RefCell::default();
        let told = || Told { device: |_| Some(0.008), ..Told::new(0, &log, |_| 0.01) };
        let clock = |timestamps| timed(&mut [told()], &Limits { timestamps, ..LIMITS })[0].as_ref().unwrap().clock;
        assert_eq!([true, false].map(clock), [Clock::Timestamps, Clock::WallClock]);
    }

    #[test]
    fn a_failure_ends_its_own_row_only() {
        let log = RefCell::default();
        for fails_at in [0, 1, 4] {
            let mut work = [Told { fails_at, ..Told::new(0, &log, |_| 0.01) }, Told::new(1, &log, |_| 0.01)];
            let rows = timed(&mut work, &LIMITS);
            assert_eq!(rows[0], Err(TimingError::Failed("lost")));
            assert_eq!(rows[1].as_ref().unwrap().seconds.samples, LIMITS.least);
        }
    }

    #[test]
    fn what_was_measured_before_an_interruption_is_kept() {
        let log = RefCell::default();
        let asked = Cell::new(0);
        let stop_after = |limit: usize| {
            asked.set(0);
            let mut work = [Told::new(0, &log, |_| 0.01), Told::new(1, &log, |_| 0.02)];
            let stop = || {
                asked.set(asked.get() + 1);
                asked.get() > limit
            };
            pollster::block_on(time_together(&mut work, &LIMITS, 1, &stop))
        };
        assert_eq!(stop_after(0), [Err(TimingError::Interrupted), Err(TimingError::Interrupted)]);
        let rows = stop_after(2 + 1 + 3);
        let kept: Vec<Option<usize>> =
            rows.iter().map(|row| row.as_ref().ok().map(|timing| timing.seconds.samples)).collect();
        assert!(kept.iter().flatten().sum::<usize>() > 0 && kept.iter().flatten().sum::<usize>() < 8, "{kept:?}");
    }
}
