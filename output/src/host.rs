//! The identity of a running machine, by which it recognizes its own temporary files.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// The number of hexadecimal digits of [`host_tag`].
pub(crate) const TAG_DIGITS: usize = 8;

/// Returns eight hexadecimal digits that stand for this machine since it was started, for the names of temporary files.
///
/// Locks show whether the process that made a file is alive, but some network file systems keep locks on each machine for
/// itself. A machine therefore removes temporary files with its own tag only. All containers of a machine have one tag.
/// Each process has a tag of its own if the system does not identify the machine.
pub fn host_tag() -> &'static str {
    static TAG: OnceLock<String> = OnceLock::new();
    TAG.get_or_init(|| {
        let hash = match fs::read("/proc/sys/kernel/random/boot_id") {
            Ok(boot) => fnv1a(&boot),
            Err(_) => random(),
        };
        format!("{:0TAG_DIGITS$x}", hash as u32 ^ (hash >> 32) as u32)
    })
}

/// Returns a random number, from the random keys of the standard library's hasher.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns the FNV-1a hash, which is the same in every build of every program.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
