//! The memory that this process can still allocate.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder where Linux mounts control groups.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// The names of the files of a memory control group.
struct GroupFiles {
    limit: &'static str,
    usage: &'static str,
    /// The entries of `memory.stat` that count cached files. The kernel reclaims these before an allocation fails.
    cache: [&'static str; 2],
}

const VERSION_1: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cache: ["total_active_file", "total_inactive_file"],
};
const VERSION_2: GroupFiles =
    GroupFiles { limit: "memory.max", usage: "memory.current", cache: ["active_file", "inactive_file"] };

/// Returns the number of bytes that processes can still allocate on this machine: the kernel's estimate, or the rest of
/// a container's limit if that is less. Returns `None` on systems without this information.
pub(crate) fn available_memory_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| entry(&text, "MemAvailable:"));
    let machine = machine.map(|kibibytes| kibibytes.saturating_mul(1024));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let left = groups.lines().filter_map(left_of_line).min();
    machine.into_iter().chain(left).min()
}

/// Returns the bytes left in the control group of a line of `/proc/self/cgroup`: `0::/path` in version 2,
/// `5:memory:/path` in version 1.
fn left_of_line(line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':');
    let _hierarchy = fields.next()?;
    let controllers = fields.next()?;
    let path = fields.next()?;
    if controllers.is_empty() {
        return left_of_groups(Path::new(CGROUP_ROOT), path, &VERSION_2);
    }
    let is_memory = controllers.split(',').any(|controller| controller == "memory");
    is_memory.then(|| left_of_groups(&Path::new(CGROUP_ROOT).join("memory"), path, &VERSION_1)).flatten()
}

/// Returns the smallest number of bytes left in a group and its ancestors. A container sees only some of them.
fn left_of_groups(root: &Path, path: &str, files: &GroupFiles) -> Option<u64> {
    let group: PathBuf = root.join(path.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|folder| folder.starts_with(root));
    groups.filter_map(|folder| left_of_group(folder, files)).min()
}

fn left_of_group(folder: &Path, files: &GroupFiles) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    // A group without a limit has the text "max" here, which does not parse.
    let limit: u64 = read(files.limit)?.trim().parse().ok()?;
    let usage: u64 = read(files.usage)?.trim().parse().ok()?;
    let stat = read("memory.stat").unwrap_or_default();
    let cache: u64 = files.cache.iter().filter_map(|name| entry(&stat, name)).sum();
    Some(limit.saturating_sub(usage.saturating_sub(cache)))
}

/// Returns the number that follows a name at the start of a line.
fn entry(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_of_a_group_and_its_parents_counts() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let inner = root.path().join("job/step");
        fs::create_dir_all(&inner).expect("folders");
        let write = |folder: &Path, name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
        let left = || left_of_groups(root.path(), "/job/step", &VERSION_2);
        assert_eq!(left(), None);
        write(&inner, "memory.max", "max\n");
        write(&inner, "memory.current", "10\n");
        assert_eq!(left(), None, "a group without a limit");
        write(&root.path().join("job"), "memory.max", "1000\n");
        write(&root.path().join("job"), "memory.current", "700\n");
        assert_eq!(left(), Some(300));
        write(&root.path().join("job"), "memory.stat", "anon 5\ninactive_file 600\n");
        assert_eq!(left(), Some(900), "cached files are given up");
        write(&inner, "memory.max", "50\n");
        assert_eq!(left(), Some(40));
    }

    #[test]
    fn this_machine_has_memory() {
        if cfg!(target_os = "linux") {
            assert!(available_memory_bytes().is_some_and(|bytes| bytes > 1 << 20));
        }
    }
}
