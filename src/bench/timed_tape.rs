//! A tape on an executor, set up to be timed.

use std::ops::Range;
use std::sync::Arc;

use super::timing::{Clock, Sample, Timed, by_wall_clock};
use crate::gpu::{BindingLimits, Gpu, Pipelines, Timestamps};
use crate::tape::{
    Allocation, BufferId, Category, Cost, ElementKind, ExecutionError, Executor, Launch, Tape, TapeBuffer,
};

/// Passes whose times are kept at once at most; more launches than that in a row of segments go untimed by the adapter.
const MOST_PASSES: usize = 16_384;

/// A tape with its contents, compiled and run once.
pub struct TimedTape {
    executor: Executor,
    /// A buffer of no launch, to wait by.
    wait: BufferId,
    timestamps: Option<Timestamps>,
    first_seconds: f64,
    allocated_bytes: u64,
}

/// A tape with one more buffer, of no launch, to wait by.
fn with_wait(mut tape: Tape) -> (Tape, BufferId) {
    let wait = tape.buffers.len();
    tape.buffers.push(TapeBuffer {
        name: "wait".into(),
        elements: 4,
        kind: ElementKind::Real,
        category: Category::Control,
        persistent: true,
    });
    (tape, wait)
}

impl TimedTape {
    /// Every buffer that the executor of a tape makes when it is set up to be timed.
    pub fn allocations(tape: &Tape, limits: Option<&BindingLimits>) -> Vec<Allocation> {
        with_wait(tape.clone()).0.allocations(limits)
    }

    /// Bytes of the buffers that the executor made, added up where they were made; what the adapter's clock takes is not
    /// among them.
    pub fn allocated_bytes(&self) -> u64 {
        self.allocated_bytes
    }

    /// Sets a tape up on `gpu`, or on the CPU executor where that is `None`, fills buffers and runs every segment once.
    ///
    /// # Errors
    /// As [`Executor::new`] and [`Executor::write`]; a device that fails.
    pub async fn new(
        gpu: Option<&Arc<Gpu>>,
        tape: Tape,
        contents: &[(BufferId, Vec<f32>)],
    ) -> Result<Self, ExecutionError> {
        let (tape, wait) = with_wait(tape);
        let launches: usize = tape.segments.iter().map(|segment| segment.launches.len()).sum();
        let segments = 0..tape.segments.len();
        let mut pipelines = Pipelines::default();
        let before = gpu.map_or(0, |gpu| gpu.allocated_bytes());
        let (executor, set_up) = by_wall_clock(Executor::new(gpu, tape, &mut pipelines)).await?;
        let allocated_bytes = match &executor {
            Executor::Gpu(executor) => executor.gpu().allocated_bytes() - before,
            Executor::Cpu(executor) => executor.allocated_bytes(),
        };
        for (buffer, values) in contents {
            executor.write(*buffer, values)?;
        }
        // What is to be written is no part of the first run.
        executor.read(wait).await?;
        let timestamps = match &executor {
            Executor::Gpu(gpu) => Timestamps::new(gpu.gpu(), launches.saturating_mul(8).min(MOST_PASSES)).await?,
            Executor::Cpu(_) => None,
        };
        let mut timed = Self { executor, wait, timestamps, first_seconds: 0.0, allocated_bytes };
        let (_, first) = by_wall_clock(timed.run(segments, 1)).await?;
        timed.first_seconds = set_up + first;
        Ok(timed)
    }

    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    pub fn tape(&self) -> &Tape {
        self.executor.tape()
    }

    /// Seconds of setting up and of the first run of every segment, compiling included.
    pub fn first_seconds(&self) -> f64 {
        self.first_seconds
    }

    /// Some segments, one after the other, as work that can be timed.
    pub fn segments(&self, segments: Range<usize>) -> TimedSegments<'_> {
        TimedSegments { tape: self, segments }
    }

    /// Runs segments so many times over and waits for their end.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn run(&self, segments: Range<usize>, repetitions: u32) -> Result<(), ExecutionError> {
        for _ in 0..repetitions {
            for segment in segments.clone() {
                self.executor.run(segment)?;
            }
        }
        self.executor.read(self.wait).await?;
        Ok(())
    }

    /// Runs segments so many times over, as far as there is room for it, with a pass a launch. Gives the seconds of each
    /// launch by the adapter's clock, one repetition behind the other, and those of all by the host's; `None` where the
    /// adapter has no clock.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn launch_seconds(
        &self,
        segments: Range<usize>,
        repetitions: u32,
    ) -> Result<Option<LaunchSeconds>, ExecutionError> {
        let (Executor::Gpu(executor), Some(timestamps)) = (&self.executor, &self.timestamps) else { return Ok(None) };
        let launches: usize = self.tape().segments[segments.clone()].iter().map(|segment| segment.launches.len()).sum();
        if launches == 0 || launches > timestamps.passes() {
            return Ok(None);
        }
        let repetitions = (repetitions as usize).clamp(1, timestamps.passes() / launches);
        let run = async {
            let mut first = 0;
            for _ in 0..repetitions {
                for segment in segments.clone() {
                    executor.run_timestamped(segment, timestamps, first)?;
                    first += self.tape().segments[segment].launches.len();
                }
            }
            self.executor.read(self.wait).await
        };
        let (_, wall) = by_wall_clock(run).await?;
        let launches = timestamps.read(executor.gpu(), launches * repetitions).await?;
        Ok(Some(LaunchSeconds { launches, repetitions, wall }))
    }
}

/// What the adapter's clock said of some launches.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchSeconds {
    /// `None` where a launch's end is not after its start.
    pub launches: Vec<Option<f64>>,
    pub repetitions: usize,
    /// Seconds of all by the host's clock.
    pub wall: f64,
}

impl LaunchSeconds {
    /// One repetition by both clocks.
    pub fn sample(&self) -> Sample {
        let of_one = |seconds: f64| seconds / self.repetitions as f64;
        let device: Option<f64> = self.launches.iter().copied().sum();
        Sample { wall: of_one(self.wall), device: device.map(of_one) }
    }
}

/// Segments of a tape as work that can be timed. Doing them again must be legal.
pub struct TimedSegments<'a> {
    tape: &'a TimedTape,
    segments: Range<usize>,
}

impl TimedSegments<'_> {
    /// Their launches, in order.
    pub fn launches(&self) -> impl Iterator<Item = &Launch> {
        self.tape.tape().segments[self.segments.clone()].iter().flat_map(|segment| &segment.launches)
    }

    /// What they must at least compute and move.
    pub fn cost(&self) -> Cost {
        total_cost(self.launches())
    }
}

/// What launches must at least compute and move together.
pub fn total_cost<'a>(launches: impl Iterator<Item = &'a Launch>) -> Cost {
    launches.map(Launch::cost).fold(Cost::default(), |sum, cost| Cost {
        flops: sum.flops.saturating_add(cost.flops),
        bytes: sum.bytes.saturating_add(cost.bytes),
    })
}

impl Timed for TimedSegments<'_> {
    type Error = ExecutionError;

    async fn sample(&mut self, repetitions: u32, clock: Clock) -> Result<Sample, ExecutionError> {
        if clock == Clock::Timestamps
            && let Some(seconds) = self.tape.launch_seconds(self.segments.clone(), repetitions).await?
        {
            return Ok(seconds.sample());
        }
        let ((), wall) = by_wall_clock(self.tape.run(self.segments.clone(), repetitions)).await?;
        Ok(Sample { wall: wall / f64::from(repetitions), device: None })
    }

    fn first_seconds(&self) -> f64 {
        self.tape.first_seconds
    }
}
