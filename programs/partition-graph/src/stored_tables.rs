//! Tables in object stores that configurations name.

use edgecut_cli::{StoreArgs, is_url, message, path_of_file_url};
use edgecut_stores::{StoreUrl, Stores};
use edgecut_tables::RemoteTables;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Prints the progress of requests.
pub(crate) fn say(line: &str) {
    message!("{line}");
}

/// The tables in object stores that a configuration names.
#[derive(Debug)]
pub(crate) struct StoredTables {
    cache_dir: Option<PathBuf>,
    /// The folder of the configuration, at which relative paths start, if that is in a store.
    folder: Option<StoreUrl>,
    fetched: Mutex<Fetched>,
}

/// The copies that were fetched, by URL or pattern.
#[derive(Default)]
struct Fetched {
    copies: BTreeMap<String, String>,
    stores: Option<Stores>,
}

impl std::fmt::Debug for Fetched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.copies.fmt(f)
    }
}

impl StoredTables {
    /// Returns the access to the tables of a configuration.
    pub(crate) fn of_conf(args: &StoreArgs) -> anyhow::Result<Arc<dyn RemoteTables>> {
        let folder = args.url_of("conf").map(StoreUrl::parse).transpose()?.map(|conf| conf.parent());
        Ok(Arc::new(Self { cache_dir: args.cache_dir.clone(), folder, fetched: Mutex::default() }))
    }
}

impl RemoteTables for StoredTables {
    fn local_copy(&self, files: &str) -> Result<Option<String>, Box<dyn Error + Send + Sync>> {
        if let Some(path) = path_of_file_url(files)? {
            return Ok(Some(path));
        }
        let url = match &self.folder {
            _ if is_url(files) => files.to_owned(),
            Some(folder) if !files.starts_with('/') => url_in(folder, files)?,
            _ => return Ok(None),
        };
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        let Fetched { copies, stores } = &mut *fetched;
        if let Some(copy) = copies.get(&url) {
            return Ok(Some(copy.clone()));
        }
        let stores = match stores {
            Some(stores) => stores,
            none => none.insert(Stores::new(self.cache_dir.as_deref(), say)?),
        };
        let copy = fetch_tables(stores, &url)?;
        copies.insert(url, copy.clone());
        Ok(Some(copy))
    }
}

/// Returns the URL of a relative path or pattern in a configuration in `folder`. `.` and `..` have the same meaning as in a path.
fn url_in(folder: &StoreUrl, files: &str) -> Result<String, String> {
    let mut folder = folder.clone();
    let mut below = Vec::new();
    for segment in files.split('/') {
        match segment {
            "." => {}
            ".." if !below.is_empty() => drop(below.pop()),
            ".." if folder.has_key() => folder = folder.parent(),
            ".." => {
                return Err(format!(
                    "{files} in a configuration in an object store: the path leaves the bucket {folder}, so give a URL"
                ));
            }
            _ => below.push(segment),
        }
    }
    Ok(format!("{folder}/{}", below.join("/")))
}

/// Fetches an object, a folder or the objects of a pattern. Returns the path or the pattern of the copy.
fn fetch_tables(stores: &mut Stores, url: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    let Some(wildcard) = url.find(['*', '?', '[']) else {
        let found = stores.file_or_folder(&StoreUrl::parse(url)?)?;
        let copy = stores.fetch(&found, |_| true)?;
        return Ok(copy.to_string_lossy().into_owned());
    };
    // The folder above the first wildcard is listed.
    let end = url[..wildcard].rfind('/').unwrap_or(0);
    let names = &url[end + 1..];
    let pattern = glob::Pattern::new(names).map_err(|error| format!("{url}: it is not a pattern: {error}"))?;
    // As in folders, hidden names are matched only by a pattern that spells the dot.
    let options = glob::MatchOptions {
        require_literal_separator: true,
        require_literal_leading_dot: true,
        ..glob::MatchOptions::new()
    };
    let folder = stores.folder(&StoreUrl::parse(&url[..end])?)?;
    if !folder.names().any(|name| matches(&pattern, name, options)) {
        return Err(format!("{url}: there is no object of this pattern").into());
    }
    let copy = stores.fetch(&folder, |name| matches(&pattern, name, options))?;
    Ok(format!("{}/{names}", copy.to_string_lossy()))
}

/// Returns true if a pattern names an object, or a folder that it is in.
fn matches(pattern: &glob::Pattern, name: &str, options: glob::MatchOptions) -> bool {
    let ends = name.match_indices('/').map(|(end, _)| end).chain([name.len()]);
    ends.into_iter().any(|end| pattern.matches_with(&name[..end], options))
}

#[cfg(all(test, feature = "stores"))]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_are_resolved_in_the_bucket() {
        let folder = StoreUrl::parse("s3://b/conf/daily").unwrap();
        for (files, url) in [
            ("users.csv", "s3://b/conf/daily/users.csv"),
            ("./items-*.csv", "s3://b/conf/daily/items-*.csv"),
            ("../../data/./x/../users.csv", "s3://b/data/users.csv"),
            ("../purchases/", "s3://b/conf/purchases/"),
        ] {
            assert_eq!(url_in(&folder, files).unwrap(), url);
        }
        assert!(url_in(&folder, "../../../users.csv").unwrap_err().contains("leaves the bucket s3://b"));
    }
}
