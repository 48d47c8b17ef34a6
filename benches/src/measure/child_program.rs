//! Running one of the project's programs, and measuring its time and memory.

use crate::measure::process_memory::{ProcessMemory, children_of};
use anyhow::{Context, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The interval between reads of a running program's memory. The kernel records the peak, so little is missed.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The output and resource usage of a program that has ended successfully.
pub(crate) struct Finished {
    pub(crate) stdout: String,
    pub(crate) wall: Duration,
    /// The CPU time of the program and of all processes that it started.
    pub(crate) cpu: Duration,
    /// The largest memory observed of each process that the program started, or of itself if it started none.
    pub(crate) memory: Vec<ProcessMemory>,
}

/// Runs `command` and waits for its end.
///
/// # Errors
/// A program that cannot be started or ends with another status than 0.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<Finished> {
    let name = command.get_program().to_string_lossy().into_owned();
    let start = Instant::now();
    let cpu = cpu_of_children()?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {name}"))?;
    // Both pipes are read on threads: a program blocks if it fills a pipe that nobody reads.
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let (status, memory) = watch(&mut child).with_context(|| format!("wait for {name}"))?;
    let wall = start.elapsed();
    let [stdout, stderr] = [stdout, stderr].map(|text| text.join().unwrap_or_default());
    ensure!(status.success(), "{name} ended with {status}: {}", stderr.trim());
    Ok(Finished { stdout, wall, cpu: cpu_of_children()?.saturating_sub(cpu), memory })
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        // If reading fails, the text until then is still returned.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    })
}

fn watch(child: &mut Child) -> std::io::Result<(ExitStatus, Vec<ProcessMemory>)> {
    let own = child.id();
    let mut seen: BTreeMap<u32, ProcessMemory> = BTreeMap::new();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        for pid in children_of(own).into_iter().chain([own]) {
            if let Some(memory) = ProcessMemory::of(pid) {
                let before = seen.entry(pid).or_default();
                *before = before.max(memory);
            }
        }
        std::thread::sleep(LOOK_EVERY);
    };
    if seen.len() > 1 {
        seen.remove(&own);
    }
    Ok((status, seen.into_values().collect()))
}

/// Returns the CPU time of all child processes that this process has waited for, and of their descendants.
pub(crate) fn cpu_of_children() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("ask for the CPU time of child processes")?;
    let duration = |time: TimeVal| Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1000);
    Ok(duration(usage.user_time()) + duration(usage.system_time()))
}

/// Returns the path of a program: the given one, or the file `name` in the folder of this program.
pub(crate) fn find(given: Option<&Path>, name: &str, package: &str, flag: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("find this program's file")?;
    let path = given.map_or_else(|| own.with_file_name(name), Path::to_path_buf);
    ensure!(
        path.is_file(),
        "{}: program not found; build it with `cargo build --release -p {package} --bin {name}`, or give its path \
         with {flag}",
        path.display()
    );
    Ok(path)
}
