//! A file that replaces another one when it is complete.

use crate::destination::{folder_of, regular_destination};
use crate::sync_folder;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The last part of a temporary file's name.
const SUFFIX: &str = "partial";
/// The length of the random part of a temporary file's name.
const RANDOM_DIGITS: usize = 16;
/// Names that are tried for a temporary file.
const MAX_NAMES: usize = 8;

/// A file under a temporary name beside its destination, `.NAME.RANDOM.partial`. [`OutputFile::commit`] gives it its
/// name; dropping it removes it.
///
/// It is locked while it is written, so that [`remove_abandoned`] can tell the files of processes that were killed.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    temporary: PathBuf,
    destination: PathBuf,
    is_committed: bool,
}

impl OutputFile {
    /// Creates the temporary file. A symbolic link is followed: the file that it leads to is replaced, and the link stays.
    /// The permissions of the file that is replaced are kept.
    ///
    /// # Errors
    /// If `path` leads to a directory, a device, a pipe or a socket, if its folder is missing, or any other I/O error.
    pub fn create(path: &Path) -> io::Result<Self> {
        let destination = regular_destination(path)?;
        let name = destination.file_name().ok_or(ErrorKind::InvalidInput)?;
        for _ in 0..MAX_NAMES {
            let mut temporary_name = prefix(name);
            temporary_name.push(format!("{:0RANDOM_DIGITS$x}.{SUFFIX}", random()));
            let temporary = folder_of(&destination).join(temporary_name);
            let file = match OpenOptions::new().read(true).write(true).create_new(true).open(&temporary) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                opened => opened?,
            };
            // Some network file systems lock no files; there, what a killed process leaves stays.
            let is_taken = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
            let output = Self { file, temporary, destination: destination.clone(), is_committed: false };
            // Another process may have taken the file for an abandoned one before it was locked.
            if is_taken || !output.temporary.exists() {
                continue;
            }
            return Ok(output);
        }
        Err(io::Error::new(ErrorKind::AlreadyExists, "no temporary name is free beside the file"))
    }

    /// The file to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The path of the temporary file, for code that opens files itself. It has to keep this file, not to replace it.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Waits until the content is on the disk, and gives the file its name. Whoever opens the path sees the old file or
    /// the new one.
    ///
    /// # Errors
    /// If something that is no regular file has appeared at the destination, or any other I/O error; the old file is
    /// still there then.
    pub fn commit(mut self) -> io::Result<()> {
        regular_destination(&self.destination)?;
        if let Ok(replaced) = fs::metadata(&self.destination) {
            self.file.set_permissions(replaced.permissions())?;
        }
        self.file.sync_all()?;
        fs::rename(&self.temporary, &self.destination)?;
        self.is_committed = true;
        // The new name has to survive a power cut as well.
        sync_folder(folder_of(&self.destination))
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if !self.is_committed {
            // The error that led here is the one to report; a leftover is no worse than it.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Replaces the content of `path`, as [`OutputFile`] does.
///
/// # Errors
/// As [`OutputFile::create`] and [`OutputFile::commit`].
pub fn write_output(path: &Path, content: &[u8]) -> io::Result<()> {
    let output = OutputFile::create(path)?;
    output.file().write_all(content)?;
    output.commit()
}

/// Checks that `path` can be written, by creating and removing a temporary file, and removes the temporary files that
/// killed processes left beside it. A program calls it before hours of work whose result goes there.
///
/// # Errors
/// As [`OutputFile::create`].
pub fn check_output(path: &Path) -> io::Result<()> {
    let output = OutputFile::create(path)?;
    remove_abandoned(&output.destination)
}

/// Removes the temporary files of `path` that no living process writes.
///
/// # Errors
/// If the folder cannot be read.
pub fn remove_abandoned(path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else { return Ok(()) };
    remove_abandoned_in(folder_of(path), |written| written == name)
}

/// Removes the temporary files in a folder that no living process writes, of the outputs whose names `is_output` accepts.
///
/// # Errors
/// If the folder cannot be read.
pub fn remove_abandoned_in(dir: &Path, is_output: impl Fn(&OsStr) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if !entry.file_name().to_str().and_then(output_name).is_some_and(|name| is_output(name.as_ref())) {
            continue;
        }
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if let Ok(file) = File::open(entry.path())
            && is_file
            && file.try_lock().is_ok()
        {
            // A file that cannot be removed does no harm, but for the space it takes.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// The output that a temporary file with this name is written for.
fn output_name(temporary: &str) -> Option<&str> {
    let (name, random) = temporary.strip_prefix('.')?.strip_suffix(SUFFIX)?.strip_suffix('.')?.rsplit_once('.')?;
    (random.len() == RANDOM_DIGITS && random.bytes().all(|digit| digit.is_ascii_hexdigit())).then_some(name)
}

/// The beginning of the names of a file's temporary files.
fn prefix(name: &OsStr) -> std::ffi::OsString {
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    prefix
}

/// A number that differs between calls and processes, on any machine.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
