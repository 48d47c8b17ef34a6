//! A file that replaces its destination once it is complete.

use crate::destination::{folder_of, regular_destination};
use crate::host::{TAG_DIGITS, host_tag, random};
use crate::sync::sync_folder;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The extension of a temporary file.
const SUFFIX: &str = "partial";
/// The number of random hexadecimal digits in a temporary file's name, after the tag of the machine.
const RANDOM_DIGITS: usize = 8;
/// The number of names to try for a temporary file.
const MAX_NAMES: usize = 8;

/// A file under a temporary name in the folder of its destination, `.NAME.RANDOM.partial`. [`OutputFile::commit`]
/// renames it to its destination; dropping it without a commit removes it.
///
/// The file is locked while it is open. [`remove_abandoned`] recognizes the files of killed processes by the missing
/// lock. The first digits of `RANDOM` are the [`host_tag`], since other machines may not see the lock.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    temporary: PathBuf,
    destination: PathBuf,
    is_committed: bool,
}

impl OutputFile {
    /// Creates the temporary file. If `path` is a symbolic link, the commit replaces its target and keeps the link. The
    /// commit keeps the permissions of the file that it replaces.
    ///
    /// # Errors
    /// `path` refers to a directory, a device, a pipe or a socket; its folder is missing; or any other I/O error.
    pub fn create(path: &Path) -> io::Result<Self> {
        let destination = regular_destination(path)?;
        let name = destination.file_name().ok_or(ErrorKind::InvalidInput)?;
        for _ in 0..MAX_NAMES {
            let mut temporary_name = prefix(name);
            temporary_name.push(format!("{}{:0RANDOM_DIGITS$x}.{SUFFIX}", host_tag(), random() as u32));
            let temporary = folder_of(&destination).join(temporary_name);
            let file = match OpenOptions::new().read(true).write(true).create_new(true).open(&temporary) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) if error.kind() == ErrorKind::NotFound => return Err(why_no_folder(&destination, error)),
                opened => opened?,
            };
            // Some network file systems cannot lock files. There, the files of killed processes are not removed.
            let is_taken = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
            let output = Self { file, temporary, destination: destination.clone(), is_committed: false };
            // Between creation and lock, another process may have locked the file as abandoned, or removed it.
            if is_taken || !output.temporary.exists() {
                continue;
            }
            return Ok(output);
        }
        Err(io::Error::new(ErrorKind::AlreadyExists, "no free name found for the temporary file"))
    }

    /// Returns the file to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the path of the temporary file, for code that opens files by path. That code must write into the
    /// existing file and must not replace it.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Syncs the content to disk and renames the file to its destination. A reader of the path sees the old file or the
    /// new one, never a part of either.
    ///
    /// # Errors
    /// Something other than a regular file has appeared at the destination, or any other I/O error. An error before the
    /// rename leaves the old file in place.
    pub fn commit(mut self) -> io::Result<()> {
        regular_destination(&self.destination)?;
        if let Ok(replaced) = fs::metadata(&self.destination) {
            self.file.set_permissions(replaced.permissions())?;
        }
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.destination)?;
        self.is_committed = true;
        // Without this, a power failure may undo the rename.
        sync_folder(folder_of(&self.destination))
    }
}

/// Returns the error about a file that cannot be created: its folder does not exist, unless the system says something else.
fn why_no_folder(path: &Path, error: io::Error) -> io::Error {
    let folder = folder_of(path);
    if folder.is_dir() {
        return error;
    }
    let why = format!("the folder {} does not exist: create it, or choose another path", folder.display());
    io::Error::new(ErrorKind::NotFound, why)
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if !self.is_committed {
            // The caller already has an error to report. A leftover file is harmless: `remove_abandoned` finds it.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Replaces the content of `path` atomically, by an [`OutputFile`].
///
/// # Errors
/// As [`OutputFile::create`] and [`OutputFile::commit`].
pub fn write_output(path: &Path, content: &[u8]) -> io::Result<()> {
    let output = OutputFile::create(path)?;
    output.file().write_all(content)?;
    output.commit()
}

/// Checks that `path` can be written, by creating and removing a temporary file. Also removes temporary files of `path`
/// that killed processes have left. Call it before a long computation whose result goes to `path`.
///
/// # Errors
/// As [`OutputFile::create`].
pub fn check_output(path: &Path) -> io::Result<()> {
    let output = OutputFile::create(path)?;
    remove_abandoned(&output.destination)
}

/// Removes the temporary files of `path` that this machine has written and that no running process holds open.
///
/// # Errors
/// If the folder cannot be read.
pub fn remove_abandoned(path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else { return Ok(()) };
    remove_abandoned_in(folder_of(path), |written| written == name)
}

/// Removes the temporary files in a folder that this machine has written and that no running process holds open, for
/// outputs whose names `is_output` accepts.
///
/// # Errors
/// If the folder cannot be read.
pub fn remove_abandoned_in(dir: &Path, is_output: impl Fn(&OsStr) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let file_name = entry.file_name();
        let temporary = file_name.to_str().and_then(temporary_parts);
        if !temporary.is_some_and(|(name, random)| random.starts_with(host_tag()) && is_output(name.as_ref())) {
            continue;
        }
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if let Ok(file) = File::open(entry.path())
            && is_file
            && file.try_lock().is_ok()
        {
            // The lock is free, so the writer has ended. A file that cannot be removed only takes space.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Returns the name of the output that a temporary file belongs to; `None` for other files.
pub(crate) fn output_name(temporary: &str) -> Option<&str> {
    temporary_parts(temporary).map(|(name, _)| name)
}

/// Returns the name of the output that a temporary file belongs to, and the digits behind it; `None` for other files.
fn temporary_parts(temporary: &str) -> Option<(&str, &str)> {
    let (name, digits) = temporary.strip_prefix('.')?.strip_suffix(SUFFIX)?.strip_suffix('.')?.rsplit_once('.')?;
    let is_random = digits.len() == TAG_DIGITS + RANDOM_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_random.then_some((name, digits))
}

/// Returns the common prefix of the names of a file's temporary files.
fn prefix(name: &OsStr) -> std::ffi::OsString {
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    prefix
}
