//! Paths that are close to a misspelled one.

use crate::near_name;
use std::path::{Path, PathBuf};

/// The most entries of a folder that are compared with a name.
const MOST_ENTRIES: usize = 10_000;

/// Returns the existing path that differs from `path` in one misspelled name, if there is one.
///
/// ```
/// use edgecut_settings::near_path;
/// use std::path::Path;
/// // In a folder with `src/lib.rs`.
/// assert_eq!(near_path(Path::new("scr/lib.rs")), Some("src/lib.rs".into()));
/// assert_eq!(near_path(Path::new("other/lib.rs")), None);
/// ```
pub fn near_path(path: &Path) -> Option<PathBuf> {
    let missing =
        path.ancestors().take_while(|ancestor| !ancestor.exists() && ancestor.file_name().is_some()).last()?;
    let folder = missing.parent()?;
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(listed).ok()?.flatten().take(MOST_ENTRIES) {
        names.extend(entry.file_name().into_string().ok());
    }
    let near = near_name(missing.file_name()?.to_str()?, names.iter().map(String::as_str))?;
    let rest = path.strip_prefix(missing).ok()?;
    let near = folder.join(near);
    let whole = if rest.as_os_str().is_empty() { near } else { near.join(rest) };
    whole.exists().then_some(whole)
}
