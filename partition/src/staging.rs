//! A folder that is written beside its final place, and appears there whole or not at all.

use crate::PartitionError;
use edgecut_graph::{FORMAT_NAME, META_FILE};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The folder `.NAME.partial-PID` beside the output folder `NAME`; removed when dropped before [`Staging::commit`].
///
/// It is locked while its process lives, so that a later run can tell a dead one's folder, even where process ids are
/// of another machine.
pub(crate) struct Staging {
    dir: PathBuf,
    out_dir: PathBuf,
    overwrite: bool,
    _lock: File,
}

/// Checks that `out_dir` is free, or may be replaced.
///
/// # Errors
/// [`PartitionError::Exists`], or [`PartitionError::NotAPartition`] where it holds something else and `overwrite` is
/// asked for.
pub(crate) fn check_free(out_dir: &Path, overwrite: bool) -> Result<(), PartitionError> {
    let path = out_dir.to_path_buf();
    match fs::read_dir(out_dir).map(|mut entries| entries.next().is_none()) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotADirectory => Err(PartitionError::NotAPartition { path }),
        Err(source) => Err(PartitionError::Io { doing: "open", path, source }),
        Ok(true) => Ok(()),
        Ok(false) if !overwrite => Err(PartitionError::Exists { path }),
        Ok(false) if is_partition(out_dir) => Ok(()),
        Ok(false) => Err(PartitionError::NotAPartition { path }),
    }
}

/// Whether the folder has a `META.json` of this format, of any version and in any state but unreadable.
fn is_partition(dir: &Path) -> bool {
    fs::read_to_string(dir.join(META_FILE)).is_ok_and(|text| text.contains(FORMAT_NAME))
}

impl Staging {
    /// Creates the folder, and its parents, and removes those of dead runs.
    pub(crate) fn create(out_dir: &Path, overwrite: bool) -> Result<Self, PartitionError> {
        check_free(out_dir, overwrite)?;
        // The parent is made absolute, so that a plain name has one.
        let out_dir = std::path::absolute(out_dir).map_err(|e| failed("resolve", out_dir, e))?;
        let (Some(parent), Some(name)) = (out_dir.parent(), out_dir.file_name()) else {
            return Err(PartitionError::NotAPartition { path: out_dir });
        };
        fs::create_dir_all(parent).map_err(|e| failed("create", parent, e))?;
        remove_dead(parent, name, "partial");
        let dir = parent.join(hidden(name, "partial", std::process::id()));
        fs::create_dir(&dir).map_err(|e| failed("create", &dir, e))?;
        let lock = File::open(&dir).map_err(|e| failed("open", &dir, e))?;
        // Some network filesystems lock no folders; there, what a dead run leaves stays.
        let _ = lock.try_lock();
        Ok(Self { dir, out_dir, overwrite, _lock: lock })
    }

    /// Where to write.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Moves the folder to its final place. Its files are synced already; folders are synced here.
    pub(crate) fn commit(self) -> Result<(), PartitionError> {
        sync_folders(&self.dir)?;
        check_free(&self.out_dir, self.overwrite)?;
        let (Some(parent), Some(name)) = (self.out_dir.parent(), self.out_dir.file_name()) else { return Ok(()) };
        if self.out_dir.join(META_FILE).exists() {
            let old = parent.join(hidden(name, "old", std::process::id()));
            rename(&self.out_dir, &old)?;
            if let Err(error) = rename(&self.dir, &self.out_dir) {
                rename(&old, &self.out_dir)?;
                return Err(error);
            }
            fs::remove_dir_all(&old).map_err(|e| failed("remove", &old, e))?;
        } else {
            rename(&self.dir, &self.out_dir)?;
        }
        remove_dead(parent, name, "old");
        sync(parent)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // After a commit it is not there, and there is nobody to tell of a failure: the next run tries again.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn hidden(name: &OsStr, kind: &str, pid: u32) -> OsString {
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{kind}-{pid}"));
    hidden
}

/// Removes the folders of `kind` that processes of this machine left which are dead now.
fn remove_dead(parent: &Path, name: &OsStr, kind: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let file_name = entry.file_name();
        let pid = file_name.to_str().and_then(|text| text.rsplit_once('-')).and_then(|(_, pid)| pid.parse().ok());
        let Some(pid) = pid.filter(|&pid| file_name == hidden(name, kind, pid)) else { continue };
        let ours = pid == std::process::id();
        if (ours || !Path::new(&format!("/proc/{pid}")).exists())
            && File::open(entry.path()).is_ok_and(|dir| dir.try_lock().is_ok())
        {
            // What cannot be removed does no harm, but for the space it takes.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn sync_folders(dir: &Path) -> Result<(), PartitionError> {
    for entry in fs::read_dir(dir).map_err(|e| failed("read", dir, e))? {
        let entry = entry.map_err(|e| failed("read", dir, e))?;
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            sync_folders(&entry.path())?;
        }
    }
    sync(dir)
}

fn sync(dir: &Path) -> Result<(), PartitionError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| failed("sync", dir, e))
}

fn rename(from: &Path, to: &Path) -> Result<(), PartitionError> {
    fs::rename(from, to).map_err(|e| failed("rename to", to, e))
}

fn failed(doing: &'static str, path: &Path, source: std::io::Error) -> PartitionError {
    PartitionError::Io { doing, path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn commit(out_dir: &Path, overwrite: bool, mark: &str) {
        let staging = Staging::create(out_dir, overwrite).unwrap();
        fs::write(staging.dir().join(META_FILE), format!("{{\"format\":\"{FORMAT_NAME}\"}}")).unwrap();
        fs::write(staging.dir().join(mark), "").unwrap();
        staging.commit().unwrap();
    }

    #[test]
    fn an_abandoned_folder_is_removed_and_a_committed_one_appears() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("a/2-parts");
        drop(Staging::create(&out, false).unwrap());
        assert!(names(&root.path().join("a")).is_empty());
        commit(&out, false, "x");
        assert_eq!(names(&root.path().join("a")), ["2-parts"]);
    }

    #[test]
    fn overwriting_swaps_and_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("2-parts");
        commit(&out, false, "first");
        assert!(matches!(Staging::create(&out, false), Err(PartitionError::Exists { .. })));
        commit(&out, true, "second");
        assert_eq!(names(root.path()), ["2-parts"]);
        assert_eq!(names(&out), [META_FILE, "second"]);
    }

    #[test]
    fn what_is_no_partitioned_graph_is_never_replaced() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("thesis.tex"), "years of work").unwrap();
        assert!(matches!(check_free(root.path(), true), Err(PartitionError::NotAPartition { .. })));
        let file = root.path().join("thesis.tex");
        assert!(matches!(check_free(&file, true), Err(PartitionError::NotAPartition { .. })));
        assert_eq!(names(root.path()), ["thesis.tex"]);
    }

    #[test]
    fn folders_of_dead_processes_are_removed_and_those_of_living_ones_stay() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("2-parts");
        // Process ids end below 2^22, so that this one was never alive; process 1 always is.
        for name in [".2-parts.partial-4194999", ".2-parts.partial-1", ".3-parts.partial-4194999", ".2-parts.partial-x"]
        {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        drop(Staging::create(&out, false).unwrap());
        assert_eq!(names(root.path()), [".2-parts.partial-1", ".2-parts.partial-x", ".3-parts.partial-4194999"]);
        let living = Staging::create(&out, false).unwrap();
        assert!(matches!(Staging::create(&out, false), Err(PartitionError::Io { .. })));
        assert!(living.dir().exists());
    }
}
