//! Folders of output files.

use anyhow::{Context, bail};
use edgecut_output::remove_abandoned_in;
use std::path::Path;

/// Creates a folder of outputs whose names `is_output` accepts, and makes sure that it holds none of an earlier run:
/// removes them with `overwrite`, else fails. `what` names the outputs in errors.
pub(crate) fn prepare(dir: &Path, what: &str, is_output: impl Fn(&str) -> bool, overwrite: bool) -> anyhow::Result<()> {
    let name = || dir.display().to_string();
    std::fs::create_dir_all(dir).with_context(|| format!("create {}", name()))?;
    remove_abandoned_in(dir, |file| file.to_str().is_some_and(&is_output)).with_context(name)?;
    for entry in std::fs::read_dir(dir).with_context(name)? {
        let path = entry.with_context(name)?.path();
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        if !is_output(file) {
            continue;
        }
        if !overwrite {
            bail!("{} holds {what} of an earlier run: choose another --out, or add --overwrite", name());
        }
        match std::fs::remove_file(&path) {
            // Another rank of this node may have removed it first.
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}
