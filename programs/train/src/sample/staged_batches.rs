//! New batches in a folder with batches of an earlier run.

use super::is_batch;
use anyhow::Context;
use edgecut_output::OwnEntries;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The name of the folder with the new batches.
const FOLDER: &str = ".edgecut-new-batches";

/// The folder in which a run writes its batches: `--out`, or a folder in it while `--out` has batches of an earlier run. A run that
/// fails then leaves the earlier batches as they were, and no mixture of both, since batches of all runs have the same names.
pub(super) struct StagedBatches {
    out: PathBuf,
    staging: Option<PathBuf>,
}

impl StagedBatches {
    /// Creates the folder if `has_old` is true, and removes what a killed run has left. Every rank must call this before the job
    /// starts.
    ///
    /// # Errors
    /// An I/O error of the folder.
    pub(super) fn new(out: &Path, has_old: bool) -> anyhow::Result<Self> {
        let staged = out.join(FOLDER);
        let cleared = OwnEntries::forms(&["batch_#.npz"]).remove_within(&staged);
        cleared.with_context(|| format!("remove the batches in {}", staged.display()))?;
        if has_old {
            fs::create_dir_all(&staged).with_context(|| format!("create {}", staged.display()))?;
        } else {
            remove_folder(&staged);
        }
        Ok(Self { out: out.to_owned(), staging: has_old.then_some(staged) })
    }

    /// Returns the folder to write to.
    pub(super) fn dir(&self) -> &Path {
        self.staging.as_deref().unwrap_or(&self.out)
    }

    /// Gives the new batches their names in `--out`, where they replace batches of the earlier run. All ranks must have written
    /// theirs. Another rank may do the same at the same time.
    ///
    /// # Errors
    /// A batch that cannot be renamed.
    pub(super) fn publish(self) -> anyhow::Result<()> {
        let Some(staging) = &self.staging else { return Ok(()) };
        let published = move_batches(staging, &self.out);
        published.with_context(|| format!("move the batches from {} to the folder above it", staging.display()))?;
        remove_folder(staging);
        Ok(())
    }
}

impl Drop for StagedBatches {
    /// Removes batches that were not published.
    fn drop(&mut self) {
        if let Some(staging) = &self.staging {
            // What stays is removed by the next run.
            let _ = OwnEntries::forms(&["batch_#.npz"]).remove_from(staging);
        }
    }
}

fn move_batches(from: &Path, to: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        if !name.to_str().is_some_and(is_batch) {
            continue;
        }
        match fs::rename(from.join(&name), to.join(&name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Removes an empty folder. Another rank may have removed it, or may still use it.
fn remove_folder(dir: &Path) {
    let _ = fs::remove_dir(dir);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, name: &str, text: &str) {
        fs::write(dir.join(name), text).expect("a file");
    }

    fn read(dir: &Path, name: &str) -> String {
        fs::read_to_string(dir.join(name)).expect("a file")
    }

    #[test]
    fn earlier_batches_stay_until_all_new_ones_are_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path();
        write(out, "batch_00000.npz", "old");
        write(out, "batch_00001.npz", "old");
        // Of two ranks, one fails.
        let failed = [StagedBatches::new(out, true), StagedBatches::new(out, true)].map(|rank| rank.expect("staged"));
        write(failed[0].dir(), "batch_00000.npz", "new");
        assert_eq!(read(out, "batch_00000.npz"), "old");
        drop(failed);
        assert_eq!(fs::read_dir(out).expect("the folder").count(), 2);
        // A run that was killed.
        fs::create_dir(out.join(FOLDER)).expect("a folder");
        write(&out.join(FOLDER), "batch_00001.npz", "of a killed run");
        let ranks = [StagedBatches::new(out, true), StagedBatches::new(out, true)].map(|rank| rank.expect("staged"));
        write(ranks[1].dir(), "batch_00000.npz", "new");
        for rank in ranks {
            rank.publish().expect("published");
        }
        assert_eq!([read(out, "batch_00000.npz"), read(out, "batch_00001.npz")], ["new", "old"]);
        assert_eq!(fs::read_dir(out).expect("the folder").count(), 2);
        // Without earlier batches there is no other folder.
        let plain = StagedBatches::new(out, false).expect("plain");
        assert_eq!(plain.dir(), out);
        plain.publish().expect("nothing to do");
    }
}
