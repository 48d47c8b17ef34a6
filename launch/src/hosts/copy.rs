//! Copying of the parts that a node needs.

use crate::agent::{DeliveredFile, Delivery, Receipt};
use crate::hosts::ssh::{Target, cached, in_shell, next_line};
use crate::messages::RECEIVE_ROLE;
use crate::parts::{META_FILE, PartsMeta};
use anyhow::{Context, bail};
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::time::Instant;

/// The result of a copy to a node.
pub(crate) struct Copied {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    pub(crate) there_already: usize,
    pub(crate) seconds: f64,
}

/// The parts to copy to a node, and their destination.
pub(crate) struct PartsCopy<'a> {
    /// The folder of the partitioned graph on this machine.
    pub(crate) source: &'a Path,
    pub(crate) meta: &'a PartsMeta,
    pub(crate) parts: &'a [usize],
    pub(crate) workspace: &'a str,
    /// The destination folder, relative to the workspace.
    pub(crate) dir: &'a str,
}

/// Copies parts and their metadata to a node, to which the agent `agent_name` has been copied.
pub(crate) fn copy_parts(target: &Target, agent_name: &str, copy: &PartsCopy<'_>) -> anyhow::Result<Copied> {
    let PartsCopy { source, meta, parts, workspace, dir } = *copy;
    let started = Instant::now();
    meta.check_files(source, parts)?;
    let mut files: Vec<DeliveredFile> = meta
        .files_of(parts)
        .chain(meta.shared_files().filter(|(name, _)| source.join(name).is_file()))
        .map(|(name, file)| DeliveredFile { name: name.into(), bytes: file.bytes, xxh3: file.xxh3.clone() })
        .collect();
    // The metadata comes last, so that a folder that has it is complete.
    let bytes = source.join(META_FILE).metadata().with_context(|| format!("read {META_FILE}"))?.len();
    files.push(DeliveredFile { name: META_FILE.into(), bytes, xxh3: meta.checksum.clone() });
    let delivery = Delivery { workspace: workspace.into(), dir: dir.into(), dataset: meta.dataset.clone(), files };

    let mut session = target.spawn(&in_shell(&format!("exec \"{}\" {RECEIVE_ROLE}", cached(agent_name))))?;
    let lines = session.lines();
    let line = serde_json::to_string(&delivery).context("list the files to copy")?;
    if let Some(input) = &mut session.child.stdin {
        // If this fails, the answer does not come, which is handled below.
        let _ = writeln!(input, "{line}");
    }
    let wanted = match receipt(&lines, || false) {
        Some(Receipt::NodeFields(wanted)) => wanted,
        Some(Receipt::Problem(problem)) => bail!(problem),
        _ => bail!(session.explain("copy to it")),
    };
    let mut bytes = 0;
    let mut paths = Vec::with_capacity(wanted.len());
    for &number in &wanted {
        let file = delivery.files.get(number).context("its agent asked for a file that was not offered")?;
        bytes += file.bytes;
        paths.push(source.join(&file.name));
    }
    let mut sending = session.send(paths);
    let done = receipt(&lines, || sending.has_moved());
    // A file that could not be read here is the cause of the node's error.
    sending.result()?;
    match done {
        Some(Receipt::Done) => {}
        Some(Receipt::Problem(problem)) => bail!(problem),
        _ => bail!(session.explain("copy to it")),
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(Copied { files: wanted.len(), bytes, there_already: delivery.files.len() - wanted.len(), seconds })
}

/// Returns the next answer other than a sign of work, or `None` if nothing moves for too long.
fn receipt(lines: &mpsc::Receiver<String>, mut moved: impl FnMut() -> bool) -> Option<Receipt> {
    loop {
        let line = next_line(lines, &mut moved)?;
        match serde_json::from_str(&line) {
            Ok(Receipt::Working) | Err(_) => {}
            Ok(receipt) => return Some(receipt),
        }
    }
}
