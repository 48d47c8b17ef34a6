//! Uploads.

use crate::files::files_below;
use crate::limits::{BLOCK_BYTES, MOST_BLOCKS, UPLOADS};
use crate::progress::Progress;
use crate::{StoreError, StoreUrl, Stores};
use futures::stream::{FuturesUnordered, StreamExt, TryStreamExt, iter};
use object_store::path::Path as Key;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload, UploadPart};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// The name of an object below a folder that is never written.
const NEVER_WRITTEN: &str = ".edgecut-check";

impl Stores {
    /// Uploads a file.
    ///
    /// # Errors
    /// [`StoreError::Request`], [`StoreError::Local`]. The object is then absent or as it was.
    pub fn upload_file(&mut self, path: &Path, url: &StoreUrl) -> Result<(), StoreError> {
        let store = self.connected(url)?;
        self.runtime.block_on(put(&*store, path, url))
    }

    /// Checks that an object may be written, without writing one: begins an upload and ends it.
    ///
    /// # Errors
    /// [`StoreError::Request`], also for a URL without a key.
    pub fn check_file(&mut self, url: &StoreUrl) -> Result<(), StoreError> {
        if !url.has_key() {
            return Err(StoreError::no_key(url));
        }
        self.check_key(&url.path, url)
    }

    /// Checks that objects below a folder may be written, as [`Stores::check_file`] does.
    ///
    /// # Errors
    /// [`StoreError::Request`].
    pub fn check_folder(&mut self, url: &StoreUrl) -> Result<(), StoreError> {
        self.check_key(&url.join(NEVER_WRITTEN)?.path, url)
    }

    /// Begins to upload an object with this key, and ends the upload. Errors name `url`.
    fn check_key(&mut self, key: &Key, url: &StoreUrl) -> Result<(), StoreError> {
        let store = self.connected(url)?;
        self.runtime.block_on(async {
            let mut upload = store.put_multipart(key).await.map_err(|error| write_error(url, &error))?;
            // Azure has no request that begins an upload.
            let sent = upload.put_part(PutPayload::from_static(b"-")).await;
            // Without the right to end the upload, what is left is no object, and lifecycle rules remove it.
            let _ = upload.abort().await;
            sent.map_err(|error| write_error(url, &error))
        })
    }

    /// Uploads all files below a folder. Without the file `completing`, the others count for nothing: an earlier one is removed
    /// first, and the new one is uploaded last, so that no reader takes files of two uploads together.
    ///
    /// With `is_replaced`, objects of the same names are replaced, and the objects below the URL that are not among the files and
    /// whose names it accepts are removed. Without it, nothing is replaced and nothing is removed.
    ///
    /// # Errors
    /// [`StoreError::Exists`]; as for [`Stores::upload_file`], and the file `completing` is then absent.
    pub fn upload_folder(
        &mut self,
        dir: &Path,
        url: &StoreUrl,
        completing: Option<&str>,
        is_replaced: Option<&dyn Fn(&str) -> bool>,
    ) -> Result<(), StoreError> {
        let names = files_below(dir)?;
        let old = self.folder_if_any(url)?;
        if let (None, Some(old)) = (is_replaced, &old)
            && let Some(name) = names.iter().find(|name| old.has(name))
        {
            return Err(StoreError::Exists { url: url.join(name)?.to_string() });
        }
        let bytes = names.iter().filter_map(|name| dir.join(name).metadata().ok()).map(|found| found.len()).sum();
        let progress = Progress::start(self.say, "uploading", url, names.len(), bytes);
        let store = self.connected(url)?;
        let upload = Upload { store: &*store, dir, url, progress: &progress };
        self.runtime.block_on(async {
            if let (Some(name), Some(old)) = (completing, &old)
                && old.has(name)
            {
                upload.remove(name).await?;
            }
            let (last, first): (Vec<&String>, Vec<&String>) =
                names.iter().partition(|name| completing == Some(name.as_str()));
            // Large files are sent in several blocks at a time, so they are sent one after the other.
            let (large, small): (Vec<&String>, Vec<&String>) =
                first.into_iter().partition(|name| upload.is_large(name));
            iter(small).map(|name| upload.put(name)).buffer_unordered(UPLOADS).try_collect::<()>().await?;
            for name in large.into_iter().chain(last) {
                upload.put(name).await?;
            }
            let Some(is_replaced) = is_replaced else { return Ok(()) };
            for name in old.iter().flat_map(|old| old.names()) {
                if is_replaced(name) && names.binary_search_by(|new| new.as_str().cmp(name)).is_err() {
                    upload.remove(name).await?;
                }
            }
            Ok::<_, StoreError>(())
        })?;
        progress.finish();
        Ok(())
    }

    /// Removes objects below a folder, in this order. Those that do not exist are no errors.
    ///
    /// # Errors
    /// [`StoreError::Request`].
    pub fn remove(&mut self, url: &StoreUrl, names: &[String]) -> Result<(), StoreError> {
        let store = self.connected(url)?;
        self.runtime.block_on(async {
            for name in names {
                remove(&*store, &url.join(name)?).await?;
            }
            Ok(())
        })
    }
}

/// An upload of a folder.
struct Upload<'a> {
    store: &'a dyn ObjectStore,
    dir: &'a Path,
    url: &'a StoreUrl,
    progress: &'a Progress<'a>,
}

impl Upload<'_> {
    fn is_large(&self, name: &str) -> bool {
        self.dir.join(name).metadata().is_ok_and(|found| found.len() > BLOCK_BYTES)
    }

    async fn put(&self, name: &str) -> Result<(), StoreError> {
        let path = self.dir.join(name);
        put(self.store, &path, &self.url.join(name)?).await?;
        self.progress.add(path.metadata().map_or(0, |found| found.len()));
        Ok(())
    }

    async fn remove(&self, name: &str) -> Result<(), StoreError> {
        remove(self.store, &self.url.join(name)?).await
    }
}

async fn remove(store: &dyn ObjectStore, url: &StoreUrl) -> Result<(), StoreError> {
    match store.delete(&url.path).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(StoreError::request("remove", url, &error)),
    }
}

/// Uploads a file, a large one in blocks.
async fn put(store: &dyn ObjectStore, path: &Path, url: &StoreUrl) -> Result<(), StoreError> {
    let file = Arc::new(File::open(path).map_err(StoreError::local(path))?);
    let size = file.metadata().map_err(StoreError::local(path))?.len();
    if size <= BLOCK_BYTES {
        let payload = read_block(path, &file, 0, size).await?;
        return store.put(&url.path, payload).await.map(drop).map_err(|error| write_error(url, &error));
    }
    let mut upload = store.put_multipart(&url.path).await.map_err(|error| write_error(url, &error))?;
    if let Err(error) = put_blocks(&mut *upload, path, &file, size, url).await {
        // The store may be gone. What is left there is no object, and lifecycle rules remove it.
        let _ = upload.abort().await;
        return Err(error);
    }
    Ok(())
}

async fn put_blocks(
    upload: &mut dyn MultipartUpload,
    path: &Path,
    file: &Arc<File>,
    size: u64,
    url: &StoreUrl,
) -> Result<(), StoreError> {
    let block_bytes = BLOCK_BYTES.max(size.div_ceil(MOST_BLOCKS));
    let mut running: FuturesUnordered<UploadPart> = FuturesUnordered::new();
    for start in (0..size).step_by(block_bytes as usize) {
        if running.len() >= UPLOADS
            && let Some(done) = running.next().await
        {
            done.map_err(|error| write_error(url, &error))?;
        }
        let payload = read_block(path, file, start, block_bytes.min(size - start)).await?;
        running.push(upload.put_part(payload));
    }
    while let Some(done) = running.next().await {
        done.map_err(|error| write_error(url, &error))?;
    }
    upload.complete().await.map(drop).map_err(|error| write_error(url, &error))
}

fn write_error(url: &StoreUrl, error: &object_store::Error) -> StoreError {
    StoreError::request("write", url, error)
}

async fn read_block(path: &Path, file: &Arc<File>, start: u64, length: u64) -> Result<PutPayload, StoreError> {
    let file = file.clone();
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, start).map(|()| bytes)
    });
    let read = read.await.map_err(std::io::Error::other).and_then(|read| read);
    Ok(read.map_err(StoreError::local(path))?.into())
}
