//! The tape: named buffers and segments of launches.

use super::launch::Launch;

/// A buffer's place in [`Tape::buffers`].
pub type BufferId = usize;

/// What a buffer is kept for; the memory ledger is grouped by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    Parameter,
    Gradient,
    OptimizerState,
    Activation,
    AttentionScores,
    LogSumExp,
    Logits,
    Input,
    Workspace,
    Control,
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
    /// Bytes on the device.
    pub fn bytes(&self) -> u64 {
        self.elements * 4
    }
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
}

/// A tape that cannot run as it stands.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TapeError {
    #[error("launch {index} of segment '{segment}' ({label}): {fault}")]
    Launch { segment: String, index: usize, label: String, fault: super::LaunchFault },
    #[error("there is no segment '{name}'; there are {known}")]
    NoSegment { name: String, known: String },
    #[error("the run needs {bytes} bytes of memory and {available} are available")]
    OutOfMemory { bytes: u64, available: u64 },
    #[error("buffer '{name}' of {bytes} bytes was not granted")]
    NotGranted { name: String, bytes: u64 },
    #[error("buffer '{name}' holds {elements} elements of another kind or number than the {given} given")]
    WrongContents { name: String, elements: u64, given: u64 },
}

impl Tape {
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

    /// Holds every launch against the rules that browsers enforce and native drivers may not.
    ///
    /// # Errors
    /// The first fault, with its launch.
    pub fn check(&self, profile: &crate::gpu::Profile) -> Result<(), TapeError> {
        for segment in &self.segments {
            for (index, launch) in segment.launches.iter().enumerate() {
                super::check_launch(launch, &self.buffers, profile).map_err(|fault| TapeError::Launch {
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
