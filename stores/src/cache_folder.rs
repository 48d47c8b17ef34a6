//! The folder of caches.

use std::path::PathBuf;

/// Returns the folder of caches that the environment chooses: `edgecut` in `XDG_CACHE_HOME`, in `~/.cache` or in the folder of
/// temporary files.
pub fn default_cache_folder() -> PathBuf {
    let cache = folder_in("XDG_CACHE_HOME").or_else(|| Some(folder_in("HOME")?.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("edgecut")
}

fn folder_in(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}
