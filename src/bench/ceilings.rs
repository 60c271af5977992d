//! What an adapter does at most, measured on it: the two roofs of the roofline model (Williams, Waterman and Patterson
//! 2009). A declared figure of a card says nothing of its driver.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::kernels::{KernelJob, designs};
use super::shapes::{self, Shape};
use super::timing::{Limits, Timing, time_together};
use crate::gpu::Gpu;
use crate::tape::{Cost, ExecutionError};

/// The most that an adapter was seen to do; `None` where it could not be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// Floating-point operations a second: multiply-adds in registers.
    pub flops: Option<f64>,
    /// Bytes a second that a large copy reads and writes.
    pub bytes: Option<f64>,
}

impl Ceilings {
    /// Measures an adapter. `stop` ends it early.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn measure(gpu: &Arc<Gpu>, seed: u64, stop: &dyn Fn() -> bool) -> Result<Self, ExecutionError> {
        let limits = Limits { seconds: 1.0, ..Limits::default() };
        let rate = async |shape: &Shape, of: fn(Cost) -> u64| -> Result<Option<f64>, ExecutionError> {
            let Some(&design) = designs(shape, &gpu.profile).first() else { return Ok(None) };
            let job = KernelJob::new(gpu, shape, design).await?;
            let work = of(job.launch().cost());
            let timing = time_together(&mut [job.launch()], &limits, seed, stop).await.pop();
            Ok(timing.and_then(Result::ok).map(|timing| per_second(work, &timing)))
        };
        Ok(Self {
            flops: rate(&shapes::multiply_add(&gpu.profile), |cost| cost.flops).await?,
            bytes: rate(&shapes::copy(&gpu.profile), |cost| cost.bytes).await?,
        })
    }
}

/// So much work in the median's time, a second.
pub fn per_second(work: u64, timing: &Timing) -> f64 {
    work as f64 / timing.seconds.median
}
