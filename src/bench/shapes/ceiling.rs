//! What an adapter moves and computes at most.

use super::Shape;
use crate::gpu::{AdapterKind, Profile};
use crate::kernel::strides;
use crate::kernel::{copy as copy_kernel, multiply_add as multiply_add_kernel};

/// A copy that is larger than caches are, within what a binding holds.
pub fn copy(profile: &Profile) -> Shape {
    let wanted: u64 = match profile.kind {
        AdapterKind::Software => 16 << 20,
        AdapterKind::Hardware => 64 << 20,
    };
    let elements = wanted.min(profile.limits.binding_bytes / 4).min(profile.limits.buffer_bytes / 4) / 256 * 256;
    let (shape_low, shape_high) = strides::split(&[elements as u32], 1).unwrap_or_default();
    let (steps_low, steps_high) = strides::split(&[1], 0).unwrap_or_default();
    let parameters = copy_kernel::Parameters {
        shape_low,
        shape_high,
        x_strides_low: steps_low,
        x_strides_high: steps_high,
        y_strides_low: steps_low,
        y_strides_high: steps_high,
        count: elements as u32,
        x_offset: 0,
        y_offset: 0,
    };
    let name = format!("{} MiB", elements >> 18);
    Shape::new(&copy_kernel::KERNEL, name, parameters, &[elements; 2])
}

/// Multiply-adds in registers: some milliseconds of them.
pub fn multiply_add(profile: &Profile) -> Shape {
    let (count, rounds): (u32, u32) = match profile.kind {
        AdapterKind::Software => (1 << 16, 1024),
        AdapterKind::Hardware => (1 << 24, 512),
    };
    let parameters = multiply_add_kernel::Parameters { count, rounds, factor: 0.5, addend: 1.0 };
    let name = format!("{count} elements, {rounds} rounds");
    Shape::new(&multiply_add_kernel::KERNEL, name, parameters, &[u64::from(count); 2])
}
