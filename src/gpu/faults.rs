//! Faults of a device that a test asks for: what drivers do at the worst moment, on demand and at a known place.

use std::sync::atomic::{AtomicU64, Ordering};

use super::GpuError;

/// What a device is to lack or refuse. The default is a device without planted faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceFaults {
    /// The allocation that is refused, counted from 1.
    pub allocation: Option<u64>,
    /// Grant no more than the limits that WebGPU guarantees.
    pub default_limits: bool,
    /// Grant no subgroup operations.
    pub no_subgroups: bool,
}

impl DeviceFaults {
    /// The features a device is opened with, where the adapter has `available`.
    pub(super) fn features(self, available: wgpu::Features) -> wgpu::Features {
        if self.no_subgroups { available - wgpu::Features::SUBGROUP } else { available }
    }

    /// The limits a device is opened with, where the adapter has `available`.
    pub(super) fn limits(self, available: wgpu::Limits) -> wgpu::Limits {
        if self.default_limits { wgpu::Limits::default() } else { available }
    }
}

/// Counts the allocations of a device and refuses the one that was asked for.
#[derive(Debug, Default)]
pub(super) struct AllocationCount {
    made: AtomicU64,
    refused: Option<u64>,
}

impl AllocationCount {
    pub(super) fn new(faults: DeviceFaults) -> Self {
        Self { made: AtomicU64::new(0), refused: faults.allocation }
    }

    /// Counts one more.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`] for the one that was asked for.
    pub(super) fn next(&self, label: &str, bytes: u64) -> Result<(), GpuError> {
        let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        if self.refused == Some(number) {
            return Err(GpuError::OutOfMemory { label: label.into(), bytes });
        }
        Ok(())
    }

    pub(super) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_allocation_that_was_asked_for_is_refused() {
        let count = AllocationCount::new(DeviceFaults { allocation: Some(3), ..Default::default() });
        let granted: Vec<bool> = (0..5).map(|_| count.next("weights", 64).is_ok()).collect();
        assert_eq!(granted, [true, true, false, true, true]);
        assert_eq!(count.made(), 5);
        let count = AllocationCount::new(DeviceFaults::default());
        assert!((0..5).all(|_| count.next("weights", 64).is_ok()));
    }
}
