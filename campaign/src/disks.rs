//! Disks that are full, read-only or slow, or that fail.

use crate::Rounds;
use crate::faulty_disk::{DiskFault, FaultyDisk, Operations};
use crate::moments::{Moments, case_of_round};
use crate::programs::{program, run as run_command, write_parts};
use crate::table::{Outcome, Table};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The time by which a slow disk delays a program in all.
const SLOWER_BY: Duration = Duration::from_secs(1);

/// A program that writes to a disk, or reads from it.
#[derive(Clone, Copy)]
struct Program {
    name: &'static str,
    command: fn(&Paths) -> anyhow::Result<Command>,
}

/// The files that a program reads, and the folder that it writes to.
#[derive(Clone)]
struct Paths {
    parts: PathBuf,
    model: PathBuf,
    disk: PathBuf,
}

const WRITERS: [Program; 6] = [
    Program { name: "the parts of partition-graph", command: partition },
    Program { name: "the model of train", command: |paths| train(paths, &["--save-model"], "model") },
    Program { name: "the metrics of train", command: |paths| train(paths, &["--metrics"], "metrics") },
    Program { name: "the checkpoints of train", command: |paths| train(paths, &["--checkpoint-dir"], "checkpoints") },
    Program { name: "the batches of train sample", command: sample },
    Program { name: "the embeddings of train predict", command: predict },
];

const READERS: [Program; 4] = [
    Program { name: "the parts that train reads", command: |paths| train(paths, &["--save-model"], "again") },
    Program { name: "the parts that train sample reads", command: sample },
    Program { name: "the parts and the model that train predict reads", command: predict },
    Program { name: "the parts that partition-graph verify reads", command: verify },
];

fn partition(paths: &Paths) -> anyhow::Result<Command> {
    let mut command = Command::new(program("partition-graph")?);
    command.args(["--dataset", "fake", "--avg-num-nodes", "3000", "--num-partitions", "2", "--root-dir"]);
    command.arg(&paths.disk);
    Ok(command)
}

fn train(paths: &Paths, flags: &[&str], name: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(program("train")?);
    command.args(["node", "--num-neighbors", "5,5", "--num-epochs", "6", "--hidden-channels", "256"]);
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

fn verify(paths: &Paths) -> anyhow::Result<Command> {
    let mut command = Command::new(program("partition-graph")?);
    command.arg("verify").arg(&paths.parts);
    Ok(command)
}

/// A fault of a disk, as the table names it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Full,
    ReadOnly,
    FailsToWrite,
    FailsToRead,
    Slow,
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::Full, "full"),
    (Kind::ReadOnly, "read-only"),
    (Kind::FailsToWrite, "failing to write"),
    (Kind::FailsToRead, "failing to read"),
    (Kind::Slow, "slow"),
];

pub(crate) fn run(rounds: &Rounds) -> anyhow::Result<Table> {
    let dir = tempfile::tempdir().context("make a temporary folder")?;
    let at_home = Paths {
        parts: write_parts(dir.path(), "fake", 1, &["--avg-num-nodes", "3000"])?,
        model: dir.path().join("model"),
        disk: dir.path().to_owned(),
    };
    run_command(&mut train(&at_home, &["--save-model"], "model")?)?;
    let disk = dir.path().join("disk");
    std::fs::create_dir(&disk).context("make a folder")?;
    let place = Place { at_home, disk };
    let mut cases = Vec::new();
    for (kind, name) in KINDS {
        let programs: &[Program] = if kind == Kind::FailsToRead { &READERS } else { &WRITERS };
        cases.extend(programs.iter().map(|&program| (kind, name, program)));
    }
    let mut table = Table::default();
    for number in rounds.numbers() {
        let mut moments = Moments::of_round(rounds.seed, number);
        let (kind, name, program) = case_of_round(&cases, rounds.seed, number);
        let fault = format!("a disk is {name}: {}", program.name);
        match place.round(kind, &program, &mut moments) {
            Ok((what, outcome)) => table.note(number, &format!("{}, {what}", program.name), &fault, outcome),
            Err(error) => table.note(number, program.name, &fault, Err(error)),
        }
    }
    Ok(table)
}

/// The result of a round that could be prepared: the fault in words, and the outcome.
type Round = (String, anyhow::Result<(Outcome, Duration)>);

/// The folders of all rounds.
struct Place {
    at_home: Paths,
    /// The folder at which disks are mounted.
    disk: PathBuf,
}

impl Place {
    /// Returns the paths of a program that reads from a healthy disk, and writes to the faulty one.
    fn writing(&self) -> Paths {
        Paths { disk: self.disk.clone(), ..self.at_home.clone() }
    }

    fn round(&self, kind: Kind, program: &Program, moments: &mut Moments) -> anyhow::Result<Round> {
        match kind {
            Kind::Full | Kind::ReadOnly => self.on_small_disk(kind, program, moments),
            Kind::FailsToWrite => {
                let paths = self.writing();
                let total = self.operations(&paths, program)?.writes;
                let after = moments.below(total as usize) as u64;
                let disk = FaultyDisk::mount(&self.disk)?;
                disk.set(Some(DiskFault::Writes { after }));
                let outcome = self.fails(&paths, program, &["Input/output error"]);
                Ok((format!("the disk fails after {after} of {total} writes"), outcome))
            }
            Kind::FailsToRead => {
                let disk = FaultyDisk::mount(&self.disk)?;
                let outputs = tempfile::tempdir().context("make a temporary folder")?;
                let paths = self.reading(outputs.path())?;
                disk.set(None);
                run_command(&mut (program.command)(&paths)?)?;
                let total = disk.counts().reads;
                let outputs = tempfile::tempdir().context("make a temporary folder")?;
                let paths = Paths { disk: outputs.path().to_owned(), ..paths };
                // The kernel reads ahead, so the number of reads varies somewhat.
                let after = moments.below((total as usize).div_ceil(2)) as u64;
                disk.set(Some(DiskFault::Reads { after }));
                // Mapped files give the second reason.
                let outcome = self.fails(&paths, program, &["Input/output error", "because the disk failed"]);
                Ok((format!("the disk fails after {after} of {total} reads"), outcome))
            }
            Kind::Slow => {
                let paths = self.writing();
                let total = self.operations(&paths, program)?.writes;
                let pause = SLOWER_BY / total as u32;
                let disk = FaultyDisk::mount(&self.disk)?;
                disk.set(Some(DiskFault::Slow(pause)));
                let start = Instant::now();
                let outcome = (program.command)(&paths).and_then(|mut command| run_command(&mut command));
                let outcome = outcome.map(|_| (Outcome::WentOn, start.elapsed()));
                Ok((format!("each of {total} writes takes {} ms", pause.as_millis()), outcome))
            }
        }
    }

    /// Copies the parts and the model to the disk, and returns the paths of a program that reads them there and writes to
    /// the folder `outputs`.
    fn reading(&self, outputs: &Path) -> anyhow::Result<Paths> {
        let parts = self.disk.join("parts");
        let model = self.disk.join("model");
        copy_folder(&self.at_home.parts, &parts)?;
        std::fs::copy(&self.at_home.model, &model).context("copy a model")?;
        Ok(Paths { parts, model, disk: outputs.to_owned() })
    }

    fn on_small_disk(&self, kind: Kind, program: &Program, moments: &mut Moments) -> anyhow::Result<Round> {
        let paths = self.writing();
        let size = self.size(&paths, program)?;
        // A full disk has room for a random share of what is written.
        let room = moments.below(size as usize * 9 / 10) as u64;
        let disk = SmallDisk::mount(&self.disk, room)?;
        if kind == Kind::ReadOnly {
            disk.make_read_only()?;
            return Ok(("disk read-only".to_owned(), self.fails(&paths, program, &["Read-only file system"])));
        }
        let outcome = self.fails(&paths, program, &["No space left"]);
        Ok((format!("disk full after {room} of {size} bytes"), outcome))
    }

    /// Returns the bytes that a program writes on a disk with enough room.
    fn size(&self, paths: &Paths, program: &Program) -> anyhow::Result<u64> {
        let disk = SmallDisk::mount(&self.disk, 1 << 30)?;
        run_command(&mut (program.command)(paths)?)?;
        let text = run_command(Command::new("df").args(["--output=used", "-B1"]).arg(&self.disk))?;
        drop(disk);
        let used = text.lines().nth(1).and_then(|line| line.trim().parse().ok());
        used.context("read the output of df")
    }

    /// Returns the operations of a program on a healthy disk.
    fn operations(&self, paths: &Paths, program: &Program) -> anyhow::Result<Operations> {
        let disk = FaultyDisk::mount(&self.disk)?;
        run_command(&mut (program.command)(paths)?)?;
        Ok(disk.counts())
    }

    /// Runs a program on a disk with a fault. It must end with one error that names a file on the disk and one of the
    /// `reasons`, and must leave no partial file.
    fn fails(&self, paths: &Paths, program: &Program, reasons: &[&str]) -> anyhow::Result<(Outcome, Duration)> {
        let start = Instant::now();
        let mut command = (program.command)(paths)?;
        let output = command.stdin(Stdio::null()).output().context("start a program")?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let took = start.elapsed();
        ensure!(output.status.code() == Some(1), "the status is {}: {text}", output.status);
        let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error")).collect();
        ensure!(errors.len() == 1, "{} errors: {text}", errors.len());
        let disk = self.disk.display().to_string();
        ensure!(errors[0].contains(&disk), "the error names no file: {text}");
        ensure!(reasons.iter().any(|reason| text.contains(reason)), "the error has no reason: {text}");
        let left = partial_files(&paths.disk)?;
        ensure!(left.is_empty(), "partial files are left: {left:?}");
        Ok((Outcome::Ended, took))
    }
}

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(from).with_context(|| format!("read {}", from.display()))?;
    std::fs::create_dir(to).with_context(|| format!("make {}", to.display()))?;
    for entry in entries {
        let path = entry.context("read a folder")?.path();
        let copy = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &copy)?;
        } else {
            std::fs::copy(&path, &copy).with_context(|| format!("copy {}", path.display()))?;
        }
    }
    Ok(())
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

/// The unit of the size of a file system in memory.
const PAGE_BYTES: u64 = 4096;

/// A small file system in memory. It is unmounted when the value is dropped.
struct SmallDisk<'a> {
    path: &'a Path,
}

impl<'a> SmallDisk<'a> {
    fn mount(path: &'a Path, bytes: u64) -> anyhow::Result<Self> {
        // The kernel rounds up to pages, and a disk that is to be full may have no page more.
        let size = format!("size={}", (bytes / PAGE_BYTES * PAGE_BYTES).max(PAGE_BYTES));
        run_command(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "campaign"]).arg(path))
            .context("mount a small disk; this needs root")?;
        Ok(Self { path })
    }

    fn make_read_only(&self) -> anyhow::Result<()> {
        run_command(Command::new("mount").args(["-o", "remount,ro"]).arg(self.path)).map(drop)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = run_command(Command::new("umount").arg("--lazy").arg(self.path));
    }
}
