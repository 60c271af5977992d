//! Reading a buffer back without blocking the caller.
//!
//! A browser resolves the mapping from its event loop. Natively somebody must wait on the device for the callback to
//! run: a thread of its own does, so that the future itself only sleeps.

use futures_intrusive::channel::shared::{OneshotReceiver, oneshot_channel};

use super::device::{Gpu, GpuError, one_line};

/// A staging buffer, made once and used for every read; longer reads take several turns.
pub struct ReadBack {
    staging: wgpu::Buffer,
    label: String,
}

/// A read under way: the copy is submitted, the mapping asked for.
pub struct Pending {
    receiver: OneshotReceiver<Result<(), wgpu::BufferAsyncError>>,
    bytes: u64,
}

impl ReadBack {
    /// A staging buffer of `capacity` bytes.
    ///
    /// # Errors
    /// As [`Gpu::allocate`].
    pub async fn new(gpu: &Gpu, label: &str, capacity: u64) -> Result<Self, GpuError> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging = gpu.allocate(&format!("{label} (read-back)"), capacity, usage).await?;
        Ok(Self { staging, label: label.into() })
    }

    /// Copies parts of buffers (buffer, offset, bytes: whole words), one behind the other, and asks for the mapping.
    /// One read at a time; parts past the capacity are left out.
    pub fn begin(&self, gpu: &Gpu, parts: &[(&wgpu::Buffer, u64, u64)]) -> Pending {
        let mut encoder = gpu.encoder(&self.label);
        let mut copied = 0;
        for &(source, offset, bytes) in parts {
            let bytes = bytes.next_multiple_of(4);
            if copied + bytes <= self.staging.size() {
                encoder.copy_buffer_to_buffer(source, offset, &self.staging, copied, Some(bytes));
                copied += bytes;
            }
        }
        let submission = gpu.submit(encoder);
        let (sender, receiver) = oneshot_channel();
        self.staging.slice(..copied).map_async(wgpu::MapMode::Read, move |result| {
            // The receiver is gone only where the caller gave the read up.
            let _ = sender.send(result);
        });
        #[cfg(not(target_arch = "wasm32"))]
        gpu.waiter.wait_for(submission);
        #[cfg(target_arch = "wasm32")]
        drop(submission);
        Pending { receiver, bytes: copied }
    }

    /// Waits for a read that [`ReadBack::begin`] started, and hands out its bytes.
    ///
    /// # Errors
    /// [`GpuError::ReadBack`], or the error that the device reported meanwhile.
    pub async fn finish(&self, gpu: &Gpu, pending: Pending) -> Result<Vec<u8>, GpuError> {
        let failed = |reason: String| GpuError::ReadBack { label: self.label.clone(), reason: one_line(&reason) };
        let mapped = pending.receiver.receive().await;
        gpu.check()?;
        mapped.ok_or_else(|| failed("the device went away".into()))?.map_err(|error| failed(error.to_string()))?;
        let view = self.staging.slice(..pending.bytes).get_mapped_range().map_err(|error| failed(error.to_string()))?;
        let bytes = view.to_vec();
        drop(view);
        self.staging.unmap();
        Ok(bytes)
    }

    /// [`ReadBack::begin`] and [`ReadBack::finish`] in one.
    ///
    /// # Errors
    /// As [`ReadBack::finish`].
    pub async fn read(&self, gpu: &Gpu, source: &wgpu::Buffer, offset: u64, bytes: u64) -> Result<Vec<u8>, GpuError> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let mut result = Vec::with_capacity(bytes as usize);
        let end = offset + bytes;
        let mut at = offset;
        while at < end {
            let part = (end - at).min(self.staging.size());
            let pending = self.begin(gpu, &[(source, at, part)]);
            result.extend(self.finish(gpu, pending).await?);
            at += part;
        }
        result.truncate(bytes as usize);
        Ok(result)
    }
}

/// The thread that waits on the device, so that nobody else has to.
#[cfg(not(target_arch = "wasm32"))]
pub(super) struct Waiter {
    submissions: Option<std::sync::mpsc::Sender<wgpu::SubmissionIndex>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[cfg(not(target_arch = "wasm32"))]
impl Waiter {
    pub(super) fn start(device: wgpu::Device) -> Self {
        let (submissions, queue) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            for submission in queue {
                let waited = device.poll(wgpu::PollType::Wait { submission_index: Some(submission), timeout: None });
                if let Err(error) = waited {
                    tracing::debug!(%error, "waiting for the device failed");
                }
            }
        });
        Self { submissions: Some(submissions), thread: Some(thread) }
    }

    pub(super) fn wait_for(&self, submission: wgpu::SubmissionIndex) {
        if let Some(submissions) = &self.submissions {
            // The thread ends only after this sender is dropped.
            let _ = submissions.send(submission);
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Drop for Waiter {
    fn drop(&mut self) {
        self.submissions = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
