//! The folder of local copies.
//!
//! The copy of `s3://bucket/a/b` in the state `STATE` is `s3/bucket/a/b+STATE/b` below the folder. A process that uses it has
//! a shared lock on `b+STATE`. The exclusive lock on `b.lock` belongs to the process that fetches or removes.

use crate::{StoreError, StoreUrl};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The length of the hexadecimal digits of a state.
const STATE_LEN: usize = 16;

/// The local copies of a URL.
pub(crate) struct Copies {
    /// The folder of the copies of all states.
    folder: PathBuf,
    name: String,
}

impl Copies {
    pub(crate) fn new(cache: &Path, url: &StoreUrl) -> Self {
        let mut folder = cache.join(url.scheme.name());
        if !url.path.as_ref().is_empty() {
            folder.push(&url.bucket);
            folder.extend(url.parent().path.parts().map(|part| PathBuf::from(part.as_ref())));
        }
        Self { folder, name: url.name().to_owned() }
    }

    /// Returns the folder of the copy of a state.
    pub(crate) fn of_state(&self, state: &str) -> PathBuf {
        self.folder.join(format!("{}+{state}", self.name))
    }

    /// Returns the path of outputs that are not yet uploaded.
    pub(crate) fn staging(&self) -> PathBuf {
        self.folder.join(format!("{}+out", self.name)).join(&self.name)
    }

    /// Waits until no other process fetches or removes copies of this URL. Calls `waits` if it must wait.
    pub(crate) fn lock(&self, waits: impl FnOnce()) -> Result<File, StoreError> {
        fs::create_dir_all(&self.folder).map_err(StoreError::local(&self.folder))?;
        let path = self.folder.join(format!("{}.lock", self.name));
        let file = File::options().create(true).append(true).open(&path).map_err(StoreError::local(&path))?;
        let locked = match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                waits();
                file.lock()
            }
            Err(TryLockError::Error(error)) => Err(error),
            Ok(()) => Ok(()),
        };
        locked.map_err(StoreError::local(&path))?;
        Ok(file)
    }

    /// Removes the copies of other states that no process uses. The caller has the lock.
    pub(crate) fn remove_others(&self, state: &str) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let file_name = entry.file_name();
            let of_state = file_name.to_str().and_then(|name| name.strip_prefix(&self.name)?.strip_prefix('+'));
            let is_other = of_state.is_some_and(|other| {
                other != state && other.len() == STATE_LEN && other.bytes().all(|byte| byte.is_ascii_hexdigit())
            });
            // A copy that cannot be removed only takes space.
            if is_other && File::open(entry.path()).is_ok_and(|copy| copy.try_lock().is_ok()) {
                let _ = remove(&entry.path());
            }
        }
    }

    /// Removes the outputs that are not yet uploaded, or are no longer needed.
    pub(crate) fn remove_staging(&self) -> Result<(), StoreError> {
        let path = self.staging();
        let Some(folder) = path.parent().filter(|folder| folder.exists()) else { return Ok(()) };
        remove(folder).map_err(StoreError::local(folder))
    }
}

/// Removes a folder that [`Copies`] names.
#[allow(clippy::disallowed_methods, reason = "users have their files elsewhere: the folder is in the folder of copies")]
fn remove(folder: &Path) -> io::Result<()> {
    fs::remove_dir_all(folder)
}

/// Returns the folder of local copies that the environment chooses.
pub(crate) fn default_folder() -> PathBuf {
    let cache = folder_in("XDG_CACHE_HOME").or_else(|| Some(folder_in("HOME")?.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("edgecut")
}

fn folder_in(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}
