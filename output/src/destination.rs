//! The file that a path leads to.

use std::fs::{self, FileType};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Symbolic links that may lead to a file, one to the next, as many as Linux follows.
const MAX_LINKS: usize = 40;

/// Follows the symbolic links of the last component of `path`, so that a rename replaces what they lead to and not the
/// links. Nothing has to exist there yet.
///
/// # Errors
/// Links that lead in a circle, a path that names no file, or an I/O error.
pub fn destination(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        if path.file_name().is_none() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the path names no file"));
        }
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {
                let target = fs::read_link(&path)?;
                path = folder_of(&path).join(target);
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => return Ok(path),
        }
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "too many symbolic links lead from the path to a file"))
}

/// The regular file that `path` leads to, which may be absent.
///
/// # Errors
/// As [`destination`], or if something else is there.
pub(crate) fn regular_destination(path: &Path) -> io::Result<PathBuf> {
    // Before links are followed by name: those below /proc, such as /dev/stdout, lead to more than names.
    match fs::metadata(path) {
        Ok(found) => refuse_unless_regular(found.file_type())?,
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    destination(path)
}

/// # Errors
/// Anything but a regular file, by its kind.
fn refuse_unless_regular(found: FileType) -> io::Result<()> {
    let kind = match found {
        _ if found.is_file() => return Ok(()),
        _ if found.is_dir() => "a directory",
        _ if found.is_char_device() || found.is_block_device() => "a device",
        _ if found.is_fifo() => "a pipe",
        _ if found.is_socket() => "a socket",
        _ => "no regular file",
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {kind}: give the path of a regular file or a new one")))
}

/// The folder that holds a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
