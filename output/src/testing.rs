//! Entries that do not belong to an output folder, for tests that require them to survive.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Entries of a user in an output folder.
pub struct ForeignEntries {
    planted: Vec<PathBuf>,
}

impl ForeignEntries {
    /// Puts files, folders and links of all kinds into `dir` and all folders below it.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn plant(dir: &Path) -> io::Result<Self> {
        let mut planted = Vec::new();
        let below: Vec<PathBuf> = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        for folder in below.iter().filter(|path| path.is_dir() && !path.is_symlink()) {
            planted.extend(Self::plant(folder)?.planted);
        }
        let mut put = |name: &str, create: &dyn Fn(&Path) -> io::Result<()>| {
            let path = dir.join(name);
            create(&path).map(|()| planted.push(path))
        };
        put("notes.txt", &|path| fs::write(path, "months of work"))?;
        put(".hidden", &|path| fs::write(path, ""))?;
        put("rank-x.log", &|path| fs::write(path, ""))?;
        put("empty folder", &|path| fs::create_dir(path))?;
        put("thesis", &|path| fs::create_dir(path))?;
        put("thesis/chapter", &|path| fs::write(path, "1"))?;
        put("link to a folder", &|path| symlink("thesis", path))?;
        put("link to nothing", &|path| symlink("/nonexistent", path))?;
        Ok(Self { planted })
    }

    /// Returns the entries that are gone, and the files without their content.
    pub fn lost(&self) -> Vec<&Path> {
        let is_lost = |path: &Path| {
            path.symlink_metadata().is_err()
                || path.ends_with("notes.txt") && fs::read(path).is_ok_and(|text| text.is_empty())
        };
        self.planted.iter().map(PathBuf::as_path).filter(|path| is_lost(path)).collect()
    }
}
