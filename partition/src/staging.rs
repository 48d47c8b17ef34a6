//! A folder that is written beside its destination, and appears there complete or not at all.

use crate::PartitionError;
use edgecut_graph::{FORMAT_NAME, META_FILE, Meta, listed_files, possible_files};
use edgecut_output::{TemporaryFolder, destination, remove_dead_folders, sync_folder};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The permissions of folders, which the umask restricts.
const MODE: u32 = 0o777;

/// The temporary folder `.NAME.partial-…` beside the output folder `NAME`; removed when dropped before
/// [`Staging::commit`].
pub(crate) struct Staging {
    folder: TemporaryFolder,
    out_dir: PathBuf,
    overwrite: bool,
    /// The fingerprint that the parts at the destination must still have.
    expected: Option<String>,
}

/// Checks that `out_dir` does not exist, is empty, or may be replaced.
///
/// # Errors
/// Returns [`PartitionError::Exists`] without `overwrite`. With `overwrite`, returns [`PartitionError::NotAPartition`]
/// if `out_dir` is something else, and [`PartitionError::HoldsOther`] if it or a folder below it holds anything that its
/// `META.json` does not list.
pub fn check_free(out_dir: &Path, overwrite: bool) -> Result<(), PartitionError> {
    let path = out_dir.to_path_buf();
    let is_empty = match fs::read_dir(out_dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) if e.kind() == ErrorKind::NotADirectory => return Err(PartitionError::NotAPartition { path }),
        Err(source) => return Err(failed("open", out_dir, source)),
        Ok(mut entries) => entries.next().is_none(),
    };
    if is_empty {
        return Ok(());
    }
    if !overwrite {
        return Err(PartitionError::Exists { path });
    }
    if !is_partition(out_dir) {
        return Err(PartitionError::NotAPartition { path });
    }
    let foreign = listed_files(out_dir).and_then(|own| own.first_foreign(out_dir));
    match foreign.map_err(|source| failed("read", out_dir, source))? {
        Some(entry) => Err(PartitionError::HoldsOther { path, entry }),
        None => Ok(()),
    }
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
        let folder = temporary(parent, name, "partial")?;
        Ok(Self { folder, out_dir, overwrite, expected: None })
    }

    /// Lets [`Staging::commit`] fail if the parts at the destination are others than those with this fingerprint.
    pub(crate) fn expect(&mut self, fingerprint: String) {
        self.expected = Some(fingerprint);
    }

    /// Returns the folder to write to.
    pub(crate) fn dir(&self) -> &Path {
        self.folder.dir()
    }

    /// Moves the folder to its destination. Its files are synced already; this function syncs the folders.
    pub(crate) fn commit(self) -> Result<(), PartitionError> {
        let dir = self.dir();
        sync_folders(dir)?;
        // The destination may have been created while the parts were written.
        check_free(&self.out_dir, self.overwrite)?;
        if let Some(expected) = &self.expected
            && Meta::read(&self.out_dir)?.fingerprint() != *expected
        {
            return Err(PartitionError::Changed { path: self.out_dir.clone() });
        }
        let (Some(parent), Some(name)) = (self.out_dir.parent(), self.out_dir.file_name()) else { return Ok(()) };
        let old = if self.out_dir.join(META_FILE).exists() {
            // The temporary folder holds the old parts afterwards and is removed when it is dropped. If that fails, the
            // next run tries again. A file that was put into the old parts since they were checked stays in it.
            match exchange(dir, &self.out_dir) {
                Ok(()) => Some(self.folder),
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Some(set_aside(dir, &self.out_dir)?),
                Err(error) => return Err(failed("exchange with the new parts", &self.out_dir, error.into())),
            }
        } else {
            rename(dir, &self.out_dir)?;
            None
        };
        if let Err(error) = sync(parent) {
            // As long as the new name is not on disk, the old parts may be the only ones after a power failure.
            std::mem::forget(old);
            return Err(error);
        }
        remove_dead_folders(parent, &hidden(name, "old"), &possible_files());
        Ok(())
    }
}

/// Exchanges two folders in one step, so that each path always leads to one of them.
fn exchange(new: &Path, out_dir: &Path) -> rustix::io::Result<()> {
    renameat_with(CWD, new, CWD, out_dir, RenameFlags::EXCHANGE)
}

/// Replaces a folder on a file system that cannot exchange folders, such as NFS. The old one is moved to a temporary
/// folder, which is returned, and is put back if the new one cannot be renamed. If the process is killed between the two
/// steps, the old parts stay in the temporary folder until the next run has succeeded.
fn set_aside(new: &Path, out_dir: &Path) -> Result<TemporaryFolder, PartitionError> {
    let (Some(parent), Some(name)) = (out_dir.parent(), out_dir.file_name()) else {
        return Err(PartitionError::NotAPartition { path: out_dir.to_path_buf() });
    };
    let old = temporary(parent, name, "old")?;
    rename(out_dir, old.dir())?;
    if let Err(error) = rename(new, out_dir) {
        rename(old.dir(), out_dir)?;
        return Err(error);
    }
    Ok(old)
}

/// Creates a temporary folder of `kind` beside the output folder `name`.
fn temporary(parent: &Path, name: &OsStr, kind: &str) -> Result<TemporaryFolder, PartitionError> {
    let created = TemporaryFolder::create(parent, &hidden(name, kind), MODE, possible_files());
    created.map_err(|error| failed("create a folder in", parent, error))
}

/// Returns the name of temporary folders of `kind` beside the output folder `name`.
fn hidden(name: &OsStr, kind: &str) -> String {
    format!(".{}.{kind}", name.to_string_lossy())
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
    use rustix::fs::AtFlags;
    use std::io::Write as _;
    use std::os::unix::fs::MetadataExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    use edgecut_graph::readers::{FakeOptions, fake};
    use edgecut_output::host_tag;
    use edgecut_output::testing::ForeignEntries;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Writes parts that consist of one file in the folder `mark`.
    fn commit(out_dir: &Path, overwrite: bool, mark: &str) {
        let staging = Staging::create(out_dir, overwrite).unwrap();
        let file = format!("{mark}/nodes/user/labels.npy");
        fs::create_dir_all(staging.dir().join(&file).parent().unwrap()).unwrap();
        fs::write(staging.dir().join(&file), "labels").unwrap();
        let meta = serde_json::json!({"format": FORMAT_NAME, "node_types": [{"name": "user"}], "files": {file: {}}});
        fs::write(staging.dir().join(META_FILE), meta.to_string()).unwrap();
        staging.commit().unwrap();
    }

    #[test]
    fn an_abandoned_folder_is_removed_and_a_committed_one_appears() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("a/2-parts");
        drop(Staging::create(&out, false).unwrap());
        assert!(names(&root.path().join("a")).is_empty());
        commit(&out, false, "part_9");
        assert_eq!(names(&root.path().join("a")), ["2-parts"]);
    }

    #[test]
    fn overwriting_swaps_and_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("2-parts");
        commit(&out, false, "part_1");
        assert!(matches!(Staging::create(&out, false), Err(PartitionError::Exists { .. })));
        commit(&out, true, "part_2");
        assert_eq!(names(root.path()), ["2-parts"]);
        assert_eq!(names(&out), [META_FILE, "part_2"]);
    }

    /// Returns true if the folder has parts. The parts of a folder that was opened may disappear once another folder is
    /// in its place.
    fn is_complete(out: &Path) -> bool {
        let folder = fs::File::open(out).unwrap();
        let has_parts = rustix::fs::statat(&folder, META_FILE, AtFlags::empty()).is_ok();
        has_parts || folder.metadata().unwrap().ino() != fs::metadata(out).unwrap().ino()
    }

    #[test]
    fn parts_that_another_run_has_changed_are_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("parts");
        let graph = fake(&FakeOptions { avg_num_nodes: 20, ..FakeOptions::default() }).unwrap();
        let meta = crate::partition(&graph, &crate::PartitionOptions::new(1), &out, &()).unwrap();
        let mut staging = Staging::create(&out, true).unwrap();
        staging.expect(meta.fingerprint());
        let others = crate::PartitionOptions { overwrite: true, ..crate::PartitionOptions::new(2) };
        crate::partition(&graph, &others, &out, &()).unwrap();
        assert!(matches!(staging.commit(), Err(PartitionError::Changed { .. })));
        assert_eq!(Meta::read(&out).unwrap().num_parts, 2);
    }

    #[test]
    fn the_destination_always_leads_to_complete_parts() {
        let root = tempfile::tempdir().unwrap();
        let [out, other] = ["2-parts", "other"].map(|name| root.path().join(name));
        commit(&out, false, "part_0");
        commit(&other, false, "part_0");
        if let Err(error) = exchange(&other, &out) {
            let why = format!("{} is on a file system that cannot exchange folders: {error}", root.path().display());
            let _ = writeln!(std::io::stderr(), "SKIPPED the_destination_always_leads_to_complete_parts: {why}");
            return;
        }
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut looks = 0;
                while !is_done.load(Ordering::Relaxed) || looks == 0 {
                    assert!(is_complete(&out), "no parts after {looks} looks");
                    looks += 1;
                }
            });
            for round in 0..100 {
                if !reader.is_finished() {
                    commit(&out, true, &format!("part_{round}"));
                }
            }
            is_done.store(true, Ordering::Relaxed);
        });
        assert_eq!(names(root.path()), ["2-parts", "other"]);
    }

    #[test]
    fn parts_are_replaced_where_folders_cannot_be_exchanged() {
        let root = tempfile::tempdir().unwrap();
        let [new, out] = ["new", "2-parts"].map(|name| root.path().join(name));
        commit(&out, false, "part_1");
        commit(&new, false, "part_2");
        let old = set_aside(&new, &out).unwrap();
        assert_eq!(names(old.dir()), [META_FILE, "part_1"]);
        drop(old);
        assert_eq!(names(root.path()), ["2-parts"]);
        assert_eq!(names(&out), [META_FILE, "part_2"]);
        set_aside(&new, &out).unwrap_err();
        assert_eq!(names(&out), [META_FILE, "part_2"], "a new folder that is gone");
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
    fn files_of_users_inside_of_parts_are_never_replaced() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("2-parts");
        for folder in ["", "part_0", "part_0/nodes", "part_0/nodes/user"] {
            for name in ["notes.txt", "features.npy", "part_0"].map(|name| Path::new(folder).join(name)) {
                if out.join(&name).exists() {
                    continue;
                }
                if !out.exists() {
                    commit(&out, false, "part_0");
                }
                fs::write(out.join(&name), "months of work").unwrap();
                let error = check_free(&out, true).unwrap_err();
                assert!(matches!(&error, PartitionError::HoldsOther { entry, .. } if *entry == name), "{error}");
                fs::remove_file(out.join(&name)).unwrap();
            }
        }
        let foreign = ForeignEntries::plant(&out).unwrap();
        assert!(matches!(Staging::create(&out, true), Err(PartitionError::HoldsOther { .. })));
        assert!(foreign.lost().is_empty());
    }

    #[test]
    fn files_that_users_put_into_temporary_folders_survive() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("2-parts");
        let dead = root.path().join(format!(".2-parts.old-{}-4194999-0", host_tag()));
        commit(&dead, false, "part_0");
        let staging = Staging::create(&out, false).unwrap();
        let dir = staging.dir().join("part_0/edges/a__to__b");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("indptr.npy"), "").unwrap();
        let foreign = [staging.dir(), &dead].map(|dir| ForeignEntries::plant(dir).unwrap());
        drop(staging);
        commit(&out, false, "part_0");
        assert_eq!(foreign.iter().flat_map(ForeignEntries::lost).collect::<Vec<_>>(), Vec::<&Path>::new());
        assert!(!dead.join(META_FILE).exists());
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
        for mark in ["part_1", "part_2"] {
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
        let dead = ["partial", "old"].map(|kind| format!(".2-parts.{kind}-{}-4194999-0", host_tag()));
        let others = [
            format!(".2-parts.partial-{}-1-0", host_tag()),
            format!(".3-parts.partial-{}-4194999-0", host_tag()),
            ".2-parts.partial-4194999".to_owned(),
        ];
        for name in dead.iter().chain(&others) {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        commit(&out, false, "part_0");
        let left = names(root.path());
        assert!(dead.iter().all(|name| !left.contains(name)), "{left:?}");
        assert!(others.iter().all(|name| left.contains(name)), "{left:?}");
    }
}
