//! Disks that are full or read-only.

use crate::Rounds;
use crate::moments::Moments;
use crate::programs::{program, run as run_command, write_parts};
use crate::table::{Outcome, Table};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// A program that writes to a disk.
struct Writer {
    name: &'static str,
    command: fn(&Paths) -> anyhow::Result<Command>,
}

/// The folders of a round.
#[derive(Clone)]
struct Paths {
    parts: PathBuf,
    model: PathBuf,
    /// The disk that fails.
    disk: PathBuf,
}

const WRITERS: [Writer; 6] = [
    Writer { name: "the parts of partition-graph", command: partition },
    Writer { name: "the model of train", command: |paths| train(paths, &["--save-model"], "model") },
    Writer { name: "the metrics of train", command: |paths| train(paths, &["--metrics"], "metrics") },
    Writer { name: "the checkpoints of train", command: |paths| train(paths, &["--checkpoint-dir"], "checkpoints") },
    Writer { name: "the batches of train sample", command: sample },
    Writer { name: "the embeddings of train predict", command: predict },
];

fn partition(paths: &Paths) -> anyhow::Result<Command> {
    let mut command = Command::new(program("partition-graph")?);
    command.args(["--dataset", "fake", "--avg-num-nodes", "3000", "--num-partitions", "2", "--root-dir"]);
    command.arg(&paths.disk);
    Ok(command)
}

fn train(paths: &Paths, flags: &[&str], name: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(program("train")?);
    command.args(["node", "--num-neighbors", "5,5", "--num-epochs", "30", "--hidden-channels", "256"]);
    command.arg("--dataset-root-dir").arg(&paths.parts).args(flags).arg(paths.disk.join(name));
    Ok(command)
}

fn sample(paths: &Paths) -> anyhow::Result<Command> {
    let mut command = Command::new(program("train")?);
    command.args(["sample", "--num-neighbors", "5,5", "--batch-size", "64", "--dataset-root-dir"]).arg(&paths.parts);
    command.arg("--out").arg(paths.disk.join("batches"));
    Ok(command)
}

fn predict(paths: &Paths) -> anyhow::Result<Command> {
    let mut command = Command::new(program("train")?);
    command.args(["predict", "--output", "embedding", "--dataset-root-dir"]).arg(&paths.parts);
    command.arg("--load-model").arg(&paths.model).arg("--out").arg(paths.disk.join("rows.npy"));
    Ok(command)
}

pub(crate) fn run(rounds: &Rounds) -> anyhow::Result<Table> {
    let dir = tempfile::tempdir().context("make a temporary folder")?;
    let paths = Paths {
        parts: write_parts(dir.path(), "fake", 1, &["--avg-num-nodes", "3000"])?,
        model: dir.path().join("model"),
        disk: dir.path().join("disk"),
    };
    let at_home = Paths { disk: dir.path().to_owned(), ..paths.clone() };
    run_command(&mut train(&at_home, &["--save-model"], "model")?)?;
    std::fs::create_dir(&paths.disk).context("make a folder")?;
    let sizes = WRITERS.iter().map(|writer| size(&paths, writer)).collect::<anyhow::Result<Vec<u64>>>()?;
    let mut table = Table::default();
    for number in rounds.numbers() {
        let mut moments = Moments::of_round(rounds.seed, number);
        let at = moments.below(WRITERS.len());
        let is_read_only = moments.below(4) == 0;
        // A full disk has room for a random share of what is written.
        let room = moments.below(sizes[at] as usize * 9 / 10) as u64;
        let name = WRITERS[at].name;
        let disk = Disk::mount(&paths.disk, room)?;
        if is_read_only {
            disk.make_read_only()?;
        }
        let kind =
            if is_read_only { "read-only".to_owned() } else { format!("full after {room} of {} bytes", sizes[at]) };
        let result = round(&paths, &WRITERS[at]);
        drop(disk);
        let fault = if is_read_only { "read-only" } else { "full" };
        table.note(number, &format!("{name}, disk {kind}"), &format!("a disk is {fault}: {name}"), result);
    }
    Ok(table)
}

/// Returns the bytes that a program writes on a disk with enough room.
fn size(paths: &Paths, writer: &Writer) -> anyhow::Result<u64> {
    let disk = Disk::mount(&paths.disk, 1 << 30)?;
    run_command(&mut (writer.command)(paths)?)?;
    let free = || run_command(Command::new("df").args(["--output=used", "-B1"]).arg(&paths.disk));
    let text = free()?;
    drop(disk);
    let used = text.lines().nth(1).and_then(|line| line.trim().parse().ok());
    used.context("read the output of df")
}

fn round(paths: &Paths, writer: &Writer) -> anyhow::Result<(Outcome, std::time::Duration)> {
    let start = Instant::now();
    let mut command = (writer.command)(paths)?;
    let output = command.stdin(Stdio::null()).output().context("start a program")?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let took = start.elapsed();
    ensure!(output.status.code() == Some(1), "the status is {}: {text}", output.status);
    let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error")).collect();
    ensure!(errors.len() == 1, "{} errors: {text}", errors.len());
    let disk = paths.disk.display().to_string();
    ensure!(errors[0].contains(&disk), "the error names no file: {text}");
    let reasons = ["No space left", "Read-only file system"];
    ensure!(reasons.iter().any(|reason| text.contains(reason)), "the error has no reason: {text}");
    let left = partial_files(&paths.disk)?;
    ensure!(left.is_empty(), "partial files are left: {left:?}");
    Ok((Outcome::Ended, took))
}

/// Returns the files of a folder whose names mark them as incomplete.
fn partial_files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut left = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
        let path = entry.context("read a folder")?.path();
        if path.to_string_lossy().contains("partial") {
            left.push(path);
        } else if path.is_dir() {
            left.extend(partial_files(&path)?);
        }
    }
    Ok(left)
}

/// A small file system in memory. It is unmounted when the value is dropped.
struct Disk<'a> {
    path: &'a Path,
}

impl<'a> Disk<'a> {
    fn mount(path: &'a Path, bytes: u64) -> anyhow::Result<Self> {
        let size = format!("size={}", bytes.max(4096));
        run_command(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "campaign"]).arg(path))
            .context("mount a small disk; this needs root")?;
        Ok(Self { path })
    }

    fn make_read_only(&self) -> anyhow::Result<()> {
        run_command(Command::new("mount").args(["-o", "remount,ro"]).arg(self.path)).map(drop)
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = run_command(Command::new("umount").arg("--lazy").arg(self.path));
    }
}
