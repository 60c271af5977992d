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
    #[error("operand {operand} ('{name}') binds {bytes} bytes, the device's limit is {limit}")]
    BindingTooLarge { operand: usize, name: String, bytes: u64, limit: u64 },
    #[error("operand {operand} ('{name}') has {elements} elements, kernels count to {}", u32::MAX)]
    TooManyElements { operand: usize, name: String, elements: u64 },
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

/// Whether a kernel can count the elements of what it is bound to, wherever it runs.
///
/// # Errors
/// The first operand with more than 32 bits count.
pub fn check_counts(launch: &Launch, buffers: &[TapeBuffer]) -> Result<(), LaunchFault> {
    let beyond = |window: &BufferWindow| window.bytes / 4 > u64::from(u32::MAX);
    match launch.operands.iter().position(beyond) {
        None => Ok(()),
        Some(operand) => {
            let window = &launch.operands[operand];
            let name = buffers.get(window.buffer).map_or(String::new(), |buffer| buffer.name.clone());
            Err(LaunchFault::TooManyElements { operand, name, elements: window.bytes / 4 })
        }
    }
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
        let bytes = buffer.bytes().checked_next_multiple_of(16).unwrap_or(u64::MAX);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::unary;
    use crate::tape::{Category, ElementKind};

    fn buffers(elements: &[u64]) -> Vec<TapeBuffer> {
        let buffer = |(index, &elements): (usize, &u64)| TapeBuffer {
            name: format!("buffer {index}"),
            elements,
            kind: ElementKind::Real,
            category: Category::Workspace,
            persistent: true,
        };
        elements.iter().enumerate().map(buffer).collect()
    }

    fn window(buffer: usize, offset: u64, bytes: u64) -> BufferWindow {
        BufferWindow { buffer, offset, bytes }
    }

    /// A launch of a kernel that reads operand 0 and writes operand 1.
    fn launch(count: u32, operands: Vec<BufferWindow>) -> Launch {
        let parameters = unary::Parameters { count, operation: 0, constant: 0.0 };
        let design = unary::KERNEL.choose(&parameters, &Profile::webgpu_defaults());
        Launch::new(&unary::KERNEL, design, parameters, operands, "test")
    }

    #[test]
    fn what_browsers_refuse_is_refused_by_name() {
        let profile = Profile::webgpu_defaults();
        let limit = profile.limits.binding_bytes;
        let check = |launch: Launch| check_launch(&launch, &buffers(&[256, 256, 1 << 26]), &profile);
        let refused = |operands: Vec<BufferWindow>| check(launch(4, operands)).unwrap_err().to_string();
        assert_eq!(check(launch(256, vec![window(0, 0, 1024), window(1, 0, 1024)])), Ok(()));
        // Two parts of one buffer that do not meet are fine.
        assert_eq!(check(launch(4, vec![window(0, 0, 256), window(0, 256, 256)])), Ok(()));
        for (operands, part) in [
            (vec![window(0, 0, 512), window(0, 256, 512)], "operands 0 and 1 overlap in 'buffer 0'"),
            (vec![window(0, 0, 0), window(1, 0, 16)], "operand 0 is empty"),
            (vec![window(0, 16, 16), window(1, 0, 16)], "no multiple of the device's 256"),
            (vec![window(0, 768, 512), window(1, 0, 16)], "reaches byte 1280 of 'buffer 0', which has 1024"),
            (vec![window(0, 0, 16), window(7, 0, 16)], "names buffer 7, there are 3"),
            (
                vec![window(2, 0, limit + 16), window(1, 0, 16)],
                "binds 134217744 bytes, the device's limit is 134217728",
            ),
            (vec![window(0, 0, 16); 9], "binds 9 storage buffers, 8 is the most"),
        ] {
            let message = refused(operands);
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_launch_without_a_design_says_why_each_cannot_run() {
        let parameters = unary::Parameters { count: 4, operation: u32::MAX, constant: 0.0 };
        let operands = vec![window(0, 0, 16), window(1, 0, 16)];
        let launch = Launch::new(&unary::KERNEL, None, parameters, operands, "test");
        let fault = check_launch(&launch, &buffers(&[4, 4]), &Profile::webgpu_defaults()).unwrap_err();
        assert!(fault.to_string().contains("no design of kernel unary runs here: vec4: "), "{fault}");
    }

    #[test]
    fn workgroups_beyond_one_dimension_are_folded_into_the_next() {
        let workgroups = |limit| launch(1 << 20, Vec::new()).dispatch(limit);
        let [whole, 1, 1] = workgroups(65_535).unwrap() else { panic!("not in one dimension") };
        assert!(whole > 1000, "{whole}");
        let limit = whole / 3;
        let [x, y, z] = workgroups(limit).unwrap();
        assert!(x <= limit && y <= limit && z == 1 && x * y >= whole, "{x} {y} {z} for {whole}");
        assert_eq!(workgroups(20), None);
    }
}
