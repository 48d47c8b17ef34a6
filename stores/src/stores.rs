//! The object stores that a process reads and writes.

use crate::cache::{Copies, remove_if_output};
use crate::cache_folder::default_cache_folder;
use crate::client::connect;
use crate::fetch::{Download, Snapshot};
use crate::files::files_below;
use crate::progress::Progress;
use crate::store_url::Scheme;
use crate::timeouts::{LOCK_TIMEOUT, MIRROR_POLL, OUTPUTS_TIMEOUT};
use crate::{StoreError, StoreUrl};
use object_store::{ObjectStore, ObjectStoreExt};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// The file that describes the parts of a graph, and whose presence tells that they are complete.
const META_FILE: &str = "META.json";

/// The object stores that a process reads and writes, by the credentials in its environment. Calls block.
///
/// While the value lives, no process removes the copies that it has fetched.
///
/// ```no_run
/// use edgecut_stores::{StoreUrl, Stores};
/// let mut stores = Stores::new(None, |line| eprintln!("{line}"))?;
/// let tables = stores.folder(&StoreUrl::parse("s3://shop/tables")?)?;
/// let folder = stores.fetch(&tables, |name| name.ends_with(".parquet"))?;
/// assert!(folder.join("customers.parquet").exists());
/// # Ok::<(), edgecut_stores::StoreError>(())
/// ```
pub struct Stores {
    pub(crate) runtime: Runtime,
    cache: PathBuf,
    pub(crate) say: fn(&str),
    connected: BTreeMap<(Scheme, String), Arc<dyn ObjectStore>>,
    /// The locks on copies and outputs in use.
    in_use: Vec<File>,
    /// The number of this machine in a job that writes outputs on several machines.
    node: Option<usize>,
    /// The name of the run that writes outputs, if it has one.
    run: Option<String>,
    pub(crate) lock_timeout: Duration,
    pub(crate) outputs_timeout: Duration,
}

/// The role of a process for the local outputs of a URL, which the processes of a job on a machine share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputRole {
    /// Begins new outputs.
    First,
    /// Continues the outputs of an earlier attempt to run the job.
    Continuing,
    /// Writes beside another process of the job, which is one of the above.
    Other,
}

/// The local copies and outputs that a process uses. While the value lives, no process removes them.
#[derive(Debug, Default)]
pub struct CopiesInUse(#[expect(dead_code, reason = "the locks end when the files are closed")] Vec<File>);

impl Stores {
    /// Creates the access to all stores. `cache_dir` is the folder of local copies, by default one in the home directory.
    /// `say` receives lines about the progress.
    ///
    /// # Errors
    /// [`StoreError::Runtime`].
    pub fn new(cache_dir: Option<&Path>, say: fn(&str)) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let cache = cache_dir.map_or_else(default_cache_folder, Path::to_owned);
        Ok(Self {
            runtime: runtime.map_err(|source| StoreError::Runtime { source })?,
            cache: std::path::absolute(&cache).map_err(StoreError::local(cache))?,
            say,
            connected: BTreeMap::new(),
            in_use: Vec::new(),
            node: None,
            run: None,
            lock_timeout: LOCK_TIMEOUT,
            outputs_timeout: OUTPUTS_TIMEOUT,
        })
    }

    /// Sets the number of this machine in a job that writes outputs on several machines. They may share the folder of local
    /// copies, and each has its own outputs there.
    #[must_use]
    pub fn on_node(self, node: Option<usize>) -> Self {
        Self { node, ..self }
    }

    /// Sets the name of the run that writes outputs, which all its attempts share.
    #[must_use]
    pub fn of_run(self, run: Option<String>) -> Self {
        Self { run, ..self }
    }

    /// Ends all connections and threads, and keeps the copies that were fetched.
    pub fn into_copies(self) -> CopiesInUse {
        CopiesInUse(self.in_use)
    }

    /// Returns the state of a folder, without fetching it.
    ///
    /// # Errors
    /// [`StoreError::Request`], also if nothing is below the URL.
    pub fn folder(&mut self, url: &StoreUrl) -> Result<Snapshot, StoreError> {
        let found = self.folder_if_any(url)?;
        found.ok_or_else(|| StoreError::nothing(url, "there is no object below it: correct the URL"))
    }

    /// Returns the state of a folder, or `None` if nothing is below the URL.
    ///
    /// # Errors
    /// [`StoreError::Request`].
    pub fn folder_if_any(&mut self, url: &StoreUrl) -> Result<Option<Snapshot>, StoreError> {
        let store = self.connected(url)?;
        self.runtime.block_on(Snapshot::of_folder(&*store, url))
    }

    /// Returns the state of an object, and of the folders whose names are the name of the object with one of these endings.
    ///
    /// # Errors
    /// [`StoreError::Request`], also if there is no such object.
    pub fn file(&mut self, url: &StoreUrl, endings: &[&str]) -> Result<Snapshot, StoreError> {
        let store = self.connected(url)?;
        self.runtime.block_on(Snapshot::of_file(&*store, url, endings))
    }

    /// Returns the state of an object, or `None` if there is no such object.
    ///
    /// # Errors
    /// [`StoreError::Request`].
    pub fn file_if_any(&mut self, url: &StoreUrl) -> Result<Option<Snapshot>, StoreError> {
        if self.has(url)? { self.file(url, &[]).map(Some) } else { Ok(None) }
    }

    /// Returns the state of the folder, or of the object, that the URL names.
    ///
    /// # Errors
    /// [`StoreError::Request`], also if there is neither.
    pub fn file_or_folder(&mut self, url: &StoreUrl) -> Result<Snapshot, StoreError> {
        match self.folder_if_any(url)? {
            Some(folder) => Ok(folder),
            None => self.file(url, &[]),
        }
    }

    /// Returns true if there is an object at the URL.
    ///
    /// # Errors
    /// [`StoreError::Request`].
    pub fn has(&mut self, url: &StoreUrl) -> Result<bool, StoreError> {
        let store = self.connected(url)?;
        match self.runtime.block_on(store.head(&url.path)) {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(StoreError::request("read", url, &error)),
        }
    }

    /// Fetches the objects of a state whose names `is_wanted` accepts, unless the copy has them. Returns the path of the
    /// copy, which stays as long as this value.
    ///
    /// # Errors
    /// [`StoreError::Request`] if an object cannot be read or has changed since the state was read, [`StoreError::Local`],
    /// [`StoreError::Locked`].
    pub fn fetch(&mut self, snapshot: &Snapshot, is_wanted: impl Fn(&str) -> bool) -> Result<PathBuf, StoreError> {
        let url = snapshot.url();
        let copies = self.copies(url);
        let state = snapshot.state();
        let copy = copies.of_state(&state);
        let lock = self.lock(&copies, url)?;
        fs::create_dir_all(&copy).map_err(StoreError::local(&copy))?;
        self.in_use.push(copies.lock_state(&state)?);
        self.download(snapshot, &snapshot.root_in(&copy), is_wanted, &lock)?;
        copies.remove_others(&state);
        drop(lock);
        Ok(copy.join(url.name()))
    }

    /// Fetches `META.json`, the files of no part, the files of the parts that `choose` returns for the number of parts, and the
    /// files of other parts whose names `is_wanted` accepts. Fetches all files of a folder without `META.json`. Returns the path
    /// of the copy.
    ///
    /// # Errors
    /// As for [`Stores::fetch`], and [`StoreError::Request`] for a `META.json` with more parts than there are.
    pub fn fetch_parts(
        &mut self,
        url: &StoreUrl,
        choose: impl FnOnce(usize) -> Vec<usize>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<PathBuf, StoreError> {
        let snapshot = self.folder(url)?;
        if !snapshot.has(META_FILE) {
            return self.fetch(&snapshot, |_| true);
        }
        let dir = self.fetch(&snapshot, |name| name == META_FILE)?;
        let path = dir.join(META_FILE);
        let text = fs::read(&path).map_err(StoreError::local(&path))?;
        let meta: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let folders: BTreeSet<usize> = snapshot.names().filter_map(part_of).collect();
        let parts = match meta["num_parts"].as_u64() {
            // The reader of the parts describes the fault.
            None | Some(0) => Vec::new(),
            Some(number) if number > folders.len() as u64 => {
                let found = folders.len();
                let why =
                    format!("its {META_FILE} describes {number} parts, but it has {found}: upload the parts again");
                return Err(StoreError::nothing(url, &why));
            }
            Some(number) => choose(number as usize),
        };
        self.fetch(&snapshot, |name| part_of(name).is_none_or(|part| parts.contains(&part)) || is_wanted(name))
    }

    /// Makes the local outputs for a URL equal to what the store has, for a process that continues to write there. A process
    /// with [`OutputRole::Other`] waits until another one has done this. Returns their path.
    ///
    /// # Errors
    /// As for [`Stores::fetch`] and [`Stores::output`].
    pub fn mirror(&mut self, url: &StoreUrl, role: OutputRole) -> Result<PathBuf, StoreError> {
        let copies = self.copies(url);
        let dir = self.output(url, role)?;
        if role == OutputRole::Other {
            self.wait_for_mirror(&copies, url)?;
            return Ok(dir);
        }
        let lock = self.lock(&copies, url)?;
        let snapshot = self.folder_if_any(url)?;
        let state = snapshot.as_ref().map(Snapshot::state).unwrap_or_default();
        // Files of the same names and sizes may come from an interrupted run, so they are replaced.
        let recorded = copies.recorded_state();
        if snapshot.is_none() || !copies.records(&state) {
            copies.clear_outputs()?;
            fs::create_dir_all(&dir).map_err(StoreError::local(&dir))?;
        }
        for name in files_below(&dir)? {
            if !snapshot.as_ref().is_some_and(|snapshot| snapshot.has(&name)) {
                let path = dir.join(name);
                fs::remove_file(&path).map_err(StoreError::local(&path))?;
            }
        }
        if let Some(snapshot) = snapshot {
            self.download(&snapshot, &dir, |_| true, &lock)?;
        }
        fs::write(&recorded, &state).map_err(StoreError::local(&recorded))?;
        drop(lock);
        Ok(dir)
    }

    /// Waits until the first process of this machine has made the local outputs equal to what the store has. This process
    /// must not change them: a job that still runs may write there, which only the first process finds out.
    fn wait_for_mirror(&mut self, copies: &Copies, url: &StoreUrl) -> Result<(), StoreError> {
        let start = Instant::now();
        let mut says = true;
        loop {
            let snapshot = self.folder_if_any(url)?;
            let lock = self.lock_saying_once(copies, url, &mut says)?;
            if copies.records(&snapshot.as_ref().map(Snapshot::state).unwrap_or_default()) {
                return Ok(());
            }
            drop(lock);
            if start.elapsed() >= self.lock_timeout {
                let why = format!(
                    "the first process of this machine has not fetched {url} within {} s: see its error",
                    self.lock_timeout.as_secs()
                );
                return Err(StoreError::Locked { path: copies.recorded_state(), why });
            }
            std::thread::sleep(MIRROR_POLL);
        }
    }

    /// Returns the local path at which a process writes what it uploads to this URL. For [`OutputRole::First`], nothing is
    /// there. No other job writes there while this value lives.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another job writes there, [`StoreError::NotUploaded`] if new outputs would replace complete
    /// ones of another run, [`StoreError::Local`].
    pub fn output(&mut self, url: &StoreUrl, role: OutputRole) -> Result<PathBuf, StoreError> {
        let copies = self.copies(url);
        let path = copies.output();
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        fs::create_dir_all(&folder).map_err(StoreError::local(&folder))?;
        if role != OutputRole::Other {
            let say = self.say;
            self.in_use.push(copies.lock_outputs(self.outputs_timeout, url, || {
                say(&format!("waiting for another process that writes outputs for {url}"));
            })?);
        }
        // Complete outputs of an earlier attempt may be replaced by better ones.
        let continues = role == OutputRole::Continuing && self.run.is_some() && copies.complete_of_run() == self.run;
        if role != OutputRole::Other && copies.are_complete() && !continues {
            return Err(StoreError::NotUploaded { path, folder, url: url.to_string() });
        }
        if role == OutputRole::First {
            copies.clear_outputs()?;
        }
        Ok(path)
    }

    /// Returns true if an earlier attempt at this run has completed the local outputs for a URL, or has also uploaded them.
    pub fn are_complete_of_run(&self, url: &StoreUrl) -> bool {
        self.run.is_some() && self.copies(url).complete_of_run() == self.run
    }

    /// Removes the local outputs for a URL, which are uploaded. A restarted attempt at a run with a name finds that they were.
    ///
    /// # Errors
    /// [`StoreError::Local`].
    pub fn remove_uploaded(&self, url: &StoreUrl) -> Result<(), StoreError> {
        match &self.run {
            Some(run) => self.copies(url).remove_uploaded(url, run),
            None => self.copies(url).remove_outputs(),
        }
    }

    /// Forgets that an earlier run has uploaded outputs to a URL.
    ///
    /// # Errors
    /// [`StoreError::Local`].
    pub fn forget_uploaded(&self, url: &StoreUrl) -> Result<(), StoreError> {
        self.copies(url).forget_uploaded()
    }

    /// Marks the local outputs for a URL as complete, before they are uploaded. From then on only [`Stores::remove_output`],
    /// [`Stores::remove_uploaded`] and [`Stores::remove_if_output`] remove them.
    ///
    /// # Errors
    /// [`StoreError::Local`].
    pub fn mark_complete(&self, url: &StoreUrl) -> Result<(), StoreError> {
        self.copies(url).mark_complete(url, self.run.as_deref())
    }

    /// Marks complete local outputs for a URL as outputs of no run, so that a restarted attempt does not upload them either.
    ///
    /// # Errors
    /// [`StoreError::Local`].
    pub fn keep_from_restarts(&self, url: &StoreUrl) -> Result<(), StoreError> {
        self.copies(url).mark_complete(url, None)
    }

    /// Removes the local outputs for a URL, which are uploaded.
    ///
    /// # Errors
    /// [`StoreError::Local`].
    pub fn remove_output(&self, url: &StoreUrl) -> Result<(), StoreError> {
        self.copies(url).remove_outputs()
    }

    /// Removes `dir` if it has the local outputs for a URL that another command could not upload: they are uploaded now.
    ///
    /// # Errors
    /// [`StoreError::Local`].
    pub fn remove_if_output(&self, dir: &Path, url: &StoreUrl) -> Result<(), StoreError> {
        remove_if_output(dir, url)
    }

    pub(crate) fn copies(&self, url: &StoreUrl) -> Copies {
        Copies::new(&self.cache, url, self.node)
    }

    /// Waits until no other process fetches or removes copies of a URL.
    fn lock(&self, copies: &Copies, url: &StoreUrl) -> Result<File, StoreError> {
        self.lock_saying_once(copies, url, &mut true)
    }

    /// Like [`lock`](Self::lock), for a process that waits several times. `says` becomes false when a line about a wait is printed.
    pub(crate) fn lock_saying_once(
        &self,
        copies: &Copies,
        url: &StoreUrl,
        says: &mut bool,
    ) -> Result<File, StoreError> {
        copies.lock(self.lock_timeout, || {
            if std::mem::take(says) {
                (self.say)(&format!("waiting for another process that fetches {url}"));
            }
        })
    }

    /// Fetches the objects that `root` lacks. The caller has the lock of the URL, and shows its progress there.
    fn download(
        &mut self,
        snapshot: &Snapshot,
        root: &Path,
        is_wanted: impl Fn(&str) -> bool,
        lock: &File,
    ) -> Result<(), StoreError> {
        let missing = snapshot.missing(root, is_wanted);
        if missing.is_empty() {
            return Ok(());
        }
        let store = self.connected(snapshot.url())?;
        let url = snapshot.url();
        let progress = Progress::start(self.say, "fetching", url, missing.len(), Snapshot::bytes(&missing));
        let progress = progress.with_lock(lock);
        let partial_ending = snapshot.partial_ending();
        let download = Download { store: &*store, url, root, progress: &progress, partial_ending: &partial_ending };
        self.runtime.block_on(download.run(&missing))?;
        progress.finish();
        Ok(())
    }

    /// Returns the connection to the store of a URL.
    pub(crate) fn connected(&mut self, url: &StoreUrl) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let key = (url.scheme, url.bucket.clone());
        if let Some(store) = self.connected.get(&key) {
            return Ok(store.clone());
        }
        let store = connect(url)?;
        self.connected.insert(key, store.clone());
        Ok(store)
    }
}

/// Returns the part that a file belongs to.
fn part_of(name: &str) -> Option<usize> {
    name.strip_prefix("part_")?.split('/').next()?.parse().ok()
}
