//! The memory of this process.

/// Returns the resident memory of this process in bytes, or `None` where the system does not report it.
pub fn resident_bytes() -> Option<u64> {
    bytes_of("VmRSS:")
}

/// Returns the part of this memory that no file backs.
pub(crate) fn anonymous_bytes() -> Option<u64> {
    bytes_of("RssAnon:")
}

fn bytes_of(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
