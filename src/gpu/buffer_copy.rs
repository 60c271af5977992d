//! A copy from one buffer to another by the device's own means, over and over: what its memory gives.

use super::device::{Gpu, GpuError};
use super::read_back::ReadBack;

/// Two buffers of one size.
pub struct BufferCopy {
    from: wgpu::Buffer,
    to: wgpu::Buffer,
    bytes: u64,
    read_back: ReadBack,
}

impl BufferCopy {
    /// Two buffers of whole words, the first filled.
    ///
    /// # Errors
    /// As [`Gpu::allocate`].
    pub async fn new(gpu: &Gpu, bytes: u64) -> Result<Self, GpuError> {
        let bytes = (bytes & !3).max(4);
        let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let from = gpu.allocate("copied from", bytes, usage).await?;
        let to = gpu.allocate("copied to", bytes, usage).await?;
        // Memory that was never written may not be there yet.
        let part = vec![0x3f; bytes.min(1 << 20) as usize];
        let mut at = 0;
        while at < bytes {
            let length = (bytes - at).min(1 << 20);
            gpu.write(&from, at, &part[..length as usize]);
            at += length;
        }
        Ok(Self { from, to, bytes, read_back: ReadBack::new(gpu, "copied", 4).await? })
    }

    /// Bytes that one copy reads and writes.
    pub fn moved_bytes(&self) -> u64 {
        2 * self.bytes
    }

    /// Copies so many times over and waits for the end.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn run(&self, gpu: &Gpu, repetitions: u32) -> Result<(), GpuError> {
        let mut encoder = gpu.encoder("copies");
        for _ in 0..repetitions {
            encoder.copy_buffer_to_buffer(&self.from, 0, &self.to, 0, Some(self.bytes));
        }
        gpu.submit(encoder);
        self.read_back.read(gpu, &self.to, 0, 4).await.map(|_| ())
    }
}
