//! A tape on an executor, set up to be timed.

use std::ops::Range;
use std::sync::Arc;

use super::timing::{Clock, Sample, Timed, by_wall_clock};
use crate::gpu::{BindingLimits, Gpu, Pipelines, Profile, Timestamps};
use crate::tape::{
    Allocation, BufferId, Category, Cost, ElementKind, ExecutionError, Executor, HostBuffer, Launch, Tape, TapeBuffer,
    TapeError, available_for,
};

/// Passes whose times there is room for at once.
const PASSES: usize = 4096;

/// A tape with its contents, compiled and run once.
pub struct TimedTape {
    executor: Executor,
    /// A buffer of no launch, to wait by.
    wait: BufferId,
    timestamps: Option<Timestamps>,
    first_seconds: f64,
    allocated_bytes: u64,
}

/// What a buffer holds before the first run.
pub type BufferContents = (BufferId, HostBuffer<f32>);

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
    pub async fn new(gpu: Option<&Arc<Gpu>>, tape: Tape, contents: &[BufferContents]) -> Result<Self, ExecutionError> {
        let (tape, wait) = with_wait(tape);
        let launches = tape.segments.iter().map(|segment| segment.launches.len()).sum::<usize>();
        if let Some(gpu) = gpu {
            check_host_memory(&tape, &gpu.profile, available_for(Some(&gpu.profile)))?;
        }
        let mut pipelines = Pipelines::default();
        let before = gpu.map_or(0, |gpu| gpu.allocated_bytes());
        let (executor, set_up) = by_wall_clock(Executor::new(gpu, tape, &mut pipelines)).await?;
        let allocated_bytes = match &executor {
            Executor::Gpu(executor) => executor.gpu().allocated_bytes() - before,
            Executor::Cpu(executor) => executor.allocated_bytes(),
        };
        let timestamps = match &executor {
            Executor::Gpu(gpu) => Timestamps::new(gpu.gpu(), launches.max(PASSES)).await?,
            Executor::Cpu(_) => None,
        };
        let mut timed = Self { executor, wait, timestamps, first_seconds: 0.0, allocated_bytes };
        timed.fill(contents).await?;
        let whole = timed.segments(0..timed.tape().segments.len());
        let ((), first) = by_wall_clock(whole.run(1)).await?;
        timed.first_seconds = set_up + first;
        Ok(timed)
    }

    /// Sets buffers and waits until they are.
    ///
    /// # Errors
    /// As [`Executor::write`]; a device that fails.
    pub async fn fill(&self, contents: &[BufferContents]) -> Result<(), ExecutionError> {
        for (buffer, contents) in contents {
            match contents {
                HostBuffer::Real(values) => self.executor.write(*buffer, values)?,
                HostBuffer::Words(words) => self.executor.write_words(*buffer, words)?,
            }
        }
        self.wait().await
    }

    /// Returns once everything that was queued is done.
    async fn wait(&self) -> Result<(), ExecutionError> {
        self.executor.read(self.wait).await.map(|_| ())
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
    pub fn segments(&self, segments: Range<usize>) -> TimedLaunches<'_> {
        self.in_order(segments)
    }

    /// As [`TimedTape::segments`], for segments in any order, which may stand there more than once.
    pub fn in_order(&self, segments: impl IntoIterator<Item = usize>) -> TimedLaunches<'_> {
        let whole = |segment: usize| (segment, 0..self.tape().segments[segment].launches.len());
        TimedLaunches { tape: self, parts: segments.into_iter().map(whole).collect() }
    }

    /// One launch of a segment as work that can be timed.
    pub fn launch(&self, segment: usize, launch: usize) -> TimedLaunches<'_> {
        TimedLaunches { tape: self, parts: vec![(segment, launch..launch + 1)] }
    }
}

/// Holds what a tape makes against the memory there is: where its buffers lie in the host's memory, the system may grant
/// more than that.
///
/// # Errors
/// Both numbers, where the tape needs more than is available.
fn check_host_memory(tape: &Tape, profile: &Profile, available: Option<u64>) -> Result<(), TapeError> {
    let Some(available) = available else { return Ok(()) };
    let allocations = tape.allocations(Some(&profile.limits));
    let bytes = allocations.iter().fold(0u64, |sum, allocation| sum.saturating_add(allocation.bytes));
    if bytes <= available { Ok(()) } else { Err(TapeError::OutOfMemory { bytes, available }) }
}

/// What launches must at least compute and move together.
pub fn total_cost<'a>(launches: impl Iterator<Item = &'a Launch>) -> Cost {
    launches.map(Launch::cost).fold(Cost::default(), |sum, cost| Cost {
        flops: sum.flops.saturating_add(cost.flops),
        bytes: sum.bytes.saturating_add(cost.bytes),
    })
}

/// What the adapter's clock said of some launches.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchSeconds {
    /// One repetition behind the other; `None` where a launch's end is not after its start.
    pub launches: Vec<Option<f64>>,
    pub repetitions: u32,
    /// Seconds of all by the host's clock.
    pub wall: f64,
}

impl LaunchSeconds {
    /// One repetition by both clocks.
    pub fn sample(&self) -> Sample {
        let of_one = |seconds: f64| seconds / f64::from(self.repetitions);
        let device: Option<f64> = self.launches.iter().copied().sum();
        Sample { wall: of_one(self.wall), device: device.map(of_one) }
    }
}

/// Launches of a tape as work that can be timed. Doing them again must be legal.
pub struct TimedLaunches<'a> {
    tape: &'a TimedTape,
    /// Segments, and which of their launches.
    parts: Vec<(usize, Range<usize>)>,
}

impl TimedLaunches<'_> {
    /// The launches, in order.
    pub fn launches(&self) -> impl Iterator<Item = &Launch> {
        let segments = &self.tape.tape().segments;
        self.parts.iter().flat_map(move |(segment, range)| &segments[*segment].launches[range.clone()])
    }

    /// Segment and number of each, in order.
    pub fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        self.parts.iter().flat_map(|(segment, range)| range.clone().map(|launch| (*segment, launch)))
    }

    /// What they must at least compute and move.
    pub fn cost(&self) -> Cost {
        total_cost(self.launches())
    }

    /// Runs them so many times over and waits for their end.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn run(&self, repetitions: u32) -> Result<(), ExecutionError> {
        match &self.tape.executor {
            Executor::Gpu(executor) => executor.run_parts(&self.parts, repetitions)?,
            Executor::Cpu(executor) => {
                (0..repetitions).for_each(|_| self.launches().for_each(|launch| executor.run_launch(launch)));
            }
        }
        self.tape.wait().await
    }

    /// Runs them so many times over, as far as there is room for their times, with a pass a launch; `None` where the
    /// adapter has no clock.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn launch_seconds(&self, repetitions: u32) -> Result<Option<LaunchSeconds>, ExecutionError> {
        let (Executor::Gpu(executor), Some(timestamps)) = (&self.tape.executor, &self.tape.timestamps) else {
            return Ok(None);
        };
        let launches = self.launches().count();
        if launches == 0 || launches > timestamps.passes() {
            return Ok(None);
        }
        let room = u32::try_from(timestamps.passes() / launches).unwrap_or(u32::MAX);
        let repetitions = repetitions.clamp(1, room);
        let run = async {
            executor.run_timestamped(&self.parts, repetitions, timestamps)?;
            self.tape.wait().await
        };
        let ((), wall) = by_wall_clock(run).await?;
        let launches = timestamps.read(executor.gpu(), launches * repetitions as usize).await?;
        Ok(Some(LaunchSeconds { launches, repetitions, wall }))
    }
}

impl Timed for TimedLaunches<'_> {
    type Error = ExecutionError;

    async fn sample(&mut self, repetitions: u32, clock: Clock) -> Result<Sample, ExecutionError> {
        if clock == Clock::Timestamps
            && let Some(seconds) = self.launch_seconds(repetitions).await?
        {
            return Ok(seconds.sample());
        }
        let ((), wall) = by_wall_clock(self.run(repetitions)).await?;
        Ok(Sample { wall: wall / f64::from(repetitions), device: None })
    }

    fn first_seconds(&self) -> f64 {
        self.tape.first_seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::AdapterKind;

    #[test]
    fn a_software_adapter_is_not_given_more_than_the_host_has() {
        let buffer = TapeBuffer {
            name: "scores".into(),
            elements: 1000,
            kind: ElementKind::Real,
            category: Category::Workspace,
            persistent: true,
        };
        let tape = Tape::new(vec![buffer], Vec::new());
        let software = Profile { kind: AdapterKind::Software, ..Profile::webgpu_defaults() };
        let refused = check_host_memory(&tape, &software, Some(4000));
        assert!(matches!(refused, Err(TapeError::OutOfMemory { bytes: 4001.., available: 4000 })), "{refused:?}");
        assert_eq!(check_host_memory(&tape, &software, Some(1 << 20)), Ok(()));
        assert_eq!(check_host_memory(&tape, &software, None), Ok(()));
        // A GPU says itself what it refuses.
        let hardware = Profile::webgpu_defaults();
        assert_eq!(check_host_memory(&tape, &hardware, available_for(Some(&hardware))), Ok(()));
        assert_eq!(available_for(Some(&hardware)), None);
    }

    #[test]
    fn one_launch_without_a_time_leaves_all_without() {
        let seconds = |launches: &[Option<f64>]| {
            LaunchSeconds { launches: launches.to_vec(), repetitions: 2, wall: 1.0 }.sample()
        };
        assert_eq!(seconds(&[Some(0.25), Some(0.125)]), Sample { wall: 0.5, device: Some(0.1875) });
        assert_eq!(seconds(&[Some(0.25), None]), Sample { wall: 0.5, device: None });
    }
}
