//! The entries of a folder that this project has written, and their removal.

use crate::output_file::output_name;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The files that belong to an output folder, by their paths relative to it, and the folders that these paths go through.
/// Temporary files of an [`OutputFile`](crate::OutputFile) belong to it like the files that they would become.
///
/// [`OwnEntries::remove_from`] is the only removal of folders in this project. It removes what is listed here. Any other
/// file, folder or link stays, together with the folders above it: it may be the user's. Clippy refuses
/// `remove_dir_all` (`clippy.toml`).
#[derive(Clone, Debug, Default)]
pub struct OwnEntries {
    forms: Vec<String>,
    paths: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
}

impl OwnEntries {
    /// Returns the files whose relative paths have one of these forms. In a form, `#` stands for one or more digits, and a
    /// component `*` for any name that does not begin with a dot. A folder with any name belongs to the output if it is not
    /// empty.
    pub fn forms<S: AsRef<str>>(forms: &[S]) -> Self {
        Self::default().with_forms(forms)
    }

    /// Adds files like [`OwnEntries::forms`].
    #[must_use]
    pub fn with_forms<S: AsRef<str>>(mut self, forms: &[S]) -> Self {
        self.forms.extend(forms.iter().map(|form| form.as_ref().to_owned()));
        self
    }

    /// Adds the files with these relative paths.
    #[must_use]
    pub fn with_paths<P: Into<PathBuf>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        for path in paths.into_iter().map(Into::into) {
            self.folders.extend(path.ancestors().skip(1).map(Path::to_path_buf));
            self.paths.insert(path);
        }
        self
    }

    /// Returns the relative path of the first entry below `dir`, by name, that is not one of these files and folders. `None`
    /// if there is no such entry.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn first_foreign(&self, dir: &Path) -> io::Result<Option<PathBuf>> {
        self.visit(dir, Path::new(""), &mut |_, _| Ok(()))
    }

    /// Removes these files from `dir`, then the folders that are empty without them, and `dir` itself if it is empty.
    /// Symbolic links are neither followed nor removed. Returns the relative path of the first entry, by name, that stays
    /// because it is none of these; `None` if nothing stays. Entries that other processes remove meanwhile are no errors.
    ///
    /// # Errors
    /// An entry that cannot be read or removed. The others are then still there, at least in part.
    pub fn remove_from(&self, dir: &Path) -> io::Result<Option<PathBuf>> {
        let foreign = self.remove_within(dir)?;
        if foreign.is_none() {
            unless_changed(fs::remove_dir(dir))?;
        }
        Ok(foreign)
    }

    /// Does the same as [`OwnEntries::remove_from`], but keeps `dir`.
    ///
    /// # Errors
    /// As [`OwnEntries::remove_from`].
    pub fn remove_within(&self, dir: &Path) -> io::Result<Option<PathBuf>> {
        // A link in place of the folder is not followed either.
        if dir.is_symlink() {
            return Ok(Some(PathBuf::new()));
        }
        self.visit(dir, Path::new(""), &mut |path, kind| {
            unless_changed(if kind.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) })
        })
    }

    /// Calls `take` for each of these files below a folder, and for each of these folders without other entries after its
    /// content. Returns the first other entry.
    fn visit(
        &self,
        root: &Path,
        folder: &Path,
        take: &mut dyn FnMut(&Path, FileType) -> io::Result<()>,
    ) -> io::Result<Option<PathBuf>> {
        let mut first_foreign = None;
        for (name, kind) in entries(&root.join(folder))? {
            let path = folder.join(&name);
            let foreign = if kind.is_dir() && self.is_folder(&path, is_empty(&root.join(&path))) {
                self.visit(root, &path, take)?
            } else if kind.is_file() && self.is_file(&path) {
                None
            } else {
                Some(path.clone())
            };
            if foreign.is_none() {
                take(&root.join(&path), kind)?;
            }
            first_foreign = first_foreign.or(foreign);
        }
        Ok(first_foreign)
    }

    /// Returns true if a file with this relative path is one of these.
    pub fn is_file(&self, path: &Path) -> bool {
        let is_listed = |path: &Path| self.paths.contains(path) || self.forms.iter().any(|form| has_form(path, form));
        let temporary_of = path.file_name().and_then(OsStr::to_str).and_then(output_name);
        is_listed(path) || temporary_of.is_some_and(|name| is_listed(&path.with_file_name(name)))
    }

    /// Returns true for the folders above these files. An empty folder whose name may be any is not known to be one.
    fn is_folder(&self, path: &Path, is_empty: bool) -> bool {
        let is_above = |form: &String| {
            let folders = form.match_indices('/').map(|(end, _)| &form[..end]);
            folders.filter(|folder| !(is_empty && folder.ends_with('*'))).any(|folder| has_form(path, folder))
        };
        self.folders.contains(path) || self.forms.iter().any(is_above)
    }
}

/// Returns true for a folder that can be read and has no entries.
fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// Ignores that another process has removed an entry first, or has put something into a folder.
fn unless_changed(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => Err(error),
        _ => Ok(()),
    }
}

/// Returns the entries of a folder by name, without following links. A missing folder has none.
fn entries(dir: &Path) -> io::Result<Vec<(OsString, FileType)>> {
    let read = || -> io::Result<Vec<_>> {
        let entries =
            fs::read_dir(dir)?.map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?))));
        entries.collect()
    };
    let mut entries = match read() {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    entries.sort_by(|(name, _), (other, _)| name.cmp(other));
    Ok(entries)
}

/// Returns true if a path has a form of [`OwnEntries::forms`].
fn has_form(path: &Path, form: &str) -> bool {
    let mut names = path.iter();
    let matches = form.split('/').all(|form| {
        names.next().and_then(OsStr::to_str).is_some_and(|name| match form {
            "*" => !name.starts_with('.'),
            _ => is_numbered(name, form),
        })
    });
    matches && names.next().is_none()
}

/// Returns true if a name is `form` with one or more digits in place of each `#`.
///
/// ```
/// use edgecut_output::is_numbered;
/// assert!(is_numbered("rank-0.restart-12.log", "rank-#.restart-#.log"));
/// assert!(!is_numbered("rank-.log", "rank-#.log") && !is_numbered("rank-0.log.gz", "rank-#.log"));
/// ```
pub fn is_numbered(name: &str, form: &str) -> bool {
    let mut pieces = form.split('#');
    let Some(mut rest) = pieces.next().and_then(|start| name.strip_prefix(start)) else { return false };
    for piece in pieces {
        let after = rest.trim_start_matches(|character: char| character.is_ascii_digit());
        if after.len() == rest.len() {
            return false;
        }
        let Some(after) = after.strip_prefix(piece) else { return false };
        rest = after;
    }
    rest.is_empty()
}
