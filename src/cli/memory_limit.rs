//! An allocator that a process can give a limit, after which allocations fail: for the process that traces scripts.
//!
//! The system's own limits differ (macOS does not hold a process to its address space, Windows has no such limit), and a
//! script can ask for gigabytes in a single call that nothing interrupts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

/// Bytes that may still be allocated; while it is `isize::MAX` nothing is counted.
static LEFT: AtomicIsize = AtomicIsize::new(isize::MAX);

/// Lets this process allocate so many bytes more, counting what it gives back.
pub fn limit(bytes: usize) {
    LEFT.store(isize::try_from(bytes).unwrap_or(isize::MAX - 1), Ordering::Relaxed);
}

/// The system's allocator, with [`limit`].
pub struct LimitedAllocator;

impl LimitedAllocator {
    fn take(bytes: usize) -> bool {
        if LEFT.load(Ordering::Relaxed) == isize::MAX {
            return true;
        }
        let bytes = isize::try_from(bytes).unwrap_or(isize::MAX);
        let taken = LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(bytes).filter(|&rest| rest >= 0)
        });
        taken.is_ok()
    }

    fn give_back(bytes: usize) {
        if LEFT.load(Ordering::Relaxed) != isize::MAX {
            // What was allocated before the limit is given back as well: the sum must not reach the mark for "no limit".
            let add = |left: isize| Some(left.saturating_add_unsigned(bytes).min(isize::MAX - 1));
            let _ = LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        }
    }
}

// SAFETY: each method hands its arguments to `System` unchanged, or refuses with null, which the trait allows.
unsafe impl GlobalAlloc for LimitedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !Self::take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises about `layout` are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Self::give_back(layout.size());
        // SAFETY: `pointer` came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !Self::take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !Self::take(size) {
            return std::ptr::null_mut();
        }
        Self::give_back(layout.size());
        // SAFETY: `pointer` came from `System` with this layout, and `size` is what the caller promised it to be.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
