//! A folder that is written beside its destination, and appears there complete or not at all.

use crate::PartitionError;
use edgecut_graph::{FORMAT_NAME, META_FILE, TRANSFORMS_FILE};
use edgecut_output::{destination, sync_folder};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The folder `.NAME.partial-PID` beside the output folder `NAME`; removed when dropped before [`Staging::commit`].
///
/// The process holds a lock on it, so that a later run can recognize the folder of a dead process even if process ids
/// belong to different machines.
pub(crate) struct Staging {
    dir: PathBuf,
    out_dir: PathBuf,
    overwrite: bool,
    _lock: File,
}

/// Checks that `out_dir` does not exist, is empty, or may be replaced.
///
/// # Errors
/// Returns [`PartitionError::Exists`] without `overwrite`. With `overwrite`, returns [`PartitionError::NotAPartition`]
/// if `out_dir` is something else, and [`PartitionError::HoldsOther`] if it holds anything beside the parts.
pub(crate) fn check_free(out_dir: &Path, overwrite: bool) -> Result<(), PartitionError> {
    let path = out_dir.to_path_buf();
    match entries(out_dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotADirectory => Err(PartitionError::NotAPartition { path }),
        Err(source) => Err(PartitionError::Io { doing: "open", path, source }),
        Ok(held) if held.is_empty() => Ok(()),
        Ok(_) if !overwrite => Err(PartitionError::Exists { path }),
        Ok(_) if !is_partition(out_dir) => Err(PartitionError::NotAPartition { path }),
        Ok(held) => match held.into_iter().find(|name| !is_of_parts(name)) {
            Some(entry) => Err(PartitionError::HoldsOther { path, entry }),
            None => Ok(()),
        },
    }
}

/// Returns the names in a folder, sorted.
fn entries(dir: &Path) -> std::io::Result<Vec<OsString>> {
    let mut names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Returns true for the names that a partitioned graph's folder may hold.
fn is_of_parts(name: &OsStr) -> bool {
    name == META_FILE || name == TRANSFORMS_FILE || name.as_encoded_bytes().starts_with(b"part_")
}

/// Returns true if the folder has a `META.json` of this format, of any version.
fn is_partition(dir: &Path) -> bool {
    let meta = fs::read(dir.join(META_FILE)).ok().and_then(|text| serde_json::from_slice(&text).ok());
    meta.is_some_and(|meta: serde_json::Value| meta["format"] == FORMAT_NAME)
}

impl Staging {
    /// Creates the folder and its parents, and removes the folders of dead runs.
    pub(crate) fn create(out_dir: &Path, overwrite: bool) -> Result<Self, PartitionError> {
        check_free(out_dir, overwrite)?;
        // An absolute path has a parent even for a plain name, and a name even for `.`.
        let absolute = std::path::absolute(out_dir).map_err(|e| failed("resolve", out_dir, e))?;
        // A symbolic link stays, and the folder that it points to is replaced.
        let out_dir = destination(&absolute).map_err(|e| failed("resolve", out_dir, e))?;
        let (Some(parent), Some(name)) = (out_dir.parent(), out_dir.file_name()) else {
            return Err(PartitionError::NotAPartition { path: out_dir });
        };
        fs::create_dir_all(parent).map_err(|e| failed("create", parent, e))?;
        remove_dead(parent, name, "partial");
        let dir = parent.join(hidden(name, "partial", std::process::id()));
        fs::create_dir(&dir).map_err(|e| failed("create", &dir, e))?;
        let lock = File::open(&dir).map_err(|e| failed("open", &dir, e))?;
        // Some network file systems cannot lock folders. There, the folders of dead runs are not removed.
        let _ = lock.try_lock();
        Ok(Self { dir, out_dir, overwrite, _lock: lock })
    }

    /// Returns the folder to write to.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Moves the folder to its destination. Its files are synced already; this function syncs the folders.
    pub(crate) fn commit(self) -> Result<(), PartitionError> {
        sync_folders(&self.dir)?;
        // The destination may have been created while the parts were written.
        check_free(&self.out_dir, self.overwrite)?;
        let (Some(parent), Some(name)) = (self.out_dir.parent(), self.out_dir.file_name()) else { return Ok(()) };
        // Folders cannot be swapped atomically: the old one is set aside, and put back if the new one cannot be
        // renamed.
        let old = parent.join(hidden(name, "old", std::process::id()));
        if self.out_dir.join(META_FILE).exists() {
            rename(&self.out_dir, &old)?;
            if let Err(error) = rename(&self.dir, &self.out_dir) {
                rename(&old, &self.out_dir)?;
                return Err(error);
            }
        } else {
            rename(&self.dir, &self.out_dir)?;
        }
        sync(parent)?;
        // The new parts are in place. If the old ones cannot be removed, the next run tries again.
        let _ = fs::remove_dir_all(&old);
        remove_dead(parent, name, "old");
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // After a commit the folder does not exist under this name. A failure cannot be reported here; the next run
        // tries again.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Returns the name of a temporary folder beside the output folder `name`.
fn hidden(name: &OsStr, kind: &str, pid: u32) -> OsString {
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{kind}-{pid}"));
    hidden
}

/// Removes the folders of `kind` that dead processes of this machine have left.
fn remove_dead(parent: &Path, name: &OsStr, kind: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let file_name = entry.file_name();
        let pid = file_name.to_str().and_then(|text| text.rsplit_once('-')).and_then(|(_, pid)| pid.parse().ok());
        let Some(pid) = pid.filter(|&pid| file_name == hidden(name, kind, pid)) else { continue };
        // A folder with our own process id is of an earlier process, or of a process with the same id in another
        // container. The lock tells whether that one still lives.
        let ours = pid == std::process::id();
        if (ours || !Path::new(&format!("/proc/{pid}")).exists())
            && File::open(entry.path()).is_ok_and(|dir| dir.try_lock().is_ok())
        {
            // A folder that cannot be removed does no harm except for the space it takes.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Syncs a folder and all folders below it.
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
    sync_folder(dir).map_err(|error| failed("sync", dir, error))
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
        fs::create_dir(staging.dir().join(mark)).unwrap();
        staging.commit().unwrap();
    }

    #[test]
    fn an_abandoned_folder_is_removed_and_a_committed_one_appears() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("a/2-parts");
        drop(Staging::create(&out, false).unwrap());
        assert!(names(&root.path().join("a")).is_empty());
        commit(&out, false, "part_x");
        assert_eq!(names(&root.path().join("a")), ["2-parts"]);
    }

    #[test]
    fn overwriting_swaps_and_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("2-parts");
        commit(&out, false, "part_first");
        assert!(matches!(Staging::create(&out, false), Err(PartitionError::Exists { .. })));
        commit(&out, true, "part_second");
        assert_eq!(names(root.path()), ["2-parts"]);
        assert_eq!(names(&out), [META_FILE, "part_second"]);
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
    fn what_lies_beside_the_parts_is_never_replaced() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("2-parts");
        commit(&out, false, "part_0");
        for name in ["model.safetensors", "metrics.json"] {
            fs::write(out.join(name), "hours of training").unwrap();
        }
        let error = check_free(&out, true).unwrap_err();
        assert!(matches!(&error, PartitionError::HoldsOther { entry, .. } if entry == "metrics.json"), "{error}");
        assert!(error.to_string().contains("2-parts holds \"metrics.json\""), "{error}");
        assert_eq!(names(&out), [META_FILE, "metrics.json", "model.safetensors", "part_0"]);
    }

    #[test]
    fn only_the_format_field_makes_a_partitioned_graph() {
        let root = tempfile::tempdir().unwrap();
        for (text, is) in [
            (format!("{{\"version\": 99, \"format\": \"{FORMAT_NAME}\"}}"), true),
            (format!("{{\"format\": \"other\", \"made_of\": \"{FORMAT_NAME}\"}}"), false),
            (format!("\"{FORMAT_NAME}\""), false),
            (FORMAT_NAME.to_string(), false),
        ] {
            fs::write(root.path().join(META_FILE), &text).unwrap();
            assert_eq!(is_partition(root.path()), is, "{text}");
        }
    }

    #[test]
    fn the_folder_that_a_link_leads_to_is_replaced_and_the_link_stays() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("disk")).unwrap();
        let link = root.path().join("2-parts");
        std::os::unix::fs::symlink("disk/parts", &link).unwrap();
        for mark in ["part_first", "part_second"] {
            commit(&link, true, mark);
            assert!(link.is_symlink());
            assert_eq!(names(&root.path().join("disk/parts")), [META_FILE, mark]);
        }
        assert_eq!(names(root.path()), ["2-parts", "disk"]);
        assert_eq!(names(&root.path().join("disk")), ["parts"]);
    }

    #[test]
    fn folders_of_dead_processes_are_removed_and_those_of_living_ones_stay() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("2-parts");
        // Process ids are below 2^22, so 4194999 is never alive; process 1 always is.
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
