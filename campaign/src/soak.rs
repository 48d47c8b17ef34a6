//! Jobs that run for a long time.

use crate::programs::{Process, program, wait_until, write_parts};
use anyhow::{Context, bail, ensure};
use clap::Args;
use edgecut_cli::{message, result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The arguments of a soak test.
#[derive(Args)]
pub(crate) struct SoakArgs {
    /// Length of the test
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
}

/// The test has this many windows, of 10 minutes each if it takes 60. The first and the last one are compared.
const WINDOWS: u32 = 6;
/// The growth of memory that is allowed: a share, and a constant for what the allocator keeps.
const GROWTH: f64 = 0.05;
const GROWTH_MB: f64 = 8.0;
/// The interval of the measurements that are printed.
const INTERVAL: Duration = Duration::from_secs(60);

/// The processes of one program, with all that they have started.
struct Running {
    name: &'static str,
    process: Process,
    metrics: Option<PathBuf>,
}

/// The resources of a program's processes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Resources {
    memory_mb: f64,
    descriptors: usize,
    threads: usize,
    epochs: usize,
}

/// The largest memory and the smallest other numbers of a window. Memory varies with the batches in progress, and with the
/// pages that the kernel takes back. Descriptors and threads vary with the files that are being written, and a leak also raises
/// their smallest numbers.
#[derive(Default)]
struct Window {
    programs: BTreeMap<&'static str, Resources>,
    files: usize,
}

impl Window {
    fn add(&mut self, now: &BTreeMap<&'static str, Resources>, files: usize) {
        for (name, found) in now {
            let window = self.programs.entry(name).or_insert(*found);
            window.memory_mb = window.memory_mb.max(found.memory_mb);
            window.descriptors = window.descriptors.min(found.descriptors);
            window.threads = window.threads.min(found.threads);
            window.epochs = window.epochs.max(found.epochs);
        }
        self.files = self.files.max(files);
    }
}

pub(crate) fn run(args: &SoakArgs) -> anyhow::Result<()> {
    let dir = tempfile::tempdir().context("make a temporary folder")?;
    let temporary = dir.path().join("tmp");
    std::fs::create_dir(&temporary).context("make a folder")?;
    let mut running = start(dir.path(), &temporary)?;
    let begin = Instant::now();
    let length = Duration::from_secs(args.minutes * 60);
    let window = length / WINDOWS;
    let mut first = Window::default();
    let mut last = Window::default();
    loop {
        let next = begin.elapsed() + INTERVAL.min(window);
        let ended = |running: &mut Vec<Running>| running.iter_mut().any(|one| one.process.status().is_some());
        if wait_until(begin + next.min(length), || ended(&mut running)) {
            let output = |one: &mut Running| {
                one.process.status().map(|status| format!("{}: {status}: {}", one.name, one.process.output()))
            };
            let outputs: Vec<String> = running.iter_mut().filter_map(output).collect();
            bail!("a program has ended: {}", outputs.join("\n"));
        }
        let now: BTreeMap<&'static str, Resources> = running.iter().map(|one| (one.name, one.resources())).collect();
        let files = count_files(&temporary);
        message!("{:.0} s: {now:?}, {files} temporary files", begin.elapsed().as_secs_f64());
        if begin.elapsed() < window + INTERVAL / 2 {
            first.add(&now, files);
        }
        if begin.elapsed() + window >= length {
            last.add(&now, files);
        }
        if begin.elapsed() >= length {
            return compare(&first, &last);
        }
    }
}

fn start(dir: &Path, temporary: &Path) -> anyhow::Result<Vec<Running>> {
    let typed = write_parts(dir, "fake-hetero", 2, &["--avg-num-nodes", "500"])?;
    let links = write_parts(dir, "fake", 2, &["--avg-num-nodes", "1000", "--hold-out-edges", "0.05,0.1"])?;
    let server_port = |number: u16| 41_000 + (std::process::id() % 1000) as u16 * 8 + number;
    let servers = format!("127.0.0.1:{},127.0.0.1:{}", server_port(0), server_port(1));
    let mut running = Vec::new();
    for (name, rank) in [("server 0", "0"), ("server 1", "1")] {
        let mut command = Command::new(program("sampling-server")?);
        command.args(["--servers", &servers, "--server-rank", rank, "--dataset-root-dir"]).arg(&links);
        running.push((name, command, None));
    }
    let data = |parts: &PathBuf| ["--dataset-root-dir".to_owned(), parts.display().to_string()];
    let jobs = [
        ("nodes with embeddings", vec!["node".to_owned(), "--nproc-per-node".to_owned(), "2".to_owned()], data(&typed)),
        ("links", vec!["link".to_owned(), "--nproc-per-node".to_owned(), "2".to_owned()], data(&links)),
        ("client", vec!["node".to_owned()], ["--servers".to_owned(), servers.clone()]),
    ];
    for (name, words, place) in jobs {
        let mut command = Command::new(program("train")?);
        command.args(words).args(place).args("--num-neighbors 4,4 --hidden-channels 16 --batch-size 64".split(' '));
        command.args(["--num-epochs", "100000000", "--num-threads", "1", "--num-workers", "1"]);
        let own = dir.join(name.replace(' ', "-"));
        std::fs::create_dir(&own).context("make a folder")?;
        let metrics = own.join("metrics");
        command.arg("--checkpoint-dir").arg(own.join("checkpoints")).arg("--metrics").arg(&metrics);
        command.arg("--save-model").arg(own.join("model"));
        running.push((name, command, Some(metrics)));
    }
    let start = |(name, mut command, metrics): (&'static str, Command, Option<PathBuf>)| {
        command.env("TMPDIR", temporary);
        let log = dir.join(format!("{}.log", name.replace(' ', "-")));
        Ok(Running { name, process: Process::start(&mut command, log)?, metrics })
    };
    running.into_iter().map(start).collect()
}

impl Running {
    fn resources(&self) -> Resources {
        let mut sum = Resources::default();
        let mut waiting = vec![self.process.id()];
        while let Some(pid) = waiting.pop() {
            let folder = PathBuf::from(format!("/proc/{pid}"));
            let status = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
            let field = |name: &str| -> usize {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
                line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
            };
            sum.memory_mb += field("VmRSS:") as f64 / 1024.0;
            sum.threads += field("Threads:");
            sum.descriptors += std::fs::read_dir(folder.join("fd")).into_iter().flatten().count();
            let children = folder.join(format!("task/{pid}/children"));
            let children = std::fs::read_to_string(children).unwrap_or_default();
            waiting.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        let text = self.metrics.as_ref().map(|path| std::fs::read_to_string(path).unwrap_or_default());
        sum.epochs = text.map_or(0, |text| text.matches("\"event\":\"epoch\"").count());
        sum
    }
}

fn count_files(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { count_files(&entry.path()) } else { 1 }).sum()
}

/// Prints both windows, and fails if something has grown.
fn compare(before: &Window, after: &Window) -> anyhow::Result<()> {
    result!("| program | epochs | memory | file descriptors | threads |")?;
    result!("|---|---|---|---|---|")?;
    let mut grown = Vec::new();
    for (name, last) in &after.programs {
        let first = before.programs.get(name).copied().unwrap_or_default();
        result!(
            "| {name} | {} | {:.1} -> {:.1} MB | {} -> {} | {} -> {} |",
            last.epochs,
            first.memory_mb,
            last.memory_mb,
            first.descriptors,
            last.descriptors,
            first.threads,
            last.threads
        )?;
        let has_grown = last.memory_mb > first.memory_mb * (1.0 + GROWTH) + GROWTH_MB
            || last.descriptors > first.descriptors
            || last.threads > first.threads;
        if has_grown {
            grown.push(*name);
        }
    }
    result!("\ntemporary files: {} -> {}", before.files, after.files)?;
    ensure!(grown.is_empty() && after.files <= before.files, "these have grown: {grown:?}");
    Ok(())
}
