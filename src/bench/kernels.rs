//! One design of one kernel, alone.

use std::sync::Arc;

use super::shapes::Shape;
use super::timed_tape::{BufferContents, TimedLaunches, TimedTape};
use crate::gpu::{Gpu, Profile};
use crate::tape::{
    BufferWindow, Category, DesignInfo, ElementKind, ExecutionError, HostBuffer, Launch, Segment, Tape, TapeBuffer,
    normal,
};

/// Words that are written are below this: token ids of any vocabulary, and the first is a flag that is not set.
const MOST_WORD: u32 = 2;

/// A launch of a shape on a device, compiled and run once.
pub struct KernelJob {
    tape: TimedTape,
}

/// The designs of a shape's kernel that run it on an adapter: the one that a plan takes first, then the others in the
/// order of the kernel's list.
pub fn designs(shape: &Shape, profile: &Profile) -> Vec<DesignInfo> {
    let parameters = shape.parameters.as_any();
    let chosen = shape.kernel.choose(parameters, profile).map(|design| design.name);
    let mut designs = (shape.kernel.designs)();
    designs.retain(|design| design.fits(parameters, profile).is_ok());
    designs.sort_by_key(|design| Some(design.name) != chosen);
    designs
}

/// One launch over buffers of its own.
fn tape(shape: &Shape, design: DesignInfo) -> Tape {
    let buffers: Vec<TapeBuffer> = shape
        .operands
        .iter()
        .map(|&(elements, kind)| TapeBuffer {
            name: shape.name.clone(),
            elements,
            kind,
            category: Category::Workspace,
            persistent: true,
        })
        .collect();
    let windows = buffers.iter().enumerate();
    let windows = windows.map(|(buffer, described)| BufferWindow { buffer, offset: 0, bytes: described.bytes() });
    let launch = Launch {
        repeats: false,
        kernel: shape.kernel,
        design: Some(design),
        parameters: shape.parameters.clone(),
        operands: windows.collect(),
        label: shape.name.clone(),
    };
    Tape::new(buffers, vec![Segment { name: "launch".into(), launches: vec![launch] }])
}

impl KernelJob {
    /// Sets a launch up and runs it once.
    ///
    /// # Errors
    /// A shape that the adapter cannot run, memory that is not granted, a device that fails.
    pub async fn new(gpu: &Arc<Gpu>, shape: &Shape, design: DesignInfo) -> Result<Self, ExecutionError> {
        let tape = tape(shape, design);
        // Ordinary numbers: zeros or subnormal numbers may be faster or slower. So many are enough to be ordinary.
        let drawn = normal(1, 0, 4096, 1.0);
        let contents: Vec<BufferContents> = (0..)
            .zip(&shape.operands)
            .map(|(buffer, &(elements, kind))| {
                let elements = elements as usize;
                let contents = match kind {
                    ElementKind::Real => {
                        HostBuffer::Real(drawn.iter().copied().cycle().skip(buffer).take(elements).collect())
                    }
                    ElementKind::Words => {
                        HostBuffer::Words((0..elements as u32).map(|word| word % MOST_WORD).collect())
                    }
                };
                (buffer, contents)
            })
            .collect();
        Ok(Self { tape: TimedTape::new(Some(gpu), tape, &contents).await? })
    }

    /// The launch as work that can be timed.
    pub fn launch(&self) -> TimedLaunches<'_> {
        self.tape.segments(0..1)
    }

    /// Seconds of setting up and of the first run, compiling included.
    pub fn first_seconds(&self) -> f64 {
        self.tape.first_seconds()
    }
}

#[cfg(test)]
mod tests {
    use super::super::shapes;
    use super::*;
    use crate::gpu::{AdapterKind, SubgroupSizes};

    fn software() -> Profile {
        let subgroups = Some(SubgroupSizes { minimum: 8, maximum: 8 });
        Profile { kind: AdapterKind::Software, subgroups, ..Profile::webgpu_defaults() }
    }

    #[test]
    fn every_kernel_has_a_shape() {
        let shapes = shapes::all(&software());
        for kernel in crate::kernel::KERNELS {
            assert!(shapes.iter().any(|shape| shape.kernel.name == kernel.name), "{}", kernel.name);
        }
    }

    #[test]
    fn every_shape_is_one_that_a_plan_could_launch_on_any_adapter() {
        for profile in [Profile::webgpu_defaults(), software()] {
            for shape in shapes::all(&profile) {
                let found = designs(&shape, &profile);
                let chosen = shape.kernel.choose(shape.parameters.as_any(), &profile).unwrap();
                assert_eq!(found[0].name, chosen.name, "{} {}", shape.kernel.name, shape.name);
                for design in found {
                    let tape = tape(&shape, design);
                    assert_eq!(tape.check(Some(&profile)), Ok(()), "{} {}", design.name, shape.name);
                    let cost = tape.segments[0].launches[0].cost();
                    assert!(cost.flops + cost.bytes > 0, "{} {}", shape.kernel.name, shape.name);
                }
            }
        }
    }
}
