//! Folders that are removed with their process.

use crate::host::host_tag;
use crate::own_entries::{OwnEntries, is_numbered};
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most folders of one process with the same name.
const MAX_FOLDERS: usize = 256;

/// The folders of this process. A thread that creates a folder or removes those of ended processes holds the lock, so that
/// it never takes the new folder of another thread for that of an ended process with the same id.
static LIVING: Mutex<Vec<(PathBuf, OwnEntries)>> = Mutex::new(Vec::new());

/// A folder `NAME-HOST-PID-NUMBER` that is removed when it is dropped, by [`remove_temporary_folders`], or by the next
/// process of this machine that creates such a folder beside it. Only the entries that were announced when it was created
/// are removed.
///
/// The folder is locked while its process lives. A folder is removed for a process that has ended if its name has the
/// [`host_tag`] of this machine and the id of no running process, and if the lock is free. Process ids alone do not tell
/// containers apart, and locks alone do not tell machines apart.
#[derive(Debug)]
pub struct TemporaryFolder {
    dir: PathBuf,
    process: u32,
    _lock: File,
}

impl TemporaryFolder {
    /// Removes the folders `name` of ended processes from `parent`, and creates one of this process with these permissions,
    /// which the umask restricts. `own` are the entries that it will hold.
    ///
    /// # Errors
    /// Any I/O error of the creation.
    pub fn create(parent: &Path, name: &str, mode: u32, own: OwnEntries) -> io::Result<Self> {
        let mut living = living();
        remove_dead(&living, parent, name, &own);
        let mut number = 0;
        let dir = loop {
            let dir = parent.join(format!("{name}-{}-{}-{number}", host_tag(), std::process::id()));
            match DirBuilder::new().mode(mode).create(&dir) {
                Ok(()) => break dir,
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < MAX_FOLDERS => number += 1,
                Err(error) => return Err(error),
            }
        };
        let lock = File::open(&dir)?;
        // Some network file systems cannot lock folders. There, the folders of ended processes are not removed.
        let _ = lock.try_lock();
        living.push((dir.clone(), own));
        Ok(Self { dir, process: std::process::id(), _lock: lock })
    }

    /// Returns the path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // A forked child has a copy of this value, but the folder is its parent's.
        if self.process != std::process::id() {
            return;
        }
        let mut living = living();
        if let Some(at) = living.iter().position(|(dir, _)| *dir == self.dir) {
            let (dir, own) = living.swap_remove(at);
            // A failure cannot be reported here. The next process tries again.
            let _ = own.remove_from(&dir);
        }
    }
}

/// Removes the temporary folders of this process, before it ends without unwinding.
pub fn remove_temporary_folders() {
    for (dir, own) in living().drain(..) {
        // The process ends anyway, and the next one tries again.
        let _ = own.remove_from(&dir);
    }
}

/// Removes the folders `name` of ended processes of this machine from `parent`.
pub fn remove_dead_folders(parent: &Path, name: &str, own: &OwnEntries) {
    remove_dead(&living(), parent, name, own);
}

fn living() -> MutexGuard<'static, Vec<(PathBuf, OwnEntries)>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remove_dead(living: &[(PathBuf, OwnEntries)], parent: &Path, name: &str, own: &OwnEntries) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        // Opening something else with such a name, such as a pipe, may block.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let file_name = entry.file_name();
        let Some(pid) = file_name.to_str().and_then(|text| process_of(text, name)) else { continue };
        let dir = entry.path();
        // Containers give the same ids to their processes, so a folder with our own id may be that of an earlier process.
        let is_ended = if pid == std::process::id() {
            living.iter().all(|(other, _)| *other != dir)
        } else {
            !Path::new(&format!("/proc/{pid}")).exists()
        };
        if is_ended && File::open(&dir).is_ok_and(|dir| dir.try_lock().is_ok()) {
            // A folder that cannot be removed, such as another user's, only takes space.
            let _ = own.remove_from(&dir);
        }
    }
}

/// Returns the id of the process that has created a folder `name`; `None` for other folders, and for those of other
/// machines.
fn process_of(folder: &str, name: &str) -> Option<u32> {
    let of_host = folder.strip_prefix(name)?.strip_prefix('-')?.strip_prefix(host_tag())?.strip_prefix('-')?;
    is_numbered(of_host, "#-#").then(|| of_host.split_once('-')?.0.parse().ok()).flatten()
}
