//! How much memory the host has to give.

use crate::gpu::{AdapterKind, Profile};

/// Bytes that the buffers of an adapter may take where they lie in the host's memory, as those of a software adapter and of
/// the CPU executor (`None`) do; `None` for a GPU, which says itself what it refuses.
pub fn available_for(profile: Option<&Profile>) -> Option<u64> {
    match profile {
        Some(profile) if profile.kind == AdapterKind::Hardware => None,
        _ => available_bytes(),
    }
}

/// Bytes that can be allocated without swapping; `None` where the system does not tell.
pub fn available_bytes() -> Option<u64> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}
