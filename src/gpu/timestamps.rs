//! How long passes took by the adapter's own clock.

use super::device::{Gpu, GpuError};
use super::read_back::ReadBack;

/// Queries of one set, as many as WebGPU grants: two a pass.
const SET_QUERIES: u32 = wgpu::QUERY_SET_MAX_QUERIES;

/// Room for a start and an end of so many passes.
pub struct Timestamps {
    sets: Vec<wgpu::QuerySet>,
    /// The ticks of all sets, one behind the other.
    ticks: wgpu::Buffer,
    read_back: ReadBack,
    passes: usize,
    nanoseconds_a_tick: f64,
}

impl Timestamps {
    /// Room for so many passes; `None` where the adapter has no clock that passes can be timed by.
    ///
    /// # Errors
    /// As [`Gpu::allocate`].
    pub async fn new(gpu: &Gpu, passes: usize) -> Result<Option<Self>, GpuError> {
        if !gpu.profile.timestamps || passes == 0 {
            return Ok(None);
        }
        let count = (2 * passes).div_ceil(SET_QUERIES as usize);
        let set = |_| {
            gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("timestamps"),
                ty: wgpu::QueryType::Timestamp,
                count: SET_QUERIES,
            })
        };
        let bytes = count as u64 * u64::from(SET_QUERIES) * u64::from(wgpu::QUERY_SIZE);
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        Ok(Some(Self {
            sets: (0..count).map(set).collect(),
            ticks: gpu.allocate("timestamps", bytes, usage).await?,
            read_back: ReadBack::new(gpu, "timestamps", bytes).await?,
            passes,
            nanoseconds_a_tick: f64::from(gpu.queue.get_timestamp_period()),
        }))
    }

    /// Passes that there is room for.
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// Where the pass of a number writes its start and its end; `None` beyond the room.
    pub fn writes(&self, pass: usize) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        let (set, query) = (2 * pass / SET_QUERIES as usize, (2 * pass % SET_QUERIES as usize) as u32);
        Some(wgpu::ComputePassTimestampWrites {
            query_set: self.sets.get(set)?,
            beginning_of_pass_write_index: Some(query),
            end_of_pass_write_index: Some(query + 1),
        })
    }

    /// The seconds of the first so many passes, once all queued work is done; `None` for a pass whose end is not after
    /// its start, as drivers have it that do not fill timestamps in.
    ///
    /// # Errors
    /// As [`ReadBack::finish`].
    pub async fn read(&self, gpu: &Gpu, passes: usize) -> Result<Vec<Option<f64>>, GpuError> {
        let passes = passes.min(self.passes);
        let mut encoder = gpu.encoder("timestamps");
        let mut left = 2 * passes as u32;
        for (set, at) in self.sets.iter().zip(0u64..) {
            let queries = left.min(SET_QUERIES);
            if queries > 0 {
                let offset = at * u64::from(SET_QUERIES) * u64::from(wgpu::QUERY_SIZE);
                encoder.resolve_query_set(set, 0..queries, &self.ticks, offset);
            }
            left -= queries;
        }
        gpu.submit(encoder);
        let bytes = self.read_back.read(gpu, &self.ticks, 0, 16 * passes as u64).await?;
        let ticks: Vec<u64> = bytemuck::pod_collect_to_vec(&bytes);
        Ok(ticks.chunks_exact(2).map(|pass| seconds(pass[0], pass[1], self.nanoseconds_a_tick)).collect())
    }
}

/// The time between two ticks; `None` where they do not follow each other.
fn seconds(start: u64, end: u64, nanoseconds_a_tick: f64) -> Option<f64> {
    let ticks = end.checked_sub(start).filter(|_| start > 0)?;
    let seconds = ticks as f64 * nanoseconds_a_tick * 1e-9;
    (seconds.is_finite() && seconds > 0.0).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_that_do_not_follow_each_other_are_no_time() {
        for (start, end, period, expected) in [
            (1000, 3000, 1.0, Some(2e-6)),
            (1000, 3000, 0.5, Some(1e-6)),
            (0, 0, 1.0, None),
            (0, 3000, 1.0, None),
            (3000, 3000, 1.0, None),
            (3000, 1000, 1.0, None),
            (1000, 3000, 0.0, None),
            (1000, 3000, f64::NAN, None),
        ] {
            let found = seconds(start, end, period);
            assert_eq!(found.map(|found| (found * 1e12).round()), expected.map(|wanted: f64| (wanted * 1e12).round()));
        }
    }
}
