//! What kernels may know of an adapter when a plan picks their design: plain data, no device needed.

/// Whether an adapter computes on silicon of its own or on the host's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdapterKind {
    /// A discrete, integrated or virtual GPU.
    Hardware,
    /// A driver that runs shaders on the CPU (lavapipe, SwiftShader, WARP).
    Software,
}

/// The range of subgroup widths an adapter may run a shader with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubgroupSizes {
    pub minimum: u32,
    pub maximum: u32,
}

/// The limits a launch or a plan can run into. Bytes, unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingLimits {
    /// Largest window of one storage binding.
    pub binding_bytes: u64,
    /// Largest buffer.
    pub buffer_bytes: u64,
    /// Workgroup memory of one workgroup.
    pub workgroup_bytes: u32,
    /// Invocations in one workgroup.
    pub invocations: u32,
    /// Workgroups in one dimension of a dispatch.
    pub workgroups: u32,
    /// Alignment of a storage binding's offset.
    pub storage_alignment: u64,
    /// Alignment of a uniform binding's offset.
    pub uniform_alignment: u64,
}

/// Storage buffers one launch may bind. WebGPU guarantees eight everywhere, and no more is ever asked for.
pub const STORAGE_BUFFERS: usize = 8;

/// An adapter as the plan sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub name: String,
    pub backend: String,
    pub driver: String,
    pub kind: AdapterKind,
    /// `None` where shaders may not use subgroup operations.
    pub subgroups: Option<SubgroupSizes>,
    pub timestamps: bool,
    pub limits: BindingLimits,
}

impl Profile {
    /// A GPU that grants exactly what WebGPU guarantees: no subgroups, no timestamps, default limits.
    pub fn webgpu_defaults() -> Self {
        Self {
            name: "WebGPU defaults".into(),
            backend: "none".into(),
            driver: String::new(),
            kind: AdapterKind::Hardware,
            subgroups: None,
            timestamps: false,
            limits: BindingLimits {
                binding_bytes: 128 << 20,
                buffer_bytes: 256 << 20,
                workgroup_bytes: 16 << 10,
                invocations: 256,
                workgroups: 65_535,
                storage_alignment: 256,
                uniform_alignment: 256,
            },
        }
    }

    /// The width of every subgroup, where the adapter promises a single one.
    pub fn fixed_subgroup_width(&self) -> Option<u32> {
        self.subgroups.filter(|sizes| sizes.minimum == sizes.maximum).map(|sizes| sizes.minimum)
    }
}
