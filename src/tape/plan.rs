//! The tape: named buffers and segments of launches.

use super::check::{LaunchFault, check_counts, check_launch};
use super::launch::Launch;
use crate::gpu::Profile;

/// A buffer's place in [`Tape::buffers`].
pub type BufferId = usize;

/// What a buffer is kept for; the memory ledger is grouped by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    Parameter,
    Gradient,
    OptimizerState,
    /// What the forward pass computes and the backward pass reads.
    Activation,
    /// `[.., Tq, Tk]`: scores, weights and their gradients.
    AttentionScores,
    /// What fused attention keeps of a row of scores: its log-sum-exp and the two numbers that it is made of.
    LogSumExp,
    /// Logits and their gradients.
    Logits,
    /// Values that are done with before the pass is over.
    Workspace,
    /// Tokens and targets.
    Input,
    /// Step scalars, losses, norms and flags.
    Control,
    /// The uniform buffer that holds the parameters of all launches.
    LaunchParameters,
    /// Buffers that results are copied into to be read by the host.
    ReadBack,
}

impl Category {
    /// In the order of the ledger.
    pub const ALL: [Self; 12] = [
        Self::Parameter,
        Self::Gradient,
        Self::OptimizerState,
        Self::Activation,
        Self::AttentionScores,
        Self::LogSumExp,
        Self::Logits,
        Self::Workspace,
        Self::Input,
        Self::Control,
        Self::LaunchParameters,
        Self::ReadBack,
    ];

    /// As the ledger prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parameter => "parameters",
            Self::Gradient => "gradients",
            Self::OptimizerState => "optimizer state",
            Self::Activation => "activations",
            Self::AttentionScores => "attention scores",
            Self::LogSumExp => "log-sum-exp",
            Self::Logits => "logits",
            Self::Workspace => "workspace",
            Self::Input => "input",
            Self::Control => "control",
            Self::LaunchParameters => "launch parameters",
            Self::ReadBack => "read-back",
        }
    }
}

/// What the elements of a buffer are. Both take four bytes on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementKind {
    Real,
    Words,
}

/// One allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct TapeBuffer {
    pub name: String,
    pub elements: u64,
    pub kind: ElementKind,
    pub category: Category,
    /// Contents live from one run of the tape to the next (weights, moments, inputs); never pooled.
    pub persistent: bool,
}

impl TapeBuffer {
    /// Bytes on the device; the largest number there is where no u64 counts them.
    pub fn bytes(&self) -> u64 {
        self.elements.saturating_mul(4)
    }
}

/// A value that lives in an allocation, alone or in turn with others.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    pub name: String,
    pub shape: Vec<u64>,
    pub elements: u64,
    /// The allocation.
    pub buffer: BufferId,
    /// `None` for what lives on between runs.
    pub lifetime: Option<Lifetime>,
}

/// First and last launch of a segment that touch a value, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    pub segment: usize,
    pub first: usize,
    pub last: usize,
}

/// A named run of launches: a micro-step, an update, an evaluation.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    pub name: String,
    pub launches: Vec<Launch>,
}

/// Launches over buffers: all that an executor needs.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    pub buffers: Vec<TapeBuffer>,
    pub segments: Vec<Segment>,
    /// Which values live in which buffers, for whoever wants to know; nothing that runs depends on it.
    pub tenants: Vec<Tenant>,
}

/// A tape that cannot run as it stands.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TapeError {
    #[error("launch {index} of segment '{segment}' ({label}): {fault}")]
    Launch { segment: String, index: usize, label: String, fault: LaunchFault },
    #[error("there is no segment '{name}'; there are {known}")]
    NoSegment { name: String, known: String },
    #[error("'{name}' needs a buffer of {bytes} bytes, the device's largest is {limit}")]
    BufferTooLarge { name: String, bytes: u64, limit: u64 },
    #[error("the run needs {bytes} bytes of memory and {available} are available")]
    OutOfMemory { bytes: u64, available: u64 },
    #[error("buffer '{name}' of {bytes} bytes was not granted")]
    NotGranted { name: String, bytes: u64 },
    #[error("buffer '{name}' holds {elements} elements of another kind or number than the {given} given")]
    WrongContents { name: String, elements: u64, given: u64 },
}

impl Tape {
    /// A tape put together by hand, of whose buffers nobody keeps a ledger.
    pub fn new(buffers: Vec<TapeBuffer>, segments: Vec<Segment>) -> Self {
        Self { buffers, segments, tenants: Vec::new() }
    }

    /// The segment of that name.
    ///
    /// # Errors
    /// [`TapeError::NoSegment`], listing those there are.
    pub fn segment(&self, name: &str) -> Result<usize, TapeError> {
        self.segments.iter().position(|segment| segment.name == name).ok_or_else(|| TapeError::NoSegment {
            name: name.into(),
            known: self.segments.iter().map(|segment| segment.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Holds every launch to what its kernel can count, and, where it is for a device, every buffer and launch to the rules
    /// that browsers enforce and native drivers may not.
    ///
    /// # Errors
    /// The largest buffer that the device does not make, else the first launch with a fault.
    pub fn check(&self, profile: Option<&Profile>) -> Result<(), TapeError> {
        let limit = profile.map_or(u64::MAX, |profile| profile.limits.buffer_bytes);
        if let Some(largest) = self.buffers.iter().rev().max_by_key(|buffer| buffer.bytes())
            && largest.bytes() > limit
        {
            return Err(TapeError::BufferTooLarge { name: largest.name.clone(), bytes: largest.bytes(), limit });
        }
        for segment in &self.segments {
            for (index, launch) in segment.launches.iter().enumerate() {
                let checked = check_counts(launch, &self.buffers)
                    .and_then(|()| profile.map_or(Ok(()), |profile| check_launch(launch, &self.buffers, profile)));
                checked.map_err(|fault| TapeError::Launch {
                    segment: segment.name.clone(),
                    index,
                    label: launch.label.clone(),
                    fault,
                })?;
            }
        }
        Ok(())
    }
}
