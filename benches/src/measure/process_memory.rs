//! The memory of a process, read from `/proc`.

use std::fs;

/// The resident memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessMemory {
    /// The largest resident set so far, including mapped files.
    pub(crate) peak_bytes: u64,
    /// The current private memory of the process.
    pub(crate) anonymous_bytes: u64,
    /// The current pages of mapped files, which the system can reclaim and other processes share.
    pub(crate) file_bytes: u64,
}

impl ProcessMemory {
    /// Returns the memory of this process.
    pub(crate) fn own() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/status").ok()?)
    }

    /// Returns the memory of a running process.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
    }

    fn parse(status: &str) -> Option<Self> {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
        };
        let anonymous_bytes = field("RssAnon")?;
        Some(Self { peak_bytes: field("VmHWM")?, anonymous_bytes, file_bytes: field("RssFile")? })
    }

    /// Returns the maximum of each field.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            peak_bytes: self.peak_bytes.max(other.peak_bytes),
            anonymous_bytes: self.anonymous_bytes.max(other.anonymous_bytes),
            file_bytes: self.file_bytes.max(other.file_bytes),
        }
    }
}

/// Resets the peak of this process to its current resident set. Without the permission to do so, the peak remains that
/// since the start of the process.
pub(crate) fn reset_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Returns the running child processes of `pid`.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let numbers = |text: String| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok()).flat_map(numbers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_system_writes() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 99 kB\nRssAnon:\t 1 kB\nRssFile:\t 7 kB\n";
        let expected = ProcessMemory { peak_bytes: 2 << 20, anonymous_bytes: 1024, file_bytes: 7 * 1024 };
        assert_eq!(ProcessMemory::parse(status), Some(expected));
        assert_eq!(ProcessMemory::parse("Name:\tzombie\n"), None);
    }
}
