//! Folders for unpacked arrays.

use crate::GraphError;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// The start of the names of the folders.
const PREFIX: &str = "edgecut-unpacked-";
/// The file that the owner of a folder holds a lock on.
const LOCK_FILE: &str = "lock";

/// The folders of this process.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A folder that is removed when it is dropped, by [`remove_unpacked_folders`], or by the next process that creates one
/// beside it.
pub(super) struct UnpackedFolder {
    dir: TempDir,
    _lock: File,
}

impl UnpackedFolder {
    /// Creates a folder in `parent`, and removes those of processes that have ended.
    pub(super) fn create(parent: &Path) -> Result<Self, GraphError> {
        remove_abandoned(parent);
        let failed = |error| GraphError::io(parent, error);
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent).map_err(failed)?;
        // The file is locked before it has its name, so that no other process takes the folder for an abandoned one.
        let lock = tempfile::NamedTempFile::new_in(dir.path()).map_err(failed)?;
        lock.as_file().lock().map_err(failed)?;
        let lock = lock.persist(dir.path().join(LOCK_FILE)).map_err(|error| failed(error.error))?;
        FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).push(dir.path().to_path_buf());
        Ok(Self { dir, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for UnpackedFolder {
    fn drop(&mut self) {
        FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).retain(|dir| dir != self.dir.path());
    }
}

/// Removes the folders of unpacked arrays that this process uses, before it ends without unwinding.
pub fn remove_unpacked_folders() {
    for dir in FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // The process ends anyway, and the next one tries again.
        let _ = std::fs::remove_dir_all(dir);
    }
}

/// Removes the folders in `parent` whose processes have ended.
fn remove_abandoned(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let dir = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // A folder without the file was created just now.
        let Ok(file) = File::open(dir.join(LOCK_FILE)) else { continue };
        if file.try_lock().is_ok() {
            // What cannot be removed does not matter to this process.
            let _ = std::fs::remove_dir_all(&dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_removed_when_their_process_has_ended() {
        let parent = tempfile::tempdir().unwrap();
        let living = UnpackedFolder::create(parent.path()).unwrap();
        let abandoned = parent.path().join(format!("{PREFIX}x"));
        std::fs::create_dir(&abandoned).unwrap();
        std::fs::write(abandoned.join(LOCK_FILE), "").unwrap();
        let next = UnpackedFolder::create(parent.path()).unwrap();
        assert!(!abandoned.exists() && living.path().exists());
        drop(next);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
    }
}
