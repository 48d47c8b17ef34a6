//! Syncing of folders.

use std::fs::File;
use std::io;
use std::path::Path;

/// Linux error codes of file systems that do not support an operation.
const EINVAL: i32 = 22;
const EOPNOTSUPP: i32 = 95;

/// Syncs a folder, so that the names in it survive a power failure. Succeeds also on a file system that cannot sync
/// folders.
///
/// # Errors
/// Any other I/O error.
pub fn sync_folder(dir: &Path) -> io::Result<()> {
    match File::open(dir).and_then(|dir| dir.sync_all()) {
        Err(error) if !cannot_sync(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Returns whether the error says that the file system cannot sync folders, as some network file systems cannot.
fn cannot_sync(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EINVAL | EOPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_filesystem_that_cannot_sync_folders_is_excused() {
        assert!([EINVAL, EOPNOTSUPP].iter().all(|&code| cannot_sync(&io::Error::from_raw_os_error(code))));
        // `EIO` and `ENOSPC`.
        assert!(![5, 28].iter().any(|&code| cannot_sync(&io::Error::from_raw_os_error(code))));
    }
}
