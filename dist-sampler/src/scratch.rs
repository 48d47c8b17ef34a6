//! Folders for what only lives as long as it is being passed on.

use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Result};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What the names of these folders begin with; the id of the process follows.
const PREFIX: &str = "edgecut-dataset-";
/// Folders of one process at a time, or of processes with the same id in containers that share the folder above.
const MAX_FOLDERS: usize = 256;

/// A folder of this process, which only its user may read; removed when dropped.
///
/// It is locked while its process lives, so that a later run can tell a dead one's folder.
pub(crate) struct Scratch {
    dir: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Makes a folder in `parent`, and removes those that dead processes have left there.
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
        // Some network filesystems lock no folders; there, what a dead run leaves stays.
        let _ = lock.try_lock();
        Ok(Self { dir, _lock: lock })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // There is nobody to tell of a failure: the next run tries again.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Removes what processes that were killed while they shared a dataset have left in the system's temporary folder.
/// [`share_dataset`](crate::share_dataset) does so too; this is for who has watched such a process end.
pub fn remove_abandoned() {
    remove_dead(&std::env::temp_dir());
}

fn remove_dead(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
        let dead = pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        // A file of that name that is no folder is not ours, and opening a pipe could take for ever.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if dead && is_folder && File::open(entry.path()).is_ok_and(|dir| dir.try_lock().is_ok()) {
            // What cannot be removed, such as another user's, does no harm but for the space it takes.
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
        // Process ids end below 2^22, so that this one was never alive; process 1 always is.
        let (dead, alive) = (format!("{PREFIX}4194999-0"), format!("{PREFIX}1-0"));
        for name in [dead.as_str(), alive.as_str(), "edgecut-dataset", "edgecut-dataset-x-0"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        let first = Scratch::create(root.path()).unwrap();
        let second = Scratch::create(root.path()).unwrap();
        assert!(first.dir().is_dir() && second.dir().is_dir() && first.dir() != second.dir());
        drop(first);
        drop(second);
        assert_eq!(names(root.path()), ["edgecut-dataset", &alive, "edgecut-dataset-x-0"]);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error() {
        assert!(Scratch::create(Path::new("/nonexistent")).is_err());
    }
}
