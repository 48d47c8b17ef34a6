//! The files of programs.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The folder with the programs of one build of Edgecut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation(PathBuf);

impl Installation {
    /// Returns the installation of a program, such as `edgecut`: its folder, or `../lib/edgecut` if that exists. The folder of
    /// an installed `edgecut` also has programs of others, and names such as `train` are common. Links are followed.
    pub fn of(program: &Path) -> Self {
        let file = program.canonicalize().unwrap_or_else(|_| program.to_owned());
        let folder = file.parent().unwrap_or(Path::new("/"));
        let library = folder.join("../lib/edgecut").canonicalize().ok().filter(|library| library.is_dir());
        Self(library.unwrap_or_else(|| folder.to_owned()))
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Returns the file of a program of this installation.
    pub fn own(&self, program: &str) -> Option<PathBuf> {
        Some(self.0.join(program)).filter(|file| is_executable(file))
    }

    /// Returns the file by which `edgecut` runs a program: the installation's, or else the first one on PATH.
    pub fn find(&self, program: &str) -> Option<PathBuf> {
        self.own(program).or_else(|| find_on_path(program))
    }
}

/// Returns the first executable file of this name in the folders of PATH.
pub fn find_on_path(program: &str) -> Option<PathBuf> {
    find_in(&env::var_os("PATH")?, program)
}

fn find_in(path: &OsStr, program: &str) -> Option<PathBuf> {
    // An empty entry would be the working directory.
    let folders = env::split_paths(path).filter(|folder| !folder.as_os_str().is_empty());
    folders.map(|folder| folder.join(program)).find(|file| is_executable(file))
}

/// Returns true for a file that may be run, or a link to one.
pub fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, Permissions, create_dir_all, set_permissions};
    use std::os::unix::fs::symlink;

    fn write(file: &Path, mode: u32) {
        create_dir_all(file.parent().unwrap()).unwrap();
        File::create(file).unwrap();
        set_permissions(file, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn programs_are_those_of_the_installation() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let edgecut = root.join("bin/edgecut");
        write(&edgecut, 0o755);
        // A build has all programs in one folder.
        write(&root.join("bin/train"), 0o755);
        write(&root.join("bin/data"), 0o644);
        let built = Installation::of(&edgecut);
        assert_eq!(built.own("train"), Some(root.join("bin/train")));
        assert_eq!((built.own("data"), built.own("launch")), (None, None));
        // An installed `edgecut` shares its folder with programs of others.
        write(&root.join("lib/edgecut/train"), 0o755);
        symlink(&edgecut, root.join("link")).unwrap();
        let installed = Installation::of(&root.join("link"));
        assert_eq!(installed.folder(), root.join("lib/edgecut"));
        assert_eq!(installed.own("train"), Some(root.join("lib/edgecut/train")));
        write(&root.join("bin/launch"), 0o755);
        assert_eq!(installed.own("launch"), None);
        // A program of an installation finds the others beside it.
        assert_eq!(Installation::of(&root.join("lib/edgecut/train")), installed);
    }

    #[test]
    fn programs_on_path_are_executable_and_not_in_the_working_directory() {
        let dir = tempfile::tempdir().unwrap();
        for (file, mode) in [("data/train", 0o644), ("bin/train", 0o755)] {
            write(&dir.path().join(file), mode);
        }
        let folders = env::join_paths(["data", "bin"].map(|folder| dir.path().join(folder))).unwrap();
        assert_eq!(find_in(&folders, "train"), Some(dir.path().join("bin/train")));
        // An empty entry is left out, although its file would run.
        let file = dir.path().join("bin/train");
        assert_eq!(find_in(OsStr::new("/"), file.to_str().unwrap()), Some(file.clone()));
        assert_eq!(find_in(OsStr::new(":"), file.to_str().unwrap()), None);
    }
}
