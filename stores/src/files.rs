//! The files below a folder.

use crate::StoreError;
use std::fs;
use std::path::Path;

/// Returns the paths of the files below a folder, relative to it, with `/` as the separator. A missing folder has none.
pub(crate) fn files_below(dir: &Path) -> Result<Vec<String>, StoreError> {
    let mut files = Vec::new();
    let mut folders = if dir.exists() { vec![dir.to_owned()] } else { Vec::new() };
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(StoreError::local(&folder))? {
            let path = entry.map_err(StoreError::local(&folder))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(name) = path.strip_prefix(dir).ok().and_then(Path::to_str) {
                files.push(name.to_owned());
            } else {
                let error = std::io::Error::other("the name is not UTF-8, which object stores need");
                return Err(StoreError::Local { path, source: error });
            }
        }
    }
    files.sort();
    Ok(files)
}
