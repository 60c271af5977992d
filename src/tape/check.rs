//! The launch check: what WebGPU refuses and native drivers let through is refused here, before anything runs.

use super::launch::{BufferWindow, Launch};
use super::plan::TapeBuffer;
use crate::gpu::{Profile, STORAGE_BUFFERS};

/// Why a launch cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchFault {
    #[error("operand {operand} names buffer {buffer}, there are {buffers}")]
    NoSuchBuffer { operand: usize, buffer: usize, buffers: usize },
    #[error("operand {operand} reaches byte {end} of '{name}', which has {bytes}")]
    OutOfBuffer { operand: usize, name: String, end: u64, bytes: u64 },
    #[error("operand {operand} is empty: a binding needs at least one element")]
    Empty { operand: usize },
    #[error("operand {operand} starts at byte {offset}, which is no multiple of the device's {alignment}")]
    Misaligned { operand: usize, offset: u64, alignment: u64 },
    #[error(
        "operand {operand} ('{name}') binds {bytes} bytes, the device's limit is {limit}; a smaller context or batch fits"
    )]
    BindingTooLarge { operand: usize, name: String, bytes: u64, limit: u64 },
    #[error("operands {first} and {second} overlap in '{name}' and one of them is written")]
    Overlap { first: usize, second: usize, name: String },
    #[error("binds {count} storage buffers, {STORAGE_BUFFERS} is the most that every device has")]
    TooManyBuffers { count: usize },
    #[error("needs {x} x {y} x {z} workgroups, the device counts {limit} in one dimension")]
    TooManyWorkgroups { x: u64, y: u64, z: u64, limit: u32 },
    #[error("no design of kernel {kernel} runs here: {reasons}")]
    NoDesign { kernel: &'static str, reasons: String },
}

fn end(window: &BufferWindow) -> u64 {
    window.offset.saturating_add(window.bytes)
}

/// Checks one launch against the buffers it names and the device it is for.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_launch(launch: &Launch, buffers: &[TapeBuffer], profile: &Profile) -> Result<(), LaunchFault> {
    if launch.operands.len() > STORAGE_BUFFERS {
        return Err(LaunchFault::TooManyBuffers { count: launch.operands.len() });
    }
    for (operand, window) in launch.operands.iter().enumerate() {
        let buffer = buffers.get(window.buffer).ok_or(LaunchFault::NoSuchBuffer {
            operand,
            buffer: window.buffer,
            buffers: buffers.len(),
        })?;
        let name = || buffer.name.clone();
        if window.bytes == 0 {
            return Err(LaunchFault::Empty { operand });
        }
        // An allocation is rounded up to whole vec4, and a window may use that tail.
        let bytes = buffer.bytes().next_multiple_of(16);
        if end(window) > bytes {
            return Err(LaunchFault::OutOfBuffer { operand, name: name(), end: end(window), bytes });
        }
        let alignment = profile.limits.storage_alignment;
        if !window.offset.is_multiple_of(alignment) {
            return Err(LaunchFault::Misaligned { operand, offset: window.offset, alignment });
        }
        let limit = profile.limits.binding_bytes;
        if window.bytes > limit {
            return Err(LaunchFault::BindingTooLarge { operand, name: name(), bytes: window.bytes, limit });
        }
        let writes = |operand: usize| launch.kernel.writes.contains(&operand);
        for (earlier, other) in launch.operands[..operand].iter().enumerate() {
            let meets = other.buffer == window.buffer && other.offset < end(window) && window.offset < end(other);
            if meets && (writes(operand) || writes(earlier)) {
                return Err(LaunchFault::Overlap { first: earlier, second: operand, name: name() });
            }
        }
    }
    let parameters = launch.parameters.as_any();
    let Some(design) = launch.design else {
        let reasons = launch
            .kernel
            .candidates(parameters, profile)
            .into_iter()
            .filter_map(|(design, fits)| fits.err().map(|reason| format!("{}: {reason}", design.name)))
            .collect::<Vec<_>>();
        return Err(LaunchFault::NoDesign { kernel: launch.kernel.name, reasons: reasons.join("; ") });
    };
    let limit = profile.limits.workgroups;
    if launch.dispatch(limit).is_none() {
        let [x, y, z] = design.workgroups(parameters);
        return Err(LaunchFault::TooManyWorkgroups { x, y, z, limit });
    }
    Ok(())
}
