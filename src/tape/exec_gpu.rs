//! The GPU executor: makes every buffer, pipeline and bind group of a tape once, then only dispatches.

use std::ops::Range;
use std::sync::Arc;

use super::plan::{BufferId, ElementKind, Tape, TapeError};
use crate::gpu::{
    Gpu, GpuError, Pipeline, PipelineError, Pipelines, ReadBack, ShaderError, ShaderSource, Target, Timestamps,
};

/// Floating-point operations after which a new submit begins, so that no submit runs long enough to wake a watchdog
/// (about a tenth of a second on an adapter of 20 GFLOP/s).
const SUBMIT_FLOPS: u64 = 2_000_000_000;
/// Launches after which a new submit begins, whatever they compute.
const SUBMIT_LAUNCHES: usize = 512;

/// A tape that cannot be set up or run on a device.
#[derive(Debug, thiserror::Error)]
pub enum ExecutionError {
    #[error(transparent)]
    Tape(#[from] TapeError),
    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error("kernel {kernel}: {source}")]
    Shader { kernel: &'static str, source: ShaderError },
}

/// A shader text in the place of one launch's own: how a test plants a fault in a tape.
#[derive(Clone, Debug)]
pub struct PlantedFault {
    /// The launch, counted from 0 over all segments.
    pub launch: usize,
    pub source: ShaderSource,
}

struct Dispatch {
    pipeline: Arc<Pipeline>,
    bind_group: wgpu::BindGroup,
    workgroups: [u32; 3],
}

/// A dispatch with its number in a run.
type Numbered<'a> = (usize, &'a Dispatch);

impl Dispatch {
    fn encode(&self, pass: &mut wgpu::ComputePass<'_>) {
        let [x, y, z] = self.workgroups;
        pass.set_pipeline(&self.pipeline.raw);
        pass.set_bind_group(0, &self.bind_group, &[]);
        pass.dispatch_workgroups(x, y, z);
    }
}

/// A tape on a device.
pub struct GpuExecutor {
    gpu: Arc<Gpu>,
    tape: Tape,
    buffers: Vec<wgpu::Buffer>,
    /// Per segment, per submit.
    submits: Vec<Vec<Vec<Dispatch>>>,
    read_back: ReadBack,
}

impl GpuExecutor {
    /// Checks the tape, allocates its buffers, compiles its pipelines and makes its bind groups.
    ///
    /// # Errors
    /// A launch that breaks a rule, a shader that does not stand, memory that the device does not grant.
    pub async fn new(gpu: Arc<Gpu>, tape: Tape, pipelines: &mut Pipelines) -> Result<Self, ExecutionError> {
        Self::build(gpu, tape, pipelines, &|_| None).await
    }

    /// As [`GpuExecutor::new`], with a fault in one launch where one is given.
    ///
    /// # Errors
    /// As [`GpuExecutor::new`].
    pub async fn with_fault(
        gpu: Arc<Gpu>,
        tape: Tape,
        pipelines: &mut Pipelines,
        fault: Option<&PlantedFault>,
    ) -> Result<Self, ExecutionError> {
        let replaced = |launch| fault.filter(|fault| fault.launch == launch).map(|fault| &fault.source);
        Self::build(gpu, tape, pipelines, &replaced).await
    }

    /// As [`GpuExecutor::new`], with one text in the place of every design's own: how a test plants a fault.
    ///
    /// # Errors
    /// As [`GpuExecutor::new`].
    pub async fn with_source(
        gpu: Arc<Gpu>,
        tape: Tape,
        pipelines: &mut Pipelines,
        replaced: Option<&ShaderSource>,
    ) -> Result<Self, ExecutionError> {
        Self::build(gpu, tape, pipelines, &|_| replaced).await
    }

    /// Sets the tape up; `replaced` gives the text of a launch that is not its design's own.
    async fn build<'a>(
        gpu: Arc<Gpu>,
        tape: Tape,
        pipelines: &mut Pipelines,
        replaced: &(dyn Fn(usize) -> Option<&'a ShaderSource> + Sync),
    ) -> Result<Self, ExecutionError> {
        tape.check(Some(&gpu.profile))?;
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let mut buffers = Vec::with_capacity(tape.buffers.len());
        for buffer in &tape.buffers {
            buffers.push(gpu.allocate(&buffer.name, buffer.bytes(), usage).await?);
        }

        // All parameters lie in one uniform buffer, each launch's at its own aligned offset.
        let (offsets, uniform_bytes) = tape.launch_parameter_offsets(&gpu.profile.limits);
        let mut uniforms: Vec<u8> = vec![0; uniform_bytes as usize];
        let mut placed = Vec::with_capacity(offsets.len());
        for (launch, offset) in tape.segments.iter().flat_map(|segment| &segment.launches).zip(offsets) {
            let bytes = launch.parameters.device_bytes();
            placed.push((offset, bytes.len().next_multiple_of(16) as u64));
            uniforms[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        let uniform_usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let uniform_buffer = gpu.allocate(Tape::LAUNCH_PARAMETERS, uniform_bytes, uniform_usage).await?;
        gpu.write(&uniform_buffer, 0, &uniforms);

        let mut submits = Vec::new();
        let mut placed = placed.into_iter().enumerate();
        for segment in &tape.segments {
            let mut of_segment = vec![Vec::new()];
            let mut flops = 0;
            for (launch, (number, (uniform_offset, uniform_bytes))) in segment.launches.iter().zip(&mut placed) {
                let (Some(design), Some(workgroups)) = (launch.design, launch.dispatch(gpu.profile.limits.workgroups))
                else {
                    continue; // `check` has refused such a tape already
                };
                let shader = |source| ExecutionError::Shader { kernel: launch.kernel.name, source };
                let source = match replaced(number) {
                    Some(source) => source.clone(),
                    None => design.source(launch.parameters.as_any(), Target::Native).map_err(shader)?,
                };
                let pipeline = pipelines.get(&gpu, design.file, &source).await.map_err(|error| match error {
                    PipelineError::Shader(source) => shader(source),
                    PipelineError::Gpu(error) => error.into(),
                })?;
                let bindings: Vec<(&wgpu::Buffer, u64, u64)> =
                    std::iter::once((&uniform_buffer, uniform_offset, uniform_bytes))
                        .chain(
                            launch.operands.iter().map(|window| {
                                (&buffers[window.buffer], window.offset, window.bytes.next_multiple_of(16))
                            }),
                        )
                        .collect();
                let bind_group = gpu.bind_group(&launch.label, &pipeline, &bindings);
                let cost = launch.cost();
                if let Some(submit) = of_segment.last()
                    && !submit.is_empty()
                    && (flops + cost.flops > SUBMIT_FLOPS || submit.len() >= SUBMIT_LAUNCHES)
                {
                    of_segment.push(Vec::new());
                    flops = 0;
                }
                flops += cost.flops;
                if let Some(submit) = of_segment.last_mut() {
                    submit.push(Dispatch { pipeline, bind_group, workgroups });
                }
            }
            submits.push(of_segment);
        }
        gpu.check()?;
        let read_back = ReadBack::new(&gpu, "results", tape.read_back_bytes()).await?;
        Ok(Self { gpu, tape, buffers, submits, read_back })
    }

    pub fn tape(&self) -> &Tape {
        &self.tape
    }

    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Queues one segment: submits in order, no waiting.
    ///
    /// # Errors
    /// What the device has reported by now.
    pub fn run(&self, segment: usize) -> Result<(), GpuError> {
        for submit in &self.submits[segment] {
            let mut encoder = self.gpu.encoder(&self.tape.segments[segment].name);
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                submit.iter().for_each(|dispatch| dispatch.encode(&mut pass));
            }
            self.gpu.submit(encoder);
        }
        self.gpu.check()
    }

    /// Queues launches so many times over: each part names a segment and some of its launches. In as few submits as may
    /// be, so that little but the launches takes time.
    ///
    /// # Errors
    /// What the device has reported by now.
    pub fn run_parts(&self, parts: &[(usize, Range<usize>)], repetitions: u32) -> Result<(), GpuError> {
        self.queue(parts, repetitions, &|encoder, dispatches| {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            dispatches.iter().for_each(|(_, dispatch)| dispatch.encode(&mut pass));
        })
    }

    /// As [`GpuExecutor::run_parts`], with a pass of its own for each launch, whose start and end go to `timestamps`; a
    /// launch beyond their room runs untimed.
    ///
    /// # Errors
    /// What the device has reported by now.
    pub fn run_timestamped(
        &self,
        parts: &[(usize, Range<usize>)],
        repetitions: u32,
        timestamps: &Timestamps,
    ) -> Result<(), GpuError> {
        self.queue(parts, repetitions, &|encoder, dispatches| {
            for &(number, dispatch) in dispatches {
                let timestamp_writes = timestamps.writes(number);
                let described = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
                dispatch.encode(&mut encoder.begin_compute_pass(&described));
            }
        })
    }

    /// Submits launches, each with its number, as `encode` writes them down.
    fn queue(
        &self,
        parts: &[(usize, Range<usize>)],
        repetitions: u32,
        encode: &dyn Fn(&mut wgpu::CommandEncoder, &[Numbered<'_>]),
    ) -> Result<(), GpuError> {
        let mut launches = Vec::new();
        for (segment, range) in parts {
            let dispatches = self.submits[*segment].iter().flatten().zip(&self.tape.segments[*segment].launches);
            launches.extend(dispatches.skip(range.start).take(range.len()));
        }
        let submit = |dispatches: &[Numbered<'_>]| {
            let mut encoder = self.gpu.encoder("repeated launches");
            encode(&mut encoder, dispatches);
            self.gpu.submit(encoder);
        };
        let all = (0..repetitions).flat_map(|_| launches.iter());
        let (mut waiting, mut flops) = (Vec::new(), 0u64);
        for (number, &(dispatch, launch)) in all.enumerate() {
            waiting.push((number, dispatch));
            flops = flops.saturating_add(launch.cost().flops);
            if flops >= SUBMIT_FLOPS || waiting.len() >= SUBMIT_LAUNCHES {
                submit(&waiting);
                waiting.clear();
                flops = 0;
            }
        }
        submit(&waiting);
        self.gpu.check()
    }

    /// Queues a write of a buffer's first elements, ordered before the next [`GpuExecutor::run`].
    ///
    /// # Errors
    /// [`TapeError::WrongContents`] where the buffer holds words, or fewer elements.
    pub fn write(&self, buffer: BufferId, values: &[f32]) -> Result<(), TapeError> {
        self.write_checked(buffer, ElementKind::Real, bytemuck::cast_slice(values))
    }

    /// As [`GpuExecutor::write`], for words.
    ///
    /// # Errors
    /// [`TapeError::WrongContents`] where the buffer holds numbers, or fewer elements.
    pub fn write_words(&self, buffer: BufferId, words: &[u32]) -> Result<(), TapeError> {
        self.write_checked(buffer, ElementKind::Words, bytemuck::cast_slice(words))
    }

    fn write_checked(&self, buffer: BufferId, kind: ElementKind, bytes: &[u8]) -> Result<(), TapeError> {
        let described = &self.tape.buffers[buffer];
        if described.kind != kind || bytes.len() as u64 > described.bytes().next_multiple_of(16) {
            let (name, elements) = (described.name.clone(), described.elements);
            return Err(TapeError::WrongContents { name, elements, given: bytes.len() as u64 / 4 });
        }
        self.gpu.write(&self.buffers[buffer], 0, bytes);
        Ok(())
    }

    /// The device buffer, for reads that overlap with running work.
    pub fn device_buffer(&self, buffer: BufferId) -> &wgpu::Buffer {
        &self.buffers[buffer]
    }

    /// The numbers of a buffer, once all queued work is done.
    ///
    /// # Errors
    /// As [`ReadBack::finish`].
    pub async fn read(&self, buffer: BufferId) -> Result<Vec<f32>, GpuError> {
        Ok(bytemuck::pod_collect_to_vec(&self.read_bytes(buffer).await?))
    }

    /// The words of a buffer, once all queued work is done.
    ///
    /// # Errors
    /// As [`ReadBack::finish`].
    pub async fn read_words(&self, buffer: BufferId) -> Result<Vec<u32>, GpuError> {
        Ok(bytemuck::pod_collect_to_vec(&self.read_bytes(buffer).await?))
    }

    async fn read_bytes(&self, buffer: BufferId) -> Result<Vec<u8>, GpuError> {
        let bytes = self.tape.buffers[buffer].bytes();
        self.read_back.read(&self.gpu, &self.buffers[buffer], 0, bytes).await
    }
}
