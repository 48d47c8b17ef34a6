//! Processes of tests.

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::io::{self, Read};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Output};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time after which a process is killed, so that a test that reads its output until it ends does not wait forever. It is
/// much longer than any test takes.
const KILLED_AFTER: Duration = Duration::from_secs(1800);

/// A process that is killed when it is dropped, so that a test that fails leaves no process behind, and after half an hour.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Its end ends the thread that kills the process.
    _guard: Option<SyncSender<()>>,
}

impl Process {
    /// Starts a process.
    ///
    /// # Panics
    /// If the program cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        Self::start_for(KILLED_AFTER, command)
    }

    #[track_caller]
    fn start_for(limit: Duration, command: &mut Command) -> Self {
        match command.spawn() {
            Ok(child) => Self { _guard: killed_after(limit, &child), child },
            Err(error) => panic!("start {}: {error}", command.get_program().display()),
        }
    }

    /// Waits until the process ends, and returns its status and what is left of its output, as [`Child::wait_with_output`]
    /// does.
    ///
    /// # Errors
    /// Output that cannot be read.
    pub fn output(&mut self) -> io::Result<Output> {
        drop(self.child.stdin.take());
        let stderr = drain(self.child.stderr.take());
        let stdout = read_all(self.child.stdout.take())?;
        let stderr = stderr.join().map_err(|_| io::Error::other("the thread that reads has panicked"))??;
        Ok(Output { status: self.child.wait()?, stdout, stderr })
    }

    /// Waits until the process ends, and returns its status and its output.
    ///
    /// # Panics
    /// With the standard error, if the process does not end in time. It is killed.
    #[track_caller]
    pub fn end_within(mut self, patience: Duration) -> Output {
        let deadline = Instant::now() + patience;
        // Both pipes are read while the process runs: it would block on a full pipe.
        let stdout = drain(self.child.stdout.take());
        let stderr = drain(self.child.stderr.take());
        let mut ended = self.child.try_wait().expect("wait for a process");
        while ended.is_none() && Instant::now() < deadline {
            std::thread::park_timeout(Duration::from_millis(20));
            ended = self.child.try_wait().expect("wait for a process");
        }
        drop(self);
        let [stdout, stderr] = [stdout, stderr].map(|pipe| pipe.join().expect("no panic").expect("the output"));
        match ended {
            Some(status) => Output { status, stdout, stderr },
            None => {
                panic!("a process did not end in time; its standard error was: {}", String::from_utf8_lossy(&stderr))
            }
        }
    }

    /// Sends a signal to the process.
    ///
    /// # Panics
    /// If the process has ended and was waited for.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process runs");
    }
}

/// Reads a pipe to its end on a thread. Without a pipe, the result is empty.
fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<io::Result<Vec<u8>>> {
    std::thread::spawn(move || read_all(pipe))
}

/// Reads a pipe to its end. Without a pipe, the result is empty.
fn read_all(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Kills a process after a time, unless the returned sender is dropped before.
fn killed_after(limit: Duration, child: &Child) -> Option<SyncSender<()>> {
    // Unlike a process id, the file names no later process.
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()?;
    let (guard, dropped) = sync_channel(0);
    std::thread::spawn(move || {
        if dropped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    });
    Some(guard)
}

impl From<Child> for Process {
    fn from(child: Child) -> Self {
        Self { _guard: killed_after(KILLED_AFTER, &child), child }
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail for a process that has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Removes the variables of launchers from a program's environment. Call it before variables are added.
///
/// A test program that runs under Slurm, MPI or torchrun has these variables, and `train` would take its rank from them.
pub fn unplace(command: &mut Command) {
    const NAMES: [&str; 6] =
        ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "JOB_COMPLETION_INDEX"];
    const PREFIXES: [&str; 8] =
        ["MASTER_", "EDGECUT_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_", "PMIX_", "MPI_LOCAL"];
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if NAMES.contains(&&*text) || PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::panic::catch_unwind;
    use std::path::Path;
    use std::process::Stdio;

    #[test]
    fn a_process_that_hangs_is_killed() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo out; echo err >&2; exec sleep 1000"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = Process::start_for(Duration::from_millis(500), &mut shell).output().unwrap();
        assert_eq!(output.status.signal(), Some(Signal::KILL.as_raw()));
        // A machine that is very busy kills the shell before it prints.
        for (found, expected) in [(output.stdout, "out\n"), (output.stderr, "err\n")] {
            assert!(found.is_empty() || found == expected.as_bytes());
        }
    }

    #[test]
    fn a_test_that_fails_leaves_no_process() {
        let failed = catch_unwind(|| {
            let process = Process::start(Command::new("sleep").arg("1000"));
            std::panic::panic_any(process.id());
        });
        let id = *failed.unwrap_err().downcast::<u32>().unwrap();
        assert!(!Path::new(&format!("/proc/{id}")).exists(), "process {id} is left behind");
    }
}
