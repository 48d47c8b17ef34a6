//! The space of the folder through which the processes of a machine share data.

use edgecut_graph::shown_bytes;
use rustix::fs::{statfs, statvfs};
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// The types of file systems in memory, from Linux's `magic.h`.
const MEMORY_FILE_SYSTEMS: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Returns the system's temporary folder if it is in memory. Data that [`share_dataset`](crate::share_dataset) writes
/// there takes memory until the job ends, since the kernel cannot drop it.
pub fn temporary_folder_in_memory() -> Option<PathBuf> {
    let folder = std::env::temp_dir();
    let kind = statfs(&folder).ok()?.f_type;
    MEMORY_FILE_SYSTEMS.contains(&(kind as i64)).then_some(folder)
}

/// Fails if the file system of a folder has less than `needed` bytes left.
pub(crate) fn check_space(folder: &Path, needed: u64) -> Result<()> {
    let found = statvfs(folder)?;
    let left = found.f_bavail.saturating_mul(found.f_frsize);
    // Some network file systems do not tell their size.
    if left >= needed || found.f_blocks == 0 {
        return Ok(());
    }
    let what = format!("{} are needed, but {} are free", shown_bytes(needed), shown_bytes(left));
    Err(Error::new(ErrorKind::StorageFull, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_enough_space_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        check_space(folder.path(), 1).unwrap();
        let error = check_space(folder.path(), u64::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert!(error.to_string().contains(" are free"), "{error}");
    }
}
