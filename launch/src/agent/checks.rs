//! The checks of a node before a job starts.

use crate::checksum::xxh3;
use crate::messages::{Check, Checked, Listen, Program, SHELL};
use crate::parts::PartsMeta;
use anyhow::{Context, bail, ensure};
use edgecut_cli::{Installation, find_on_path, is_executable};
use edgecut_cluster::{address_of_interface, node_addresses};
use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Does all checks even if some fail, so that one run reports all problems.
pub(crate) fn check(check: &Check) -> Checked {
    let mut checked = Checked { machine: machine(), ..Checked::default() };
    let workspace = expand(&check.workspace);
    if !workspace.is_dir() {
        let workspace = workspace.display();
        checked.problems.push(format!("there is no folder {workspace}: make it, or give another --workspace"));
        return checked;
    }
    match hash_program(&workspace, &check.program) {
        // Nodes may have different versions of the shell.
        Ok(hash) => checked.program = (check.program.name != SHELL).then_some(hash),
        Err(error) => checked.problems.push(format!("{error:#}")),
    }
    if let Some(parts) = &check.parts {
        let dir = workspace.join(&parts.dir);
        // The graph may be of another program: then its files are that program's business, and nothing is checked.
        let right = PartsMeta::read_if_ours(&dir).and_then(|meta| {
            let Some(meta) = meta else { return Ok(()) };
            checked.meta = Some(meta.checksum.clone());
            meta.check_files(&dir, &meta.parts_of(&parts.ranks, parts.world_size))
        });
        checked.problems.extend(right.err().map(|error| format!("{error:#}")));
    }
    match check.listen.as_ref().map(listen_addr) {
        Some(Ok(address)) => checked.listen_addr = Some(address),
        Some(Err(error)) => checked.problems.push(format!("{error:#}")),
        None => {}
    }
    checked
}

/// Returns the address on which the node's processes are to listen. An interface's IPv4 address comes before IPv6.
pub(crate) fn listen_addr(listen: &Listen) -> anyhow::Result<IpAddr> {
    let addresses = node_addresses().context("list the network interfaces")?;
    let names: Vec<String> = addresses.iter().map(|(name, address)| format!("{name} {address}")).collect();
    let names = names.join(", ");
    match listen {
        Listen::Address(wanted) if addresses.iter().any(|(_, address)| address == wanted) => Ok(*wanted),
        Listen::Address(wanted) => bail!("{wanted} is no address of this node, which has {names}"),
        Listen::Interface(name) => {
            let found = address_of_interface(&addresses, name);
            found.with_context(|| format!("the interface {name} has no address; this node has {names}"))
        }
    }
}

/// Returns the folder of a workspace. `~` is the home directory, and relative paths are relative to it.
pub(crate) fn expand(path: &str) -> PathBuf {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    match path.strip_prefix("~") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => home.join(path),
    }
}

/// Returns kernel and processor, as `uname -sm` names them.
pub(crate) fn machine() -> String {
    let name = rustix::system::uname();
    format!("{} {}", name.sysname().to_string_lossy(), name.machine().to_string_lossy())
}

/// Returns the path of the program's file, or the reason why it cannot be run.
pub(crate) fn find_program(workspace: &Path, program: &Program) -> anyhow::Result<PathBuf> {
    let remedy = "install it there, or give --sync-binary to have it copied";
    let Program { name, copied, .. } = program;
    if name.contains('/') || copied.is_some() {
        let path = match copied {
            Some(copied) => std::env::current_exe().unwrap_or_default().with_file_name(copied),
            None => workspace.join(name),
        };
        ensure!(is_executable(&path), "there is no program {}: {remedy}", path.display());
        return Ok(path);
    }
    find_on_path(name).with_context(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        format!("there is no program {name} in PATH ({}): {remedy}", path.display())
    })
}

/// Returns the checksum of the program's file, followed by the checksum of the program that it starts.
fn hash_program(workspace: &Path, program: &Program) -> anyhow::Result<String> {
    let file = find_program(workspace, program)?;
    let mut hashes = hash_file(&file)?;
    if let Some(started) = &program.started {
        let installation = Installation::of(&file);
        let started = installation.find(started).with_context(|| {
            format!(
                "there is no program {started}, which {} starts, in {} or in PATH: install all programs together, or \
                 give --sync-binary to have it copied",
                file.display(),
                installation.folder().display()
            )
        })?;
        hashes += &hash_file(&started)?;
    }
    Ok(hashes)
}

/// Returns the XXH3 of a program. It tells installed versions apart, and takes a fraction of the time of a SHA-256.
fn hash_file(path: &Path) -> anyhow::Result<String> {
    File::open(path).and_then(|file| xxh3(file, |_| Ok(()))).with_context(|| format!("read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::write_executable;
    use std::fs::create_dir_all;

    #[test]
    fn the_program_that_edgecut_starts_is_checked_too() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["bin", "lib/edgecut"] {
            create_dir_all(dir.path().join(folder)).unwrap();
        }
        write_executable(&dir.path().join("bin/edgecut"), b"");
        let program = Program { name: "bin/edgecut".into(), copied: None, started: Some("program-of-a-test".into()) };
        let job =
            Check { workspace: dir.path().display().to_string(), program, parts: None, master: None, listen: None };
        let absent = check(&job);
        assert!(absent.program.is_none(), "{absent:?}");
        assert!(absent.problems[0].contains("there is no program program-of-a-test, which "), "{absent:?}");
        let mut checksums = Vec::new();
        for build in [&b"one"[..], b"other", b"one"] {
            write_executable(&dir.path().join("lib/edgecut/program-of-a-test"), build);
            let checked = check(&job);
            assert!(checked.problems.is_empty(), "{checked:?}");
            checksums.push(checked.program);
        }
        assert!(checksums[0] == checksums[2] && checksums[0] != checksums[1], "{checksums:?}");
    }
}
