//! A kernel's parameters: one struct for the host with f64 scalars, and its device form with f32 scalars.

use std::any::Any;
use std::fmt::Debug;

use crate::gpu::ParameterKind;

/// A field of the device form, to be compared with what the shader declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLayout {
    pub name: &'static str,
    pub kind: ParameterKind,
    /// Byte offset in the device struct.
    pub offset: usize,
}

/// The parameters of one kernel; made by [`kernel_parameters!`](crate::tape::kernel_parameters).
pub trait KernelParameters: Clone + Debug + Send + Sync + 'static {
    /// The device struct's fields in order.
    const FIELDS: &'static [FieldLayout];
    /// The device struct's size in bytes.
    const DEVICE_BYTES: usize;

    /// The device form: scalars cast to f32, everything little-endian.
    fn device_bytes(&self) -> Vec<u8>;
}

/// Parameters of a kernel that is known only at run time.
pub trait AnyParameters: Debug + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn device_bytes(&self) -> Vec<u8>;
}

impl<P: KernelParameters> AnyParameters for P {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn device_bytes(&self) -> Vec<u8> {
        KernelParameters::device_bytes(self)
    }
}

/// Declares the parameters of a kernel.
///
/// Field kinds are `u32` (host `u32`), `f32` (host `f64`, cast at upload) and `vec4u` (host `[u32; 4]`, WGSL
/// `vec4<u32>`; place these first, at multiples of 16 bytes). Names and order are those of the WGSL `Params`; a test
/// compares the two.
#[macro_export]
macro_rules! kernel_parameters {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* $field:ident: $kind:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $crate::kernel_parameters!(@host $kind)),+
        }

        const _: () = {
            #[repr(C)]
            #[derive(Clone, Copy, ::bytemuck::Pod, ::bytemuck::Zeroable)]
            struct Device {
                $($field: $crate::kernel_parameters!(@device $kind)),+
            }

            impl $crate::tape::KernelParameters for $name {
                const FIELDS: &'static [$crate::tape::FieldLayout] = &[
                    $($crate::tape::FieldLayout {
                        name: stringify!($field),
                        kind: $crate::kernel_parameters!(@layout $kind),
                        offset: ::std::mem::offset_of!(Device, $field),
                    }),+
                ];
                const DEVICE_BYTES: usize = ::std::mem::size_of::<Device>();

                fn device_bytes(&self) -> Vec<u8> {
                    let device = Device { $($field: $crate::kernel_parameters!(@cast $kind, self.$field)),+ };
                    ::bytemuck::bytes_of(&device).to_vec()
                }
            }
        };
    };
    (@host u32) => { u32 };
    (@host f32) => { f64 };
    (@host vec4u) => { [u32; 4] };
    (@device u32) => { u32 };
    (@device f32) => { f32 };
    (@device vec4u) => { [u32; 4] };
    (@layout u32) => { $crate::gpu::ParameterKind::U32 };
    (@layout f32) => { $crate::gpu::ParameterKind::F32 };
    (@layout vec4u) => { $crate::gpu::ParameterKind::Vec4U32 };
    (@cast f32, $value:expr) => { $value as f32 };
    (@cast $kind:ident, $value:expr) => { $value };
}

pub use crate::kernel_parameters;
