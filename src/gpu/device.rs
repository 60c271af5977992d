//! A device with its queue: allocation, submission and the errors a driver reports late.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_intrusive::sync::ManualResetEvent;

use super::faults::{AllocationCount, DeviceFaults};
use super::profile::{Profile, STORAGE_BUFFERS};

/// What can go wrong between this program and a GPU.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GpuError {
    #[error(
        "no GPU or software adapter was found (backends tried: {tried}); {}, or use --device cpu",
        GpuError::DRIVER_FIX
    )]
    NoAdapter { tried: String },
    #[error(
        "no adapter matches '{name}' (backends tried: {tried}; adapters here: {available}); `headlight info` lists them"
    )]
    NoSuchAdapter { name: String, tried: String, available: String },
    #[error("the adapter '{adapter}' refused a device: {reason}")]
    DeviceRefused { adapter: String, reason: String },
    #[error("out of memory: '{label}' needs {bytes} bytes, which the device did not grant")]
    OutOfMemory { label: String, bytes: u64 },
    #[error(
        "'{label}' needs {bytes} bytes and the device's buffers hold {limit}; try a smaller --batch or --context-length"
    )]
    BufferTooLarge { label: String, bytes: u64, limit: u64 },
    #[error("the device was lost: {reason}")]
    Lost { reason: String },
    #[error("the device rejected '{label}': {reason}")]
    Rejected { label: String, reason: String },
    #[error("'{label}' could not be read back: {reason}")]
    ReadBack { label: String, reason: String },
}

impl GpuError {
    /// How to get an adapter where there is none.
    pub const DRIVER_FIX: &str = "install a Vulkan driver (on Debian or Ubuntu: apt-get install mesa-vulkan-drivers)";
}

/// A device, its queue and what it reported so far.
pub struct Gpu {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub profile: Profile,
    reported: Arc<Mutex<Option<GpuError>>>,
    lost: Arc<ManualResetEvent>,
    allocations: AllocationCount,
    allocated_bytes: AtomicU64,
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) waiter: super::read_back::Waiter,
}

impl Gpu {
    /// Opens a device with all of the adapter's limits, but for storage buffers a launch: those stay at the eight that
    /// every WebGPU device has, so that no kernel grows past what a browser runs.
    ///
    /// # Errors
    /// [`GpuError::DeviceRefused`] with the driver's reason.
    pub async fn open(adapter: &wgpu::Adapter) -> Result<Self, GpuError> {
        Self::open_with(adapter, DeviceFaults::default()).await
    }

    /// As [`Gpu::open`], with faults that a test asks for.
    ///
    /// # Errors
    /// As [`Gpu::open`].
    pub async fn open_with(adapter: &wgpu::Adapter, faults: DeviceFaults) -> Result<Self, GpuError> {
        let info = adapter.get_info();
        let mut required_limits = faults.limits(adapter.limits());
        required_limits.max_storage_buffers_per_shader_stage = STORAGE_BUFFERS as u32;
        let wanted = wgpu::Features::SUBGROUP | wgpu::Features::TIMESTAMP_QUERY;
        let (device, queue) = adapter
            .request_device(&wgpu::DeviceDescriptor {
                label: Some("headlight"),
                required_features: faults.features(adapter.features()) & wanted,
                required_limits,
                ..Default::default()
            })
            .await
            .map_err(|error| GpuError::DeviceRefused { adapter: info.name.clone(), reason: error.to_string() })?;
        let profile = super::adapter::granted_profile(info, &device.limits(), device.features());

        let reported = Arc::new(Mutex::new(None));
        let sink = reported.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            report(&sink, GpuError::Rejected { label: "a command".into(), reason: one_line(&error.to_string()) });
        }));
        let sink = reported.clone();
        let lost = Arc::new(ManualResetEvent::new(false));
        let lost_now = lost.clone();
        device.set_device_lost_callback(move |reason, message| {
            let reason = match reason {
                wgpu::DeviceLostReason::Destroyed => "it was destroyed".into(),
                wgpu::DeviceLostReason::Unknown => one_line(&message),
            };
            report(&sink, GpuError::Lost { reason });
            lost_now.set();
        });
        Ok(Self {
            #[cfg(not(target_arch = "wasm32"))]
            waiter: super::read_back::Waiter::start(device.clone()),
            device,
            queue,
            profile,
            reported,
            lost,
            allocations: AllocationCount::new(faults),
            allocated_bytes: AtomicU64::new(0),
        })
    }

    /// Loses the device for good, as a driver does that resets the hardware: what is queued still runs, everything
    /// later is refused. Returns once the loss is known, so that the next [`Gpu::check`] tells of it. For tests.
    pub async fn lose(&self) {
        // The device tells of its end once its queue is empty and somebody waits for it.
        let last = self.submit(self.encoder("last"));
        self.device.destroy();
        #[cfg(not(target_arch = "wasm32"))]
        self.waiter.wait_for(last);
        #[cfg(target_arch = "wasm32")]
        drop(last);
        self.lost.wait().await;
    }

    /// The first error the device reported outside of a call, if any.
    ///
    /// # Errors
    /// That error.
    pub fn check(&self) -> Result<(), GpuError> {
        match &*self.reported.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Creates a buffer of [`allocation_bytes`] for `bytes`. Contents start as zero.
    ///
    /// # Errors
    /// [`GpuError::BufferTooLarge`] before asking, [`GpuError::OutOfMemory`] where the device refuses.
    pub async fn allocate(&self, label: &str, bytes: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer, GpuError> {
        self.allocations.next(label, bytes)?;
        let size = allocation_bytes(bytes);
        let limit = self.profile.limits.buffer_bytes;
        if size > limit {
            return Err(GpuError::BufferTooLarge { label: label.into(), bytes, limit });
        }
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        #[expect(clippy::disallowed_methods, reason = "the one place that creates buffers")]
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size,
            usage,
            mapped_at_creation: false,
        });
        match memory.pop().await {
            Some(_) => Err(GpuError::OutOfMemory { label: label.into(), bytes }),
            None => {
                self.allocated_bytes.fetch_add(size, Ordering::Relaxed);
                Ok(buffer)
            }
        }
    }

    /// The sizes of all buffers that were made so far, added up. What the driver keeps beside them it does not tell.
    pub fn allocated_bytes(&self) -> u64 {
        self.allocated_bytes.load(Ordering::Relaxed)
    }

    /// How many buffers were asked for so far.
    pub fn allocations(&self) -> u64 {
        self.allocations.made()
    }

    /// Queues a write of whole words. The copy is ordered before the next [`Gpu::submit`].
    pub fn write(&self, buffer: &wgpu::Buffer, offset: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.queue.write_buffer(buffer, offset, bytes);
        }
    }

    /// Starts a command list.
    pub fn encoder(&self, label: &str) -> wgpu::CommandEncoder {
        self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some(label) })
    }

    /// Submits a command list; returns once it is queued, not once it is done.
    pub fn submit(&self, encoder: wgpu::CommandEncoder) -> wgpu::SubmissionIndex {
        self.queue.submit([encoder.finish()])
    }

    /// A bind group for a pipeline's only group: `(buffer, offset, size)` in binding order.
    pub fn bind_group(
        &self,
        label: &str,
        pipeline: &super::Pipeline,
        bindings: &[(&wgpu::Buffer, u64, u64)],
    ) -> wgpu::BindGroup {
        let entries: Vec<wgpu::BindGroupEntry<'_>> = bindings
            .iter()
            .zip(0..)
            .map(|(&(buffer, offset, size), binding)| wgpu::BindGroupEntry {
                binding,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer,
                    offset,
                    size: wgpu::BufferSize::new(size),
                }),
            })
            .collect();
        self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(label),
            layout: &pipeline.layout,
            entries: &entries,
        })
    }
}

/// The size of the buffer that is made for `bytes`: rounded up to 16, so that a vec4 at the end lies inside.
pub fn allocation_bytes(bytes: u64) -> u64 {
    bytes.max(16).checked_next_multiple_of(16).unwrap_or(u64::MAX)
}

fn report(sink: &Mutex<Option<GpuError>>, error: GpuError) {
    tracing::debug!(%error, "the device reported an error");
    sink.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
}

/// Driver messages come in paragraphs; errors here are one line.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
