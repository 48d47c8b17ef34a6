//! Folders of output files.

use anyhow::{Context, bail};
use edgecut_output::{OwnEntries, remove_abandoned_in};
use std::path::{Path, PathBuf};

/// Creates a folder of outputs whose names `is_output` accepts, and makes sure that it holds none of an earlier run:
/// removes them with `overwrite`, else fails. `what` names the outputs in errors.
pub(crate) fn prepare(dir: &Path, what: &str, is_output: impl Fn(&str) -> bool, overwrite: bool) -> anyhow::Result<()> {
    let name = || dir.display().to_string();
    std::fs::create_dir_all(dir).with_context(|| format!("create {}", name()))?;
    remove_abandoned_in(dir, |file| file.to_str().is_some_and(&is_output)).with_context(name)?;
    let mut held = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(name)? {
        let file = entry.with_context(name)?.file_name();
        if file.to_str().is_some_and(&is_output) {
            held.push(PathBuf::from(file));
        }
    }
    if held.is_empty() {
        return Ok(());
    }
    if !overwrite {
        bail!("{} holds {what} of an earlier run: choose another --out, or add --overwrite", name());
    }
    OwnEntries::default().with_paths(&held).remove_within(dir).with_context(|| format!("--overwrite {}", name()))?;
    if let Some(left) = held.iter().map(|file| dir.join(file)).find(|path| path.symlink_metadata().is_ok()) {
        bail!(
            "{} has the name of an output but is not a regular file, and --overwrite does not remove it: move it away, or \
             choose another --out",
            left.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_output::testing::ForeignEntries;

    #[test]
    fn only_outputs_are_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let is_output = |name: &str| name == "scores.csv" || name == "link.csv";
        let foreign = ForeignEntries::plant(dir.path()).expect("foreign entries");
        std::fs::write(dir.path().join("scores.csv"), "").expect("a file");
        let error = prepare(dir.path(), "scores", is_output, false).expect_err("an earlier run").to_string();
        assert!(error.contains("holds scores of an earlier run"), "{error}");
        prepare(dir.path(), "scores", is_output, true).expect("removed");
        assert!(!dir.path().join("scores.csv").exists() && foreign.lost().is_empty());
        std::os::unix::fs::symlink("thesis/chapter", dir.path().join("link.csv")).expect("a link");
        let error = prepare(dir.path(), "scores", is_output, true).expect_err("a link").to_string();
        assert!(error.contains("link.csv has the name of an output"), "{error}");
        assert!(dir.path().join("link.csv").is_symlink());
    }
}
