//! The programs under test, and what they print.

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The interval at which processes and files are looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Returns a program beside this one.
pub(crate) fn program(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("find this program")?;
    let path = own.with_file_name(name);
    ensure!(path.is_file(), "there is no program {}: build the whole workspace", path.display());
    Ok(path)
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Writes the parts of a generated graph, and returns their folder.
pub(crate) fn write_parts(root: &Path, dataset: &str, parts: usize, flags: &[&str]) -> anyhow::Result<PathBuf> {
    let mut command = Command::new(program("partition-graph")?);
    command.args(["--dataset", dataset, "--num-partitions", &parts.to_string(), "--method", "random", "--root-dir"]);
    run(command.arg(root).args(flags))?;
    Ok(root.join("partitions").join(dataset).join(format!("{parts}-parts")))
}

/// Waits until `happens`, at most until the deadline. Returns whether it has happened.
pub(crate) fn wait_until(deadline: Instant, mut happens: impl FnMut() -> bool) -> bool {
    loop {
        if happens() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}

/// A process whose error output goes to a file. It is killed when dropped.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a process. Both of its outputs go to the file `log`.
    pub(crate) fn start(command: &mut Command, log: PathBuf) -> anyhow::Result<Self> {
        let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let copy = file.try_clone().context("duplicate a file descriptor")?;
        command.stdin(Stdio::null()).stdout(copy).stderr(file);
        let child = command.spawn().with_context(|| format!("start {command:?}"))?;
        Ok(Self { child, log })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // The process may have ended.
            let _ = kill_process(pid, signal);
        }
    }

    /// Returns the status of the process if it has ended.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns the output so far.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Kills the process, also if it is suspended.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
