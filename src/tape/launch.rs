//! One kernel launch: plain data that either executor can run.

use std::sync::Arc;

use super::kernel::{Cost, DesignInfo, Kernel};
use super::parameters::{AnyParameters, KernelParameters};
use super::plan::BufferId;

/// A part of a buffer that a launch binds, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferWindow {
    pub buffer: BufferId,
    pub offset: u64,
    pub bytes: u64,
}

/// A kernel, its parameters and the buffers it works on.
#[derive(Clone)]
pub struct Launch {
    pub kernel: &'static Kernel,
    /// `None` where only the CPU executor will run it.
    pub design: Option<DesignInfo>,
    pub parameters: Arc<dyn AnyParameters>,
    /// In the order of the shader's bindings from 1 on.
    pub operands: Vec<BufferWindow>,
    /// What the launch is for, as a reader of the plan should see it.
    pub label: String,
    /// Whether it computes again what an earlier launch did, with the same bits.
    pub repeats: bool,
}

impl Launch {
    pub fn new<P: KernelParameters>(
        kernel: &'static Kernel,
        design: Option<DesignInfo>,
        parameters: P,
        operands: Vec<BufferWindow>,
        label: impl Into<String>,
    ) -> Self {
        Self { kernel, design, parameters: Arc::new(parameters), operands, label: label.into(), repeats: false }
    }

    pub fn cost(&self) -> Cost {
        (self.kernel.cost)(self.parameters.as_any())
    }

    /// The dispatch of the launch: workgroups that exceed `limit` in x are folded into y. A shader that can be folded
    /// counts its workgroups as `workgroup_id.x + workgroup_id.y * num_workgroups.x` and bounds them by `Params`.
    ///
    /// `None` where no design was chosen or even the fold does not fit.
    pub fn dispatch(&self, limit: u32) -> Option<[u32; 3]> {
        let [x, y, z] = self.design?.workgroups(self.parameters.as_any());
        let limit = u64::from(limit);
        let (x, y) = if x > limit && y == 1 { (x.div_ceil(x.div_ceil(limit)), x.div_ceil(limit)) } else { (x, y) };
        let fits = x <= limit && y <= limit && z <= limit;
        fits.then_some([x as u32, y as u32, z as u32])
    }
}

impl std::fmt::Debug for Launch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Launch")
            .field("kernel", &self.kernel.name)
            .field("design", &self.design.map(|design| design.name))
            .field("label", &self.label)
            .field("parameters", &self.parameters)
            .field("operands", &self.operands)
            .finish()
    }
}
