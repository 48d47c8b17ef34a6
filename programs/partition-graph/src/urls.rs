//! URLs of object stores on the command line.

use crate::args::{Cli, Command};
use crate::stored_tables::say;
use anyhow::{Context, bail};
use edgecut_cli::{CommandLine, StoreArgs};
use edgecut_graph::{META_FILE, TRANSFORMS_FILE};
use edgecut_output::is_numbered;
use edgecut_stores::{CopiesInUse, StoreError, StoreUrl, Stores};
use std::path::{Path, PathBuf};

/// The flags and arguments that take URLs.
pub(crate) const URL_FLAGS: &[&str] = &["conf", "dataset_dir", "dir", "output_dir", "transforms", "url"];

/// Fetches what the URLs on the command line name. Returns the flags with local paths in their place, and the copies in use.
pub(crate) fn located(line: CommandLine<Cli>) -> anyhow::Result<(Cli, CopiesInUse)> {
    let args = line.args.command.as_ref().map_or(&line.args.partition.stores, Command::stores);
    let cache_dir = args.cache_dir.clone();
    let overwrite = match &line.args.command {
        None => line.args.partition.overwrite,
        Some(Command::Update(args)) => args.overwrite,
        Some(_) => false,
    };
    let mut paths = Vec::new();
    let mut stores = None;
    for given in line.urls.iter().filter(|given| given.id != "url") {
        let url = StoreUrl::parse(&given.url)?;
        let stores = match &mut stores {
            Some(stores) => stores,
            none => none.insert(Stores::new(cache_dir.as_deref(), say)?),
        };
        let path = match given.id.as_str() {
            "output_dir" => {
                check_new(stores, &url, overwrite)?;
                stores.staging(&url, true)?
            }
            "dir" if matches!(&line.args.command, Some(Command::Info(args)) if args.report.is_none()) => {
                let parts = stores.folder(&url)?;
                stores.fetch(&parts, |name| name == META_FILE)?
            }
            "conf" => {
                let conf = stores.file(&url, &[])?;
                stores.fetch(&conf, |_| true)?
            }
            "transforms" => {
                let found = stores.file_or_folder(&url)?;
                let is_folder = found.is_folder();
                stores.fetch(&found, |name| !is_folder || [META_FILE, TRANSFORMS_FILE].contains(&name))?
            }
            _ => {
                let folder = stores.folder(&url)?;
                stores.fetch(&folder, |_| true)?
            }
        };
        paths.push((given.clone(), path));
    }
    // Threads of the requests must end before the process blocks its signals.
    let copies = stores.map(Stores::into_copies).unwrap_or_default();
    if paths.is_empty() {
        return Ok((line.args, copies));
    }
    let (args, _) = line.with_paths(&paths).unwrap_or_else(|error| error.exit());
    Ok((args, copies))
}

/// Uploads the parts that a command has written for a URL, and returns their URL. Without a URL, returns their folder.
pub(crate) fn upload_if_url(args: &StoreArgs, dir: &Path) -> anyhow::Result<PathBuf> {
    let Some(text) = args.url_of("output_dir") else { return Ok(dir.to_owned()) };
    let url = StoreUrl::parse(text)?;
    let mut stores = Stores::new(args.cache_dir.as_deref(), say)?;
    upload(&mut stores, dir, &url).with_context(|| {
        let dir = dir.display();
        format!("the parts are complete in {dir}, but not uploaded (`partition-graph upload {dir} {url}` tries again)")
    })?;
    stores.remove_staging(&url)?;
    Ok(PathBuf::from(text))
}

/// Uploads existing parts.
pub(crate) fn upload_parts(dir: &Path, url: &str, overwrite: bool) -> anyhow::Result<()> {
    let url = StoreUrl::parse(url)?;
    if !dir.join(META_FILE).is_file() {
        bail!("{} has no {META_FILE}: give the N-parts folder that partition-graph wrote", dir.display());
    }
    let mut stores = Stores::new(None, say)?;
    check_new(&mut stores, &url, overwrite)?;
    Ok(upload(&mut stores, dir, &url)?)
}

fn upload(stores: &mut Stores, dir: &Path, url: &StoreUrl) -> Result<(), StoreError> {
    stores.upload_folder(dir, url, Some(META_FILE), |name| {
        let folder = name.split_once('/').map(|(folder, _)| folder);
        name == TRANSFORMS_FILE || folder.is_some_and(|folder| is_numbered(folder, "part_#"))
    })
}

/// Refuses to replace parts unless that is asked for.
fn check_new(stores: &mut Stores, url: &StoreUrl, overwrite: bool) -> anyhow::Result<()> {
    let is_old = stores.folder_if_any(url)?.is_some_and(|folder| folder.has(META_FILE));
    if is_old && !overwrite {
        bail!("{url} holds parts: choose another --output-dir, or add --overwrite");
    }
    Ok(())
}
