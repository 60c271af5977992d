//! The most memory that this process ever had resident, where the system tells.

/// Begins counting anew, as far as the system lets a process do so.
pub fn forget_peak() {
    // See clear_refs in proc(5). Where it is not allowed, the peak is that since the process began: a larger number.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The peak since [`forget_peak`], in bytes; `None` where the system does not tell in this way.
pub fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}
