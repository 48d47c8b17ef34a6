//! The files of a dataset, gzipped or plain.

use crate::GraphError;
use std::path::{Path, PathBuf};

/// Returns `dir/name.gz` if it exists, otherwise `dir/name` if that exists.
pub(crate) fn find_text(dir: &Path, name: &str) -> Option<PathBuf> {
    [format!("{name}.gz"), name.to_owned()].iter().map(|name| dir.join(name)).find(|path| path.is_file())
}

/// Returns `dir/stem.csv.gz` if it exists, otherwise `dir/stem.csv` if that exists.
pub(crate) fn find_csv(dir: &Path, stem: &str) -> Option<PathBuf> {
    find_text(dir, &format!("{stem}.csv"))
}

/// Like [`find_csv`], but fails if neither file exists.
pub(crate) fn require_csv(dir: &Path, stem: &str) -> Result<PathBuf, GraphError> {
    find_csv(dir, stem)
        .ok_or_else(|| GraphError::format(dir, format!("it contains neither {stem}.csv.gz nor {stem}.csv")))
}
