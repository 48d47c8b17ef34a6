//! The file that a path refers to, after symbolic links.

use std::fs::{self, FileType};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The longest chain of symbolic links that is followed, the same as Linux's limit.
const MAX_LINKS: usize = 40;

/// Follows the symbolic links of the last component of `path`, so that a rename replaces the target and not the link.
/// The target does not have to exist.
///
/// # Errors
/// A cycle of links, a path without a file name, or an I/O error.
pub fn destination(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        if path.file_name().is_none() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the path does not end in a file name"));
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
    Err(io::Error::new(ErrorKind::InvalidInput, "the path goes through too many symbolic links"))
}

/// Returns true if both paths refer to the same regular file, which may be missing: by the same or another spelling, or by links.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (Err(_), Err(_)) => match (whole(one), whole(other)) {
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        },
        _ => false,
    }
}

/// Returns the path of a missing file, after the links of its folders.
fn whole(path: &Path) -> io::Result<PathBuf> {
    let path = destination(path)?;
    Ok(folder_of(&path).canonicalize()?.join(path.file_name().unwrap_or_default()))
}

/// Returns the path of the regular file that `path` refers to. The file may be missing.
///
/// # Errors
/// As [`destination`], or if the path refers to anything but a regular file.
pub(crate) fn regular_destination(path: &Path) -> io::Result<PathBuf> {
    // The kernel resolves the path first. Links below /proc, such as the target of /dev/stdout, refer to open files,
    // and following their text by name would give another file or none.
    match fs::metadata(path) {
        Ok(found) => refuse_unless_regular(found.file_type())?,
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    destination(path)
}

/// Fails unless the file type is that of a regular file.
///
/// # Errors
/// An error that names the file type.
fn refuse_unless_regular(found: FileType) -> io::Result<()> {
    let kind = match found {
        _ if found.is_file() => return Ok(()),
        _ if found.is_dir() => "a directory",
        _ if found.is_char_device() || found.is_block_device() => "a device",
        _ if found.is_fifo() => "a pipe",
        _ if found.is_socket() => "a socket",
        _ => "not a regular file",
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {kind}: give the path of a regular file or a new one")))
}

/// Returns the folder that contains a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_is_the_same_by_whatever_path() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, folder] = ["file", "link", "folder"].map(|name| dir.path().join(name));
        symlink("file", &link).unwrap();
        symlink(".", &folder).unwrap();
        let other = dir.path().join("other");
        for exists in [false, true] {
            if exists {
                fs::write(&file, "").unwrap();
            }
            assert!(
                is_same_file(&file, &file) && is_same_file(&file, &link) && is_same_file(&folder.join("file"), &link)
            );
            assert!(!is_same_file(&file, &other) && !is_same_file(&other, &link), "{exists}");
        }
        fs::write(&other, "").unwrap();
        assert!(!is_same_file(&file, &other) && !is_same_file(dir.path(), &folder));
        assert!(!is_same_file("/dev/null".as_ref(), "/dev/null".as_ref()));
    }
}
