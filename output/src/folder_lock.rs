//! The reservation of a folder of outputs for one job.

use crate::destination::{destination, folder_of};
use crate::timeouts::{LOCK_INTERVAL, LOCK_TIMEOUT, LOST_LOCK_TIMEOUT};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The start of the name of the file that is locked. Network file systems share locks on files with other machines, but no
/// locks on folders.
const LOCK_FILE: &str = ".edgecut-lock-";

/// The reservation of a folder for the outputs of this process. No other process can take it while this value lives. The
/// file of the lock is removed with it; the file of a process that was killed does not reserve the folder.
///
/// Nodes of a job may share a folder, so only one process of a job takes it, usually rank 0. On file systems without
/// locks, and in folders where this process may not create a file, nothing is reserved.
#[derive(Debug)]
pub struct FolderLock {
    /// The file and its path; `None` if nothing is reserved.
    locked: Option<(File, PathBuf)>,
    /// The process that has taken the folder, since a forked child has a copy of this value.
    process: u32,
}

impl FolderLock {
    /// Reserves a folder, which must exist, for one kind of outputs, which names the lock: a job may write others to it. Waits a few
    /// seconds for another process of this machine to end, and minutes for one of another machine, which may be lost.
    ///
    /// # Errors
    /// [`ErrorKind::ResourceBusy`] if another process keeps the folder; the error names both. Any other I/O error of the
    /// file.
    pub fn take(dir: &Path, outputs: &str) -> io::Result<Self> {
        Self::take_within(dir, outputs, LOCK_TIMEOUT)
    }

    /// Reserves a file, which need not exist, in the same way. Its folder must exist, and may have other outputs.
    ///
    /// # Errors
    /// As for [`FolderLock::take`]; a path without a file name, or a cycle of links.
    pub fn take_file(path: &Path) -> io::Result<Self> {
        let file = destination(path)?;
        let name = file.file_name().ok_or(ErrorKind::InvalidInput)?;
        Self::take(folder_of(&file), &name.to_string_lossy())
    }

    fn take_within(dir: &Path, outputs: &str, limit: Duration) -> io::Result<Self> {
        let path = dir.join(format!("{LOCK_FILE}{outputs}"));
        let process = std::process::id();
        let start = Instant::now();
        loop {
            let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
            let mut file = match opened {
                Ok(file) => file,
                // The outputs themselves will fail if they are written here.
                Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
                    return Ok(Self { locked: None, process });
                }
                Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
            };
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => {
                    // The text only serves the errors of others.
                    let _ = file.set_len(0).and_then(|()| file.write_all(process_name().as_bytes()));
                    return Ok(Self { locked: Some((file, path)), process });
                }
                // The last owner has removed the file meanwhile.
                Ok(()) => continue,
                Err(TryLockError::WouldBlock) => {}
                // The file system has no locks.
                Err(TryLockError::Error(_)) => {
                    let _ = fs::remove_file(&path);
                    return Ok(Self { locked: None, process });
                }
            }
            let owner = fs::read_to_string(&path).unwrap_or_default();
            if start.elapsed() >= if is_elsewhere(&owner) { limit.max(LOST_LOCK_TIMEOUT) } else { limit } {
                let owner = owner.lines().next().unwrap_or_default();
                let what = format!(
                    "another job writes {outputs} to the folder {}{}{owner}: wait until it has ended, or choose another folder or name",
                    dir.display(),
                    if owner.is_empty() { "" } else { ", " }
                );
                return Err(io::Error::new(ErrorKind::ResourceBusy, what));
            }
            std::thread::sleep(LOCK_INTERVAL);
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        if let Some((_file, path)) = &self.locked
            && self.process == std::process::id()
        {
            // The file is still locked, so it is not the file of another process. If it stays, it does no harm.
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns true if `path` leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(own), Ok(found)) => (own.dev(), own.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// Returns the name of this process for other processes, which may run on other machines, and a line with the identity of this
/// machine.
fn process_name() -> String {
    format!("process {} on {}\n{}", std::process::id(), line_of("/proc/sys/kernel/hostname"), machine())
}

/// Returns true if the process with this name runs on another machine, or has run on this one before it was started again.
fn is_elsewhere(owner: &str) -> bool {
    !owner.is_empty() && owner.lines().nth(1) != Some(machine().as_str())
}

/// Returns the identity of this machine since its start. A pod of Kubernetes has the host name and the process id of the pod that it
/// replaces on another machine.
fn machine() -> String {
    let boot = line_of("/proc/sys/kernel/random/boot_id");
    if boot.is_empty() { line_of("/proc/sys/kernel/hostname") } else { boot }
}

/// Returns the line of a file; nothing if it cannot be read.
fn line_of(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_owner_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        // A process that was killed has left its file.
        fs::write(dir.path().join(format!("{LOCK_FILE}logs")), "process 1 on a machine that has failed").unwrap();
        let lock = FolderLock::take(dir.path(), "logs").unwrap();
        // A job may write others to the same folder.
        drop(FolderLock::take(dir.path(), "checkpoints").unwrap());
        let error = FolderLock::take_within(dir.path(), "logs", Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        let text = error.to_string();
        let owner = format!("{}, process {} on ", dir.path().display(), std::process::id());
        assert!(text.contains(&owner) && text.contains("choose another folder"), "{text}");
        // Its folder may be taken as soon as it ends.
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| FolderLock::take(dir.path(), "logs").map(drop));
            drop(lock);
            waiting.join().unwrap().unwrap();
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_process_of_the_same_name_on_another_machine_is_elsewhere() {
        let own = process_name();
        let name = own.lines().next().unwrap();
        assert!(name.starts_with(&format!("process {} on ", std::process::id())), "{name}");
        // The file may be read before its owner has written its name.
        assert!(!is_elsewhere(&own) && !is_elsewhere(""));
        assert!(is_elsewhere(name) && is_elsewhere(&format!("{name}\n00000000-0000-0000-0000-000000000000")));
    }

    #[test]
    fn a_file_has_one_owner_at_a_time_by_whatever_path() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("latest");
        std::os::unix::fs::symlink("model", &link).unwrap();
        let lock = FolderLock::take_file(&link).unwrap();
        let error = FolderLock::take_within(dir.path(), "model", Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        drop(FolderLock::take_file(&dir.path().join("metrics")).unwrap());
        drop(lock);
        FolderLock::take_file(&dir.path().join("model")).unwrap();
        assert!(FolderLock::take_file(&dir.path().join("none/model")).is_err());
    }
}
