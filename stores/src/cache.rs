//! The folder of local copies and outputs.
//!
//! The copy of `s3://bucket/a/b` in the state `STATE` is `s3/bucket/a/b+STATE/b` below the folder. A process that uses it has
//! a shared lock on `b+STATE.lock`. The exclusive lock on `b.lock` belongs to the process that fetches or removes. Outputs are
//! in `b+out` until they are uploaded, and the lock on `b+out.lock` belongs to the process that uploads them. Locks are on
//! files, since network file systems share locks on files with other machines, but no locks on folders.

use crate::timeouts::LOCK_POLL;
use crate::{StoreError, StoreUrl};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The length of the hexadecimal digits of a state.
const STATE_LEN: usize = 16;
/// The last line of the mark of outputs that are uploaded.
const UPLOADED: &str = "\nuploaded";

/// The local copies of a URL, and its local outputs.
pub(crate) struct Copies {
    /// The folder of the copies of all states.
    folder: PathBuf,
    name: String,
    /// The end of the name of the folder of outputs.
    outputs_of: String,
}

impl Copies {
    /// Returns the copies of a URL. `node` is the number of this machine in a job that writes outputs on several machines.
    pub(crate) fn new(cache: &Path, url: &StoreUrl, node: Option<usize>) -> Self {
        let mut folder = cache.join(url.scheme.name());
        if url.has_key() {
            folder.push(&url.bucket);
            folder.extend(url.parent().path.parts().map(|part| PathBuf::from(part.as_ref())));
        }
        let outputs_of = node.map_or_else(String::new, |node| format!("-{node}"));
        Self { folder, name: url.name().to_owned(), outputs_of }
    }

    /// Returns the folder of the copy of a state.
    pub(crate) fn of_state(&self, state: &str) -> PathBuf {
        self.folder.join(format!("{}+{state}", self.name))
    }

    /// Returns the path of outputs that are not yet uploaded.
    pub(crate) fn output(&self) -> PathBuf {
        self.output_folder().join(&self.name)
    }

    fn output_folder(&self) -> PathBuf {
        self.folder.join(format!("{}+out{}", self.name, self.outputs_of))
    }

    /// Returns the record of the state of the store that the outputs continue. No output has its name.
    pub(crate) fn recorded_state(&self) -> PathBuf {
        with_ending(&self.output(), "+state")
    }

    /// Returns true if the outputs continue this state of the store.
    pub(crate) fn records(&self, state: &str) -> bool {
        fs::read(self.recorded_state()).is_ok_and(|text| text == state.as_bytes())
    }

    /// Waits until no other process fetches or removes copies of this URL. Calls `waits` if it must wait.
    ///
    /// # Errors
    /// Another process that has the lock and makes no progress for the time `limit`.
    pub(crate) fn lock(&self, limit: Duration, waits: impl FnOnce()) -> Result<File, StoreError> {
        let path = self.lock_file(&self.name);
        let file = open_lock(&path)?;
        if !lock_within(&file, &path, limit, waits)? {
            let why = format!(
                "another process has this lock and has made no progress for {} s: end it (`fuser` names it), or choose \
                 another folder with --cache-dir",
                limit.as_secs()
            );
            return Err(StoreError::Locked { path, why });
        }
        show_progress(&file);
        Ok(file)
    }

    /// Marks the copy of a state as used by this process. The caller has the lock.
    pub(crate) fn lock_state(&self, state: &str) -> Result<File, StoreError> {
        let path = self.lock_file(&format!("{}+{state}", self.name));
        let file = open_lock(&path)?;
        match file.try_lock_shared() {
            Ok(()) => Ok(file),
            Err(TryLockError::Error(error)) => Err(StoreError::local(path)(error)),
            Err(TryLockError::WouldBlock) => Err(StoreError::Locked {
                path,
                why: "another process removes the copy: run the command again".to_owned(),
            }),
        }
    }

    /// Reserves the local outputs for this process. Processes of an earlier job have the time `limit` to end. Calls `waits` if it must
    /// wait.
    ///
    /// # Errors
    /// Another process that writes outputs for the URL.
    pub(crate) fn lock_outputs(
        &self,
        limit: Duration,
        url: &StoreUrl,
        waits: impl FnOnce(),
    ) -> Result<File, StoreError> {
        let path = with_ending(&self.output_folder(), ".lock");
        let file = open_lock(&path)?;
        if !lock_within(&file, &path, limit, waits)? {
            let why = format!(
                "another process, which has this lock, writes outputs for {url}: wait until it has ended, or choose another URL"
            );
            return Err(StoreError::Locked { path, why });
        }
        Ok(file)
    }

    fn lock_file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.lock"))
    }

    /// Removes the copies of other states that no process uses. The caller has the lock.
    pub(crate) fn remove_others(&self, state: &str) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let file_name = entry.file_name();
            let Some(file_name) = file_name.to_str() else { continue };
            let of_state = file_name.strip_prefix(&self.name).and_then(|name| name.strip_prefix('+'));
            let is_other = of_state.is_some_and(|other| {
                other != state && other.len() == STATE_LEN && other.bytes().all(|byte| byte.is_ascii_hexdigit())
            });
            if !is_other {
                continue;
            }
            let lock = self.lock_file(file_name);
            // A copy that cannot be removed only takes space.
            if open_lock(&lock).is_ok_and(|file| file.try_lock().is_ok()) && remove(&entry.path()).is_ok() {
                let _ = fs::remove_file(lock);
            }
        }
    }

    /// Marks the outputs of a run as complete, so that no other command removes them before they are uploaded.
    pub(crate) fn mark_complete(&self, url: &StoreUrl, run: Option<&str>) -> Result<(), StoreError> {
        let path = complete_mark(&self.output());
        let run = run.map_or_else(String::new, |run| format!("\n{run}"));
        fs::write(&path, format!("{url}{run}"))
            .and_then(|()| File::open(&path)?.sync_all())
            .map_err(StoreError::local(&path))?;
        let folder = self.output_folder();
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(StoreError::local(&folder))
    }

    /// Removes the outputs of a run, which are uploaded, and keeps their mark, by which a restarted attempt at the run finds that
    /// nothing is left to do.
    pub(crate) fn remove_uploaded(&self, url: &StoreUrl, run: &str) -> Result<(), StoreError> {
        let output = self.output();
        let mark = complete_mark(&output);
        fs::write(&mark, format!("{url}\n{run}{UPLOADED}")).map_err(StoreError::local(&mark))?;
        if output.exists() {
            remove(&output).map_err(StoreError::local(output))?;
        }
        Ok(())
    }

    /// Removes the mark of outputs that are uploaded, which a new run does not need.
    pub(crate) fn forget_uploaded(&self) -> Result<(), StoreError> {
        let mark = complete_mark(&self.output());
        if fs::read_to_string(&mark).is_ok_and(|text| text.ends_with(UPLOADED)) {
            self.remove_outputs()
        } else {
            Ok(())
        }
    }

    /// Returns true for complete outputs that were not uploaded.
    pub(crate) fn are_complete(&self) -> bool {
        let mark = complete_mark(&self.output());
        mark.exists() && !fs::read_to_string(&mark).is_ok_and(|text| text.ends_with(UPLOADED))
    }

    /// Returns the name of the run that has completed the outputs, if it has one.
    pub(crate) fn complete_of_run(&self) -> Option<String> {
        let text = fs::read_to_string(complete_mark(&self.output())).ok()?;
        text.split('\n').nth(1).map(str::to_owned)
    }

    /// Removes the outputs, which are not complete or are uploaded. Their folder stays, since other processes of the job may
    /// use it already.
    pub(crate) fn clear_outputs(&self) -> Result<(), StoreError> {
        let folder = self.output_folder();
        fs::create_dir_all(&folder).map_err(StoreError::local(&folder))?;
        for entry in fs::read_dir(&folder).map_err(StoreError::local(&folder))? {
            let entry = entry.map_err(StoreError::local(&folder))?;
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match if is_folder { remove(&path) } else { fs::remove_file(&path) } {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(StoreError::local(path)(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes the outputs, which are uploaded, with their folder.
    pub(crate) fn remove_outputs(&self) -> Result<(), StoreError> {
        let folder = self.output_folder();
        if !folder.exists() {
            return Ok(());
        }
        remove(&folder).map_err(StoreError::local(folder))
    }
}

/// Removes complete outputs that a command has left in `dir`, if they are of `url`: they are uploaded now. Does nothing for
/// other folders, such as one to which a user has moved the outputs with their mark.
pub(crate) fn remove_if_output(dir: &Path, url: &StoreUrl) -> Result<(), StoreError> {
    let dir = dir.canonicalize().map_err(StoreError::local(dir))?;
    let mark = fs::read_to_string(complete_mark(&dir)).unwrap_or_default();
    if mark.split('\n').next() != Some(&*url.to_string()) {
        return Ok(());
    }
    match dir.parent() {
        Some(folder) if is_output_folder(folder, &dir) => remove(folder).map_err(StoreError::local(folder)),
        _ => Ok(()),
    }
}

/// Returns true if `folder` has the name of the folder of the outputs `output`, and only files and folders that are named after them.
fn is_output_folder(folder: &Path, output: &Path) -> bool {
    let [folder_name, name] = [folder, output].map(|path| path.file_name().and_then(OsStr::to_str));
    let (Some(folder_name), Some(name), Ok(entries)) = (folder_name, name, fs::read_dir(folder)) else { return false };
    // The number of the machine may follow.
    if !folder_name.starts_with(&format!("{name}+out")) {
        return false;
    }
    let mut names = entries.map(|entry| entry.ok().and_then(|entry| entry.file_name().into_string().ok()));
    names.all(|entry| entry.is_some_and(|entry| entry.trim_start_matches('.').starts_with(name)))
}

/// Returns the file beside outputs that exists if they are complete. It contains their URL, on the next line the name of their
/// run if it has one, and then a line once they are uploaded.
fn complete_mark(output: &Path) -> PathBuf {
    with_ending(output, "+complete")
}

/// Shows the processes that wait for a lock that its owner makes progress.
pub(crate) fn show_progress(lock: &File) {
    // Where the time cannot be set, the other processes give up earlier.
    let _ = lock.set_modified(SystemTime::now());
}

/// Opens a file for locks. Network file systems need the right to write for exclusive locks, and to read for shared ones.
fn open_lock(path: &Path) -> Result<File, StoreError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(StoreError::local(folder))?;
    }
    OpenOptions::new().read(true).append(true).create(true).open(path).map_err(StoreError::local(path))
}

/// Locks a file. Returns false if another process keeps the lock and shows no progress for the time `limit`. Calls `waits` if it
/// must wait.
fn lock_within(file: &File, path: &Path, limit: Duration, waits: impl FnOnce()) -> Result<bool, StoreError> {
    let mut announce = Some(waits);
    let mut seen = None;
    let mut since = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(StoreError::local(path)(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        if let Some(waits) = announce.take() {
            waits();
        }
        let shown = file.metadata().and_then(|found| found.modified()).ok();
        if shown != seen {
            seen = shown;
            since = Instant::now();
        } else if since.elapsed() >= limit {
            return Ok(false);
        }
        std::thread::sleep(LOCK_POLL);
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Removes a folder that [`Copies`] names.
#[allow(clippy::disallowed_methods, reason = "users have their files elsewhere: the folder is in the folder of copies")]
fn remove(folder: &Path) -> io::Result<()> {
    fs::remove_dir_all(folder)
}
