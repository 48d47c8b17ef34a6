//! The state of a folder or an object, and its download.

use crate::client::is_cut;
use crate::limits::{MAX_RETRIES, RANGE_BYTES, REQUESTS};
use crate::progress::Progress;
use crate::timeouts::{FIRST_PAUSE, LONGEST_PAUSE, RETRY_TIMEOUT};
use crate::{StoreError, StoreUrl};
use futures::stream::{StreamExt, TryStreamExt, iter};
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;
use xxhash_rust::xxh3::xxh3_64;

/// The end of the name of a file that is not complete, unless an object has such a name.
const PARTIAL: &str = ".partial";

/// The objects of a folder, or an object, in one state.
#[derive(Clone, Debug)]
pub struct Snapshot {
    url: StoreUrl,
    /// By name: below the folder, or beside the object.
    objects: BTreeMap<String, ObjectMeta>,
    is_folder: bool,
}

impl Snapshot {
    pub(crate) async fn of_folder(store: &dyn ObjectStore, url: &StoreUrl) -> Result<Option<Self>, StoreError> {
        let objects = objects_below(store, url, "").await?;
        Ok((!objects.is_empty()).then(|| Self { url: url.clone(), objects, is_folder: true }))
    }

    pub(crate) async fn of_file(store: &dyn ObjectStore, url: &StoreUrl, endings: &[&str]) -> Result<Self, StoreError> {
        if !url.has_key() {
            return Err(StoreError::no_key(url));
        }
        let object = store.head(&url.path).await.map_err(|error| StoreError::request("read", url, &error))?;
        let mut objects = BTreeMap::from([(url.name().to_owned(), object)]);
        for ending in endings {
            let folder = url.with_ending(ending)?;
            objects.extend(objects_below(store, &folder, &format!("{}/", folder.name())).await?);
        }
        Ok(Self { url: url.clone(), objects, is_folder: false })
    }

    /// Returns the URL.
    pub fn url(&self) -> &StoreUrl {
        &self.url
    }

    /// Returns the names of the objects: below the folder, or beside the object.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.objects.keys().map(String::as_str)
    }

    /// Returns true if there is an object of this name.
    pub fn has(&self, name: &str) -> bool {
        self.objects.contains_key(name)
    }

    /// Returns an end of the names of files that are not complete, which no object has.
    pub(crate) fn partial_ending(&self) -> String {
        let mut ending = PARTIAL.to_owned();
        while self.names().any(|name| has_ending(name, &ending)) {
            ending.push('~');
        }
        ending
    }

    /// Returns true for a folder.
    pub fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// Returns a name that another state of the same URL does not have.
    pub fn state(&self) -> String {
        self.state_of(|_| true)
    }

    /// Like [`state`](Self::state), of the objects whose names `is_counted` accepts.
    pub fn state_of(&self, is_counted: impl Fn(&str) -> bool) -> String {
        let mut text = String::new();
        for (name, object) in self.objects.iter().filter(|(name, _)| is_counted(name)) {
            let version = object.e_tag.clone().unwrap_or_else(|| object.last_modified.to_string());
            text += &format!("{name}\n{}\n{version}\n", object.size);
        }
        format!("{:016x}", xxh3_64(text.as_bytes()))
    }

    /// Returns the folder to which the names are relative, in a copy.
    pub(crate) fn root_in(&self, copy: &Path) -> PathBuf {
        if self.is_folder { copy.join(self.url.name()) } else { copy.to_owned() }
    }

    /// Returns the wanted objects that a folder does not have.
    pub(crate) fn missing(&self, root: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<(&str, &ObjectMeta)> {
        let mut missing = Vec::new();
        for (name, object) in &self.objects {
            let has = root.join(name).metadata().is_ok_and(|found| found.is_file() && found.len() == object.size);
            if is_wanted(name) && !has {
                missing.push((name.as_str(), object));
            }
        }
        missing
    }

    pub(crate) fn bytes(objects: &[(&str, &ObjectMeta)]) -> u64 {
        objects.iter().map(|(_, object)| object.size).sum()
    }
}

/// Returns true if a file or a folder of a path ends with this text.
fn has_ending(path: &str, ending: &str) -> bool {
    path.split('/').any(|name| name.ends_with(ending))
}

/// Returns the objects below a folder by their names, each after `prefix`.
async fn objects_below(
    store: &dyn ObjectStore,
    url: &StoreUrl,
    prefix: &str,
) -> Result<BTreeMap<String, ObjectMeta>, StoreError> {
    let mut objects = BTreeMap::new();
    for object in list(store, url).await? {
        let Some(parts) = object.location.prefix_match(&url.path) else { continue };
        let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
        // The folder itself may have an empty object, as may folders below it.
        if parts.is_empty() {
            continue;
        }
        if parts.iter().any(|part| part.is_empty() || part == "." || part == ".." || part.contains('/')) {
            return Err(StoreError::nothing(
                url,
                &format!("the object {} has no name that a file can have", object.location),
            ));
        }
        objects.insert(format!("{prefix}{}", parts.join("/")), object);
    }
    let names: Vec<String> = objects.keys().cloned().collect();
    objects.retain(|name, object| {
        let below = format!("{name}/");
        let next = names.partition_point(|other| *other < below);
        object.size > 0 || !names.get(next).is_some_and(|other| other.starts_with(&below))
    });
    Ok(objects)
}

/// Returns the objects below a folder, and the folder's own. A listing that is cut is read again.
async fn list(store: &dyn ObjectStore, url: &StoreUrl) -> Result<Vec<ObjectMeta>, StoreError> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    let mut retries = 0;
    loop {
        match store.list(Some(&url.path)).try_collect().await {
            Ok(listed) => return Ok(listed),
            Err(error) if is_cut(&error) && retries < MAX_RETRIES && start.elapsed() < RETRY_TIMEOUT => {
                tokio::time::sleep(pause).await;
                pause = LONGEST_PAUSE.min(2 * pause);
                retries += 1;
            }
            Err(error) => return Err(StoreError::request("list", url, &error)),
        }
    }
}

/// A download of objects to a folder.
pub(crate) struct Download<'a> {
    pub(crate) store: &'a dyn ObjectStore,
    pub(crate) url: &'a StoreUrl,
    pub(crate) root: &'a Path,
    pub(crate) progress: &'a Progress<'a>,
    /// See [`Snapshot::partial_ending`].
    pub(crate) partial_ending: &'a str,
}

impl Download<'_> {
    /// Fetches objects. Each gets its name when it is complete.
    pub(crate) async fn run(&self, objects: &[(&str, &ObjectMeta)]) -> Result<(), StoreError> {
        let requests = Semaphore::new(REQUESTS);
        let files = objects.iter().map(|(name, object)| self.fetch(&requests, name, object));
        iter(files).buffer_unordered(REQUESTS).try_collect().await
    }

    async fn fetch(&self, requests: &Semaphore, name: &str, object: &ObjectMeta) -> Result<(), StoreError> {
        let path = self.root.join(name);
        let mut partial = path.clone().into_os_string();
        partial.push(self.partial_ending);
        let partial = PathBuf::from(partial);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(StoreError::local(folder))?;
        }
        let file = File::create(&partial).map_err(StoreError::local(&partial))?;
        file.set_len(object.size).map_err(StoreError::local(&partial))?;
        let file = Arc::new(file);
        let starts = (0..object.size).step_by(RANGE_BYTES as usize);
        let ranges = starts.map(|start| start..object.size.min(start + RANGE_BYTES));
        let ranges = ranges.map(|range| self.fetch_range(requests, object, range, &file, &partial));
        iter(ranges).buffer_unordered(REQUESTS).try_collect::<()>().await?;
        file.sync_data().map_err(StoreError::local(&partial))?;
        fs::rename(&partial, &path).map_err(StoreError::local(&path))
    }

    async fn fetch_range(
        &self,
        requests: &Semaphore,
        object: &ObjectMeta,
        range: Range<u64>,
        file: &Arc<File>,
        path: &Path,
    ) -> Result<(), StoreError> {
        // The semaphore is never closed.
        let _permit = requests.acquire().await;
        let url = self.url_of(&object.location);
        let options = GetOptions {
            if_match: object.e_tag.clone(),
            range: Some(GetRange::Bounded(range.clone())),
            ..GetOptions::default()
        };
        let answer = self.store.get_opts(&object.location, options).await;
        let answer = answer.map_err(|error| StoreError::request("read", &url, &error))?;
        if answer.meta.size != object.size {
            return Err(StoreError::damaged(&url, object.size, answer.meta.size));
        }
        let bytes = answer.bytes().await.map_err(|error| StoreError::request("read", &url, &error))?;
        let expected = range.end - range.start;
        if bytes.len() as u64 != expected {
            return Err(StoreError::damaged(&url, expected, bytes.len() as u64));
        }
        let file = file.clone();
        let written = tokio::task::spawn_blocking(move || file.write_all_at(&bytes, range.start)).await;
        written.map_err(std::io::Error::other).and_then(|written| written).map_err(StoreError::local(path))?;
        self.progress.add(expected);
        Ok(())
    }

    fn url_of(&self, key: &Key) -> StoreUrl {
        StoreUrl { path: key.clone(), ..self.url.clone() }
    }
}

#[cfg(all(test, feature = "clouds"))]
mod tests {
    use super::*;

    #[test]
    fn no_object_has_the_name_of_an_incomplete_file() {
        for (names, ending) in [
            (&["a", "b.partial.txt"][..], ".partial"),
            (&["a", "a.partial"], ".partial~"),
            (&["a", "a.partial/rows"], ".partial~"),
            (&["a.partial~", "b.partial"], ".partial~~"),
        ] {
            let url: StoreUrl = StoreUrl::parse("s3://bucket/folder").unwrap();
            let mut objects = BTreeMap::new();
            for name in names {
                let object = ObjectMeta {
                    location: Key::from(*name),
                    last_modified: Default::default(),
                    size: 1,
                    e_tag: None,
                    version: None,
                };
                objects.insert((*name).to_owned(), object);
            }
            assert_eq!(Snapshot { url, objects, is_folder: true }.partial_ending(), ending, "{names:?}");
        }
    }
}
