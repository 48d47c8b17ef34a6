//! Temporary folders that a run removes, including those of killed runs.

use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Result};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The prefix of the folders' names. The id of the process follows.
const PREFIX: &str = "edgecut-dataset-";
/// The most folders that share a process id: those of one process, or of processes in containers with a common parent
/// folder.
const MAX_FOLDERS: usize = 256;

/// A temporary folder of this process. Only its user may read it. It is removed on drop.
///
/// The folder is locked while its process lives, so that a later run recognizes the folders of dead processes.
pub(crate) struct TemporaryFolder {
    dir: PathBuf,
    _lock: File,
}

impl TemporaryFolder {
    /// Makes a folder in `parent`, and removes the folders of dead processes there.
    pub(crate) fn create(parent: &Path) -> Result<Self> {
        remove_dead(parent);
        let mut number = 0;
        let dir = loop {
            let dir = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&dir) {
                Ok(()) => break dir,
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < MAX_FOLDERS => number += 1,
                Err(error) => return Err(error),
            }
        };
        let lock = File::open(&dir)?;
        // Some network filesystems cannot lock folders. Folders of dead runs stay there if locking fails.
        let _ = lock.try_lock();
        Ok(Self { dir, _lock: lock })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // A failure cannot be reported here. The next run tries again.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Removes the folders that killed processes have left in the system's temporary folder.
/// [`share_dataset`](crate::share_dataset) does this too. For programs that have seen such a process end.
pub fn remove_abandoned() {
    remove_dead(&std::env::temp_dir());
}

fn remove_dead(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
        let dead = pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        // Skip other file types with such a name: they are not from this module, and opening a pipe may block.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if dead && is_folder && File::open(entry.path()).is_ok_and(|dir| dir.try_lock().is_ok()) {
            // A folder that cannot be removed, such as another user's, only takes space.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn folders_of_the_living_are_apart_and_those_of_the_dead_are_removed() {
        let root = tempfile::tempdir().unwrap();
        // Process ids are below 2^22, so this id was never used. Process 1 always exists.
        let dead = format!("{PREFIX}4194999-0");
        let alive = format!("{PREFIX}1-0");
        for name in [dead.as_str(), alive.as_str(), "edgecut-dataset", "edgecut-dataset-x-0"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        let first = TemporaryFolder::create(root.path()).unwrap();
        let second = TemporaryFolder::create(root.path()).unwrap();
        assert!(first.dir().is_dir() && second.dir().is_dir() && first.dir() != second.dir());
        drop(first);
        drop(second);
        assert_eq!(names(root.path()), ["edgecut-dataset", &alive, "edgecut-dataset-x-0"]);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error() {
        assert!(TemporaryFolder::create(Path::new("/nonexistent")).is_err());
    }
}
