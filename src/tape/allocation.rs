//! Every buffer that an executor makes for a tape: what the memory ledger predicts, and what the executors ask for.

use super::plan::{Category, Tape, TapeBuffer};
use crate::gpu::{BindingLimits, allocation_bytes};

/// The most that is staged for one read; larger buffers are read in turns.
const READ_BACK_BYTES: u64 = 16 << 20;

/// One buffer that is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub name: String,
    /// As made: rounded up.
    pub bytes: u64,
    pub category: Category,
}

impl Allocation {
    /// A device buffer that is asked for with `bytes`.
    pub fn on_device(name: impl Into<String>, bytes: u64, category: Category) -> Self {
        Self { name: name.into(), bytes: allocation_bytes(bytes), category }
    }
}

impl Tape {
    /// Every buffer that an executor makes for this tape, the tape's own first: on a device with these limits, or in host
    /// memory, in f32.
    pub fn allocations(&self, limits: Option<&BindingLimits>) -> Vec<Allocation> {
        let own = self.buffers.iter().map(|buffer| match limits {
            Some(_) => Allocation::on_device(&buffer.name, buffer.bytes(), buffer.category),
            None => Allocation {
                name: buffer.name.clone(),
                bytes: buffer.host_elements().saturating_mul(4),
                category: buffer.category,
            },
        });
        let mut allocations: Vec<Allocation> = own.collect();
        if let Some(limits) = limits {
            let uniforms = self.launch_parameter_offsets(limits).1;
            allocations.push(Allocation::on_device(Self::LAUNCH_PARAMETERS, uniforms, Category::LaunchParameters));
            allocations.push(Allocation::on_device(Self::READ_BACK, self.read_back_bytes(), Category::ReadBack));
        }
        allocations
    }

    /// The name of the uniform buffer that all launches share.
    pub(super) const LAUNCH_PARAMETERS: &'static str = "launch parameters";
    /// The name of the buffer that results are staged in.
    const READ_BACK: &'static str = "results (read-back)";

    /// Where the parameters of each launch lie in the uniform buffer that all share, and how large it is.
    pub(super) fn launch_parameter_offsets(&self, limits: &BindingLimits) -> (Vec<u64>, u64) {
        let alignment = limits.uniform_alignment.max(16);
        let mut end = 0;
        let offsets = self
            .segments
            .iter()
            .flat_map(|segment| &segment.launches)
            .map(|launch| {
                let offset = end;
                end += (launch.kernel.device_bytes as u64).next_multiple_of(alignment);
                offset
            })
            .collect();
        (offsets, end)
    }

    /// The size of the buffer that results are staged in.
    pub(super) fn read_back_bytes(&self) -> u64 {
        self.buffers.iter().map(TapeBuffer::bytes).max().unwrap_or(0).min(READ_BACK_BYTES)
    }
}

impl TapeBuffer {
    /// Elements in host memory: rounded up like a device buffer, so that the same windows fit.
    pub(super) fn host_elements(&self) -> u64 {
        self.elements.max(1).checked_next_multiple_of(4).unwrap_or(u64::MAX)
    }
}
