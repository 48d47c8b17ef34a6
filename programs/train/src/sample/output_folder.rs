//! Folders of output files.

use anyhow::{Context, bail};
use edgecut_output::{FolderLock, OwnEntries, remove_abandoned_in};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The outputs of an earlier run in a folder, to be removed once this run has replaced them.
#[derive(Default)]
#[must_use = "the outputs of the earlier run stay until they are removed"]
pub(crate) struct OldOutputs {
    dir: PathBuf,
    files: Vec<(PathBuf, FileId)>,
    /// Keeps other jobs from writing to the folder.
    _lock: Option<FolderLock>,
}

/// The device and the number of a file. A file that replaces another has another number, since both exist for a while.
type FileId = (u64, u64);

/// Creates a folder of outputs as [`prepare`] does, and reserves it for this job. Nodes may share the folder, so only rank 0
/// reserves it: for it, `is_first` is true.
pub(crate) fn reserve(
    dir: &Path,
    what: &str,
    is_output: impl Fn(&str) -> bool,
    overwrite: bool,
    is_first: bool,
) -> anyhow::Result<OldOutputs> {
    // A file in place of the folder is refused below.
    if !is_first || (dir.exists() && !dir.is_dir()) {
        return prepare(dir, what, is_output, overwrite);
    }
    std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    let lock = FolderLock::take(dir, what).context("--out")?;
    Ok(OldOutputs { _lock: Some(lock), ..prepare(dir, what, is_output, overwrite)? })
}

/// Creates a folder of outputs whose names `is_output` accepts. Returns the outputs of an earlier run that it holds, and
/// fails if there are any without `overwrite`. `what` names the outputs in errors.
fn prepare(dir: &Path, what: &str, is_output: impl Fn(&str) -> bool, overwrite: bool) -> anyhow::Result<OldOutputs> {
    let name = dir.display().to_string();
    if dir.exists() && !dir.is_dir() {
        bail!("--out {name}: it is a file: choose a folder");
    }
    std::fs::create_dir_all(dir).with_context(|| format!("create {name}"))?;
    remove_abandoned_in(dir, |file| file.to_str().is_some_and(&is_output)).context(name.clone())?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).context(name.clone())? {
        let entry = entry.context(name.clone())?;
        let file = PathBuf::from(entry.file_name());
        if !file.to_str().is_some_and(&is_output) {
            continue;
        }
        let metadata = entry.metadata().context(name.clone())?;
        if overwrite && !metadata.is_file() {
            bail!(
                "{} has the name of an output but is not a regular file, and --overwrite does not replace it: move it \
                 away, or choose another --out",
                dir.join(&file).display()
            );
        }
        files.push((file, id_of(&metadata)));
    }
    if !files.is_empty() && !overwrite {
        bail!("{name} holds {what} of an earlier run: choose another --out, or add --overwrite");
    }
    Ok(OldOutputs { dir: dir.to_path_buf(), files, _lock: None })
}

impl OldOutputs {
    /// Returns true if the folder has no outputs of an earlier run.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Removes the outputs that this run has not replaced. All processes of the job must have written theirs.
    pub(crate) fn remove(mut self) -> anyhow::Result<()> {
        self.remove_files()
    }

    /// Removes the outputs that this run has not replaced, and keeps the folder reserved.
    pub(crate) fn remove_files(&mut self) -> anyhow::Result<()> {
        let dir = &self.dir;
        let mut left = Vec::new();
        for (file, id) in self.files.drain(..) {
            if dir.join(&file).symlink_metadata().is_ok_and(|found| id_of(&found) == id) {
                left.push(file);
            }
        }
        let own = OwnEntries::default().with_paths(left);
        own.remove_within(dir).map(drop).with_context(|| format!("--overwrite {}", dir.display()))
    }
}

fn id_of(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_output::testing::ForeignEntries;

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).expect("a folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
        names.sort();
        names
    }

    #[test]
    fn old_outputs_stay_until_new_ones_are_complete() {
        let dir = tempfile::tempdir().expect("a folder");
        let is_output = |name: &str| name.ends_with(".csv");
        for name in ["scores.csv", "of_more_ranks.csv"] {
            std::fs::write(dir.path().join(name), "old").expect("a file");
        }
        let error = prepare(dir.path(), "scores", is_output, false).err().expect("an earlier run").to_string();
        assert!(error.contains("holds scores of an earlier run"), "{error}");
        let old = prepare(dir.path(), "scores", is_output, true).expect("outputs to overwrite");
        assert_eq!(names(dir.path()), ["of_more_ranks.csv", "scores.csv"]);
        for name in ["scores.csv", "new.csv"] {
            edgecut_output::write_output(&dir.path().join(name), b"new").expect("a file");
        }
        old.remove().expect("removed");
        assert_eq!(names(dir.path()), ["new.csv", "scores.csv"]);
        assert_eq!(std::fs::read(dir.path().join("scores.csv")).expect("a file"), b"new");
    }

    #[test]
    fn only_outputs_are_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let is_output = |name: &str| name == "scores.csv" || name == "link.csv";
        let foreign = ForeignEntries::plant(dir.path()).expect("foreign entries");
        std::fs::write(dir.path().join("scores.csv"), "").expect("a file");
        prepare(dir.path(), "scores", is_output, true).expect("outputs").remove().expect("removed");
        assert!(!dir.path().join("scores.csv").exists() && foreign.lost().is_empty());
        std::os::unix::fs::symlink("thesis/chapter", dir.path().join("link.csv")).expect("a link");
        let error = prepare(dir.path(), "scores", is_output, true).err().expect("a link").to_string();
        assert!(error.contains("link.csv has the name of an output"), "{error}");
        assert!(dir.path().join("link.csv").is_symlink());
    }
}
