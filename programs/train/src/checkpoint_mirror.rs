//! Checkpoints in object stores.

use edgecut_cli::{StoreArgs, message};
use edgecut_stores::{StoreUrl, Stores};
use edgecut_trainer::checkpoint::CheckpointMirror;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Returns the copy in an object store of the checkpoints in `dir`, if the user gave a URL.
pub(crate) fn checkpoint_mirror(args: &StoreArgs, dir: &Path) -> anyhow::Result<Option<Arc<dyn CheckpointMirror>>> {
    let Some(url) = args.url_of("checkpoint_dir") else { return Ok(None) };
    let url = StoreUrl::parse(url)?;
    // Each checkpoint is one of many lines of a training, so its upload has none.
    let stores = Stores::new(args.cache_dir.as_deref(), |_| {})?;
    Ok(Some(Arc::new(Mirror { url, dir: dir.to_owned(), stores: Mutex::new(stores) })))
}

/// The files of checkpoints in an object store.
struct Mirror {
    url: StoreUrl,
    dir: PathBuf,
    stores: Mutex<Stores>,
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.url)
    }
}

impl CheckpointMirror for Mirror {
    fn put(&self, name: &Path) -> io::Result<()> {
        let url = self.url.join(&name.to_string_lossy()).map_err(io::Error::other)?;
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.upload_file(&self.dir.join(name), &url).map_err(io::Error::other)
    }

    fn has(&self, name: &Path) -> io::Result<bool> {
        let url = self.url.join(&name.to_string_lossy()).map_err(io::Error::other)?;
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.has(&url).map_err(io::Error::other)
    }

    fn remove(&self, names: &[PathBuf]) {
        let names: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = stores.remove(&self.url, &names) {
            message!("warning: an old checkpoint stays: {error}");
        }
    }
}
