//! The device floor: choosing an adapter, owning a device, assembling and reflecting shaders, caching pipelines,
//! reading buffers back, timestamps. Knows nothing of tensors or training.

mod adapter;
mod buffer_copy;
mod device;
mod faults;
mod pipeline;
mod profile;
mod read_back;
mod reflect;
mod shader;
mod timestamps;

pub use adapter::{AdapterDescription, Choice, Selection, describe_adapters, select};
pub use buffer_copy::BufferCopy;
pub use device::{Gpu, GpuError, allocation_bytes};
pub use faults::DeviceFaults;
pub use pipeline::{Pipeline, PipelineError, Pipelines};
pub use profile::{AdapterKind, BindingLimits, Profile, STORAGE_BUFFERS, SubgroupSizes};
pub use read_back::{Pending, ReadBack};
pub use reflect::{Access, ParameterField, ParameterKind, Reflection, ShaderBinding, reflect};
pub use shader::{Constant, ConstantValue, Piece, ShaderError, ShaderSource, Target};
pub use timestamps::Timestamps;
