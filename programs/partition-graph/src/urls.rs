//! URLs of object stores on the command line.

use crate::args::{Cli, Command, UploadArgs};
use crate::stored_tables::say;
use crate::terminal::Terminal;
use anyhow::{anyhow, bail};
use edgecut_cli::{CommandLine, StoreArgs};
use edgecut_graph::{META_FILE, TRANSFORMS_FILE, possible_files};
use edgecut_stores::{CopiesInUse, OutputRole, StoreError, StoreUrl, Stores};
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
    let (outputs, inputs): (Vec<_>, Vec<_>) =
        line.urls.iter().filter(|given| given.id != "url").partition(|given| given.id == "output_dir");
    // An output that cannot be written is found before anything is fetched.
    for given in outputs.into_iter().chain(inputs) {
        let url = StoreUrl::parse(&given.url)?;
        let stores = match &mut stores {
            Some(stores) => stores,
            none => none.insert(Stores::new(cache_dir.as_deref(), say)?),
        };
        let path = match given.id.as_str() {
            "output_dir" => {
                check_new(stores, &url, overwrite, "--output-dir")?;
                stores.check_folder(&url)?;
                stores.output(&url, OutputRole::First).map_err(|error| with_upload_command(error, &url))?
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

/// Uploads the parts that a command has written for a URL, and returns their URL. Without a URL, returns their folder. Parts of
/// an earlier command are replaced with `overwrite`.
pub(crate) fn upload_if_url(
    args: &StoreArgs,
    dir: &Path,
    overwrite: bool,
    terminal: &Terminal,
) -> anyhow::Result<PathBuf> {
    let Some(text) = args.url_of("output_dir") else { return Ok(dir.to_owned()) };
    let url = StoreUrl::parse(text)?;
    let mut stores = Stores::new(args.cache_dir.as_deref(), say)?;
    stores.mark_complete(&url)?;
    let complete = format!("the parts are complete in {}, but not uploaded", dir.display());
    // An upload that was begun has written objects, which the next one replaces.
    let command = upload_command(dir, &url, true);
    terminal.set_end_of_interrupt(format!("{complete}: `{command}` uploads them"));
    upload(&mut stores, dir, &url, overwrite).map_err(|error| {
        let command = if error.is_existing_object() { upload_command(dir, &url, false) } else { command };
        anyhow!(error).context(format!("{complete} (`{command}` tries again)"))
    })?;
    stores.remove_output(&url)?;
    Ok(PathBuf::from(text))
}

/// Uploads existing parts.
pub(crate) fn upload_parts(args: &UploadArgs) -> anyhow::Result<()> {
    let UploadArgs { dir, url, overwrite, stores } = args;
    let url = StoreUrl::parse(url)?;
    if !dir.join(META_FILE).is_file() {
        bail!("{} has no {META_FILE}: give the N-parts folder that partition-graph wrote", dir.display());
    }
    let mut stores = Stores::new(stores.cache_dir.as_deref(), say)?;
    check_new(&mut stores, &url, *overwrite, "URL")?;
    upload(&mut stores, dir, &url, *overwrite)?;
    Ok(stores.remove_if_output(dir, &url)?)
}

/// Uploads parts. Without `overwrite`, nothing is replaced and nothing is removed.
fn upload(stores: &mut Stores, dir: &Path, url: &StoreUrl, overwrite: bool) -> Result<(), StoreError> {
    let own = possible_files();
    let is_old: &dyn Fn(&str) -> bool = &|name| own.is_file(Path::new(name));
    stores.upload_folder(dir, url, Some(META_FILE), overwrite.then_some(is_old))
}

/// Refuses to write to a folder that has objects unless that is asked for, like to a local folder. `what` is what the user may
/// change.
fn check_new(stores: &mut Stores, url: &StoreUrl, overwrite: bool, what: &str) -> anyhow::Result<()> {
    let Some(folder) = stores.folder_if_any(url)? else { return Ok(()) };
    if overwrite {
        return Ok(());
    }
    if folder.has(META_FILE) {
        bail!("{url} holds parts: choose another {what}, or add --overwrite");
    }
    match folder.names().next() {
        Some(name) => {
            bail!(
                "{url} is not empty, it has {name}: choose another {what}, or add --overwrite, which keeps foreign objects"
            )
        }
        None => Ok(()),
    }
}

/// Adds the command that uploads complete parts of an earlier command.
fn with_upload_command(error: StoreError, url: &StoreUrl) -> anyhow::Error {
    match error.left_output().map(|dir| upload_command(dir, url, true)) {
        Some(command) => anyhow!(error).context(format!("`{command}` uploads the parts of an earlier run")),
        None => error.into(),
    }
}

/// Returns the command that uploads parts.
fn upload_command(dir: &Path, url: &StoreUrl, overwrite: bool) -> String {
    let dir = dir.to_string_lossy();
    let url = url.to_string();
    let words = ["partition-graph", "upload", &*dir, &*url].into_iter().chain(overwrite.then_some("--overwrite"));
    shell_words::join(words)
}

#[cfg(all(test, feature = "stores"))]
mod tests {
    use super::*;

    #[test]
    fn suggested_commands_are_quoted() {
        let url = StoreUrl::parse("s3://b/my parts").unwrap();
        let command = upload_command(Path::new("/my cache/parts"), &url, true);
        assert_eq!(command, "partition-graph upload '/my cache/parts' 's3://b/my parts' --overwrite");
        assert_eq!(upload_command(Path::new("/parts"), &url.parent(), false), "partition-graph upload /parts s3://b");
    }
}
