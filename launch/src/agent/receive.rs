//! Receives files that the node does not have yet. Each is checked before it gets its name.

use crate::checksum::xxh3;
use crate::messages::HELLO;
use crate::parts::{META_FILE, dataset_in, is_partition, part_of};
use crate::timeouts::PROGRESS_REPORT_INTERVAL;
use anyhow::{Context, bail, ensure};
use edgecut_output::{OutputFile, remove_abandoned};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, Read, Write, stdin, stdout};
use std::path::{Component, Path};
use std::process::ExitCode;
use std::time::Instant;

/// Files to receive: a line of JSON, followed by the bytes of the wanted files one after another.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Delivery {
    pub(crate) workspace: String,
    /// The destination folder, relative to the workspace.
    pub(crate) dir: String,
    /// The name of the dataset whose parts are delivered.
    pub(crate) dataset: String,
    pub(crate) files: Vec<DeliveredFile>,
}

/// A file of a delivery.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DeliveredFile {
    /// The path relative to the destination folder.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) xxh3: String,
}

/// Bytes between two syncs. Syncing a whole part at once could exceed the launcher's patience.
const SYNC_BYTES: usize = 64 << 20;

/// An answer of the receiver: first the wanted files, and at the end that it is done.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Receipt {
    /// It has read or written something since its last answer.
    Working,
    /// The positions in the delivery of the files that the node needs.
    NodeFields(Vec<usize>),
    /// All files are written.
    Done,
    /// The delivery failed, for this reason.
    Problem(String),
}

/// Receives one delivery.
pub(crate) fn run() -> ExitCode {
    let received = writeln!(stdout(), "{HELLO}").context("greet the launcher").and_then(|()| receive());
    match received {
        Ok(()) if answer(&Receipt::Done).is_ok() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            // If the launcher has gone, nobody reads the answer.
            let _ = answer(&Receipt::Problem(format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

fn answer(receipt: &Receipt) -> std::io::Result<()> {
    writeln!(stdout(), "{}", serde_json::to_string(receipt)?)
}

/// Reads the delivery, asks for the files that are missing or differ, and writes them.
fn receive() -> anyhow::Result<()> {
    let mut input = stdin().lock();
    let mut line = String::new();
    input.read_line(&mut line).context("read what is delivered")?;
    let delivery: Delivery = serde_json::from_str(&line).context("read what is delivered")?;
    let dir = super::checks::expand(&delivery.workspace).join(&delivery.dir);
    for file in &delivery.files {
        // A path with `..` or a root would write outside of the folder.
        let plain = Path::new(&file.name).components().all(|part| matches!(part, Component::Normal(_)));
        ensure!(plain && !file.name.is_empty(), "{:?} is not a path inside the destination folder", file.name);
    }
    let mut progress = Progress(Instant::now());
    let mut wanted = Vec::new();
    for (number, file) in delivery.files.iter().enumerate() {
        let path = dir.join(&file.name);
        let is_there = path.metadata().is_ok_and(|found| found.len() == file.bytes)
            && File::open(&path)
                .and_then(|file| xxh3(file, |_| progress.report()))
                .is_ok_and(|checksum| checksum == file.xxh3);
        if !is_there {
            wanted.push(number);
        }
    }
    let names: Vec<&str> = wanted.iter().map(|&number| &*delivery.files[number].name).collect();
    check_foreign(&dir, &names)?;
    check_dataset(&dir, &delivery.dataset)?;
    if names.contains(&META_FILE) {
        // Without its metadata the folder is not a valid partitioned graph, until all files of the other partitioning
        // are replaced.
        let meta = dir.join(META_FILE);
        if meta.symlink_metadata().is_ok() {
            std::fs::remove_file(&meta).with_context(|| format!("remove {}", meta.display()))?;
        }
    }
    answer(&Receipt::NodeFields(wanted.clone())).context("answer")?;
    for i in wanted {
        write(&dir, &delivery.files[i], &mut input, &mut progress)?;
    }
    Ok(())
}

/// Checks that files of other programs are not replaced: the metadata, and files of no part in a folder without parts. A
/// delivery that was interrupted has left parts without metadata.
fn check_foreign(dir: &Path, wanted: &[&str]) -> anyhow::Result<()> {
    let is_ours = is_partition(dir);
    let has_part = has_part(dir);
    for name in wanted.iter().filter(|name| part_of(name).is_none()) {
        let path = dir.join(name);
        let is_meta = *name == META_FILE;
        let what = if is_meta { "the metadata" } else { "a file" };
        ensure!(
            is_ours || (has_part && !is_meta) || path.symlink_metadata().is_err(),
            "{} is not {what} of a partitioned graph: move it away, or choose another folder for the parts",
            path.display()
        );
    }
    Ok(())
}

/// Checks that parts of another dataset are not replaced. Other parts of the same one are.
fn check_dataset(dir: &Path, dataset: &str) -> anyhow::Result<()> {
    if let Some(found) = dataset_in(dir).filter(|found| found != dataset) {
        bail!(
            "{} has parts of dataset {found}, and those to copy are of dataset {dataset}: move them away, or choose another folder for \
             the parts",
            dir.display()
        );
    }
    Ok(())
}

/// Returns true if a folder has the folder of a part.
fn has_part(dir: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    entries.flatten().any(|entry| entry.path().is_dir() && entry.file_name().to_str().and_then(part_of).is_some())
}

/// The progress reports of the receiver.
struct Progress(Instant);

impl Progress {
    /// Reports progress if the last report is [`PROGRESS_REPORT_INTERVAL`] ago.
    fn report(&mut self) -> std::io::Result<()> {
        if self.0.elapsed() > PROGRESS_REPORT_INTERVAL {
            self.0 = Instant::now();
            answer(&Receipt::Working)?;
        }
        Ok(())
    }
}

/// Writes the next file of the stream to a temporary file beside its destination, checks it, and renames it. Other
/// nodes may write the same file to the same shared folder.
fn write(dir: &Path, file: &DeliveredFile, input: &mut impl Read, progress: &mut Progress) -> anyhow::Result<()> {
    let path = dir.join(&file.name);
    let shown = path.display().to_string();
    let folder = path.parent().context("the file has no parent folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("make the folder {}", folder.display()))?;
    // A file that cannot be removed does no harm except for the space it takes.
    let _ = remove_abandoned(&path);
    let output = OutputFile::create(&path).with_context(|| format!("write {shown}"))?;
    let mut bytes = 0;
    let mut unsynced = 0;
    let written = xxh3(input.take(file.bytes), |block| {
        bytes += block.len() as u64;
        unsynced += block.len();
        output.file().write_all(block)?;
        if unsynced >= SYNC_BYTES {
            unsynced = 0;
            output.file().sync_data()?;
        }
        progress.report()
    });
    let checksum = written.with_context(|| format!("write {shown}"))?;
    if bytes < file.bytes {
        bail!("{shown}: the connection ended after {bytes} of {} bytes", file.bytes);
    }
    ensure!(checksum == file.xxh3, "{shown} arrived with checksum {checksum} instead of {}", file.xxh3);
    output.commit().with_context(|| format!("write {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;

    #[test]
    fn parts_of_another_dataset_are_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        check_dataset(dir.path(), "shop").unwrap();
        std::fs::write(dir.path().join(META_FILE), "{\"format\": \"edgecut-partition\", \"dataset\": \"shop\"}")
            .unwrap();
        check_dataset(dir.path(), "shop").unwrap();
        let error = check_dataset(dir.path(), "papers").unwrap_err().to_string();
        assert_has(error, &["has parts of dataset shop, and those to copy are of dataset papers", "move them away"]);
    }

    #[test]
    fn files_of_other_programs_are_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = ["part_0/nodes/n/features.npy", "transforms.json", META_FILE];
        check_foreign(dir.path(), &wanted).unwrap();
        std::fs::write(dir.path().join("transforms.json"), "{}").unwrap();
        let error = check_foreign(dir.path(), &wanted).unwrap_err().to_string();
        assert_has(error, &["transforms.json is not a file of a partitioned graph: move it away"]);
        // The delivery of a part was interrupted.
        std::fs::create_dir(dir.path().join("part_3")).unwrap();
        check_foreign(dir.path(), &wanted).unwrap();
        std::fs::write(dir.path().join(META_FILE), "{\"format\": \"an archive\"}").unwrap();
        let error = check_foreign(dir.path(), &wanted).unwrap_err().to_string();
        assert_has(error, &["META.json is not the metadata of a partitioned graph: move it away"]);
        std::fs::write(dir.path().join(META_FILE), "{\"format\": \"edgecut-partition\"}").unwrap();
        check_foreign(dir.path(), &wanted).unwrap();
    }
}
