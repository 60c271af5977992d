//! What an adapter does at most, measured on it: the two roofs of the roofline model (Williams, Waterman and Patterson
//! 2009). A declared figure of a card says nothing of its driver.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::kernels::{KernelJob, designs};
use super::shapes::{self, Shape};
use super::timing::{Clock, Limits, Sample, Timed, Timing, by_wall_clock, time_together};
use crate::gpu::{BufferCopy, Gpu, GpuError};
use crate::tape::{Cost, ExecutionError};

/// The most that an adapter was seen to do; `None` where it could not be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// Floating-point operations a second: multiply-adds in registers.
    pub flops: Option<f64>,
    /// Bytes a second that a large copy reads and writes: one by the device's own means, or one by a kernel, whichever is
    /// faster. On a software adapter the first is, since each access of a kernel costs many instructions.
    pub bytes: Option<f64>,
}

impl Ceilings {
    /// Measures an adapter. `stop` ends it early.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn measure(gpu: &Arc<Gpu>, seed: u64, stop: &dyn Fn() -> bool) -> Result<Self, ExecutionError> {
        let limits = Limits { seconds: 1.0, ..Limits::default() };
        let copy = shapes::copy(&gpu.profile);
        let rate = async |shape: &Shape, of: fn(Cost) -> u64| -> Result<Option<f64>, ExecutionError> {
            let Some(&design) = designs(shape, &gpu.profile).first() else { return Ok(None) };
            let job = KernelJob::new(gpu, shape, design).await?;
            let work = of(job.launch().cost());
            let timing = time_together(&mut [job.launch()], &limits, seed, stop).await.pop();
            Ok(timing.and_then(Result::ok).filter(|_| !stop()).map(|timing| per_second(work, &timing)))
        };
        let flops = rate(&shapes::multiply_add(&gpu.profile), |cost| cost.flops).await?;
        let by_kernel = rate(&copy, |cost| cost.bytes).await?;
        let bytes = 4 * copy.operands.first().map_or(0, |&(elements, _)| elements);
        let mut copies = [Copies { copy: BufferCopy::new(gpu, bytes).await?, gpu }];
        let timing = time_together(&mut copies, &limits, seed, stop).await.pop();
        let by_device = timing.and_then(Result::ok).map(|timing| per_second(copies[0].copy.moved_bytes(), &timing));
        // None is less than any. Of a measurement that was cut short nothing is kept: it would be no ceiling.
        let bytes = if by_kernel > by_device { by_kernel } else { by_device }.filter(|_| !stop());
        Ok(Self { flops, bytes })
    }
}

/// Copies between buffers as work that can be timed.
struct Copies<'a> {
    copy: BufferCopy,
    gpu: &'a Gpu,
}

impl Timed for Copies<'_> {
    type Error = GpuError;

    async fn sample(&mut self, repetitions: u32, _: Clock) -> Result<Sample, GpuError> {
        let ((), wall) = by_wall_clock(self.copy.run(self.gpu, repetitions)).await?;
        Ok(Sample { wall: wall / f64::from(repetitions), device: None })
    }

    fn first_seconds(&self) -> f64 {
        0.0
    }
}

/// So much work in the median's time, a second.
pub fn per_second(work: u64, timing: &Timing) -> f64 {
    work as f64 / timing.seconds.median
}
