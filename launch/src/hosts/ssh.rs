//! Connections over the system's OpenSSH client, so that its configuration, agent, jump hosts and known hosts apply.

use crate::messages::{ABSENT, PRESENT};
use crate::timeouts::{SSH_REASON_TIMEOUT, TRANSFER_CHECK_INTERVAL, TRANSFER_STALL_TIMEOUT};
use anyhow::{Context, bail, ensure};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Seconds that a connection may take.
const CONNECT_SECONDS: u32 = 10;
/// Seconds between two keep-alive messages of `ssh` to the server.
const ALIVE_SECONDS: u64 = 2;
/// The limit on the kept error output of `ssh`.
const MAX_SAID_BYTES: usize = 64 << 10;
const BLOCK_BYTES: usize = 1 << 20;
/// Lines of error output that are shown for a failed connection.
const SHOWN_LINES: usize = 4;
/// The days after which a file in the cache that no job has used is removed.
const CACHE_DAYS: u32 = 90;
/// The cache folder of a node, as its shell expands it.
const CACHE: &str = "${XDG_CACHE_HOME:-$HOME/.cache}/edgecut";

/// The login of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    pub(crate) user: Option<String>,
    /// The file of `ssh -F`.
    pub(crate) config: Option<PathBuf>,
    /// The silence after which either side of a connection counts as gone.
    pub(crate) silence: Duration,
}

impl Target {
    /// Returns the arguments of `ssh`. The login shell of the node runs `remote`.
    pub(crate) fn args(&self, remote: &str) -> Vec<String> {
        let mut args: Vec<String> = ["-T", "-x", "-a"].map(Into::into).into();
        if let Some(config) = &self.config {
            args.extend(["-F".into(), config.display().to_string()]);
        }
        // Nobody can type a password, and a dead connection has to end. Host keys are checked as the user has
        // configured it.
        for option in [
            "BatchMode=yes".to_owned(),
            format!("ConnectTimeout={CONNECT_SECONDS}"),
            format!("ServerAliveInterval={ALIVE_SECONDS}"),
            format!("ServerAliveCountMax={}", self.silence.as_secs().div_ceil(ALIVE_SECONDS)),
            // A connection that is shared with other sessions would not end with this process.
            "ControlMaster=no".to_owned(),
            "ControlPath=none".to_owned(),
        ] {
            args.extend(["-o".into(), option]);
        }
        args.extend(self.port.iter().flat_map(|port| ["-p".into(), port.to_string()]));
        args.extend(self.user.iter().flat_map(|user| ["-l".into(), user.clone()]));
        args.extend(["--".into(), self.host.clone(), remote.into()]);
        args
    }

    /// Starts `ssh` in its own process group, so that Ctrl-C does not reach it: the launcher decides when connections
    /// end.
    pub(crate) fn spawn(&self, remote: &str) -> anyhow::Result<Session> {
        let mut command = Command::new("ssh");
        command.args(self.args(remote)).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("start ssh (is OpenSSH installed here?)")?;
        let said = Arc::new(Mutex::new(String::new()));
        if let Some(pipe) = child.stderr.take() {
            let saying = said.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(pipe);
                let mut line = Vec::new();
                while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                    let mut said = saying.lock().unwrap_or_else(PoisonError::into_inner);
                    // The size is bounded; the first lines tell the cause.
                    if said.len() < MAX_SAID_BYTES {
                        said.push_str(&String::from_utf8_lossy(&line));
                    }
                    line.clear();
                }
            });
        }
        Ok(Session { target: self.clone(), child, said })
    }

    /// Copies a file to the node's cache as `name`, which must identify its content, unless it exists there. Nodes may
    /// share their home directory: each writes its own temporary file, and the first to finish gives it the name.
    pub(crate) fn put(&self, name: &str, file: &Path) -> anyhow::Result<()> {
        let bytes = file.metadata().with_context(|| format!("read {}", file.display()))?.len();
        // `ln` creates the name atomically and never replaces a file that another node has put there meanwhile. `mv`
        // covers file systems without hard links. The size check rejects a copy whose connection broke. The time of a
        // file is that of its last use.
        let remote = in_shell(&format!(
            "umask 077; d=\"{CACHE}\"; f=\"$d/{name}\"; mkdir -p \"$d\" || exit; touch -c \"$f\"; \
             find \"$d\" -maxdepth 1 -type f \\( -name '*launch-*' -o -name '*program-*' \\) -mtime +{CACHE_DAYS} \
             -exec rm -f {{}} + 2>/dev/null; \
             if [ -x \"$f\" ]; then echo {PRESENT}; exit; fi; echo {ABSENT} \"$(uname -sm)\"; \
             u=\"$d/.{name}.$(uname -n).$$\"; trap \"rm -f \\\"$u\\\"\" EXIT; cat > \"$u\"; \
             [ \"$(wc -c < \"$u\")\" -eq {bytes} ] && chmod 700 \"$u\" && \
             {{ ln \"$u\" \"$f\" 2>/dev/null || [ -x \"$f\" ] || mv \"$u\" \"$f\"; }} && echo {PRESENT}"
        ));
        let mut session = self.spawn(&remote)?;
        let lines = session.lines();
        let mut sending = None;
        loop {
            match next_line(&lines, || sending.as_mut().is_some_and(Sending::has_moved)) {
                Some(line) if line.starts_with(PRESENT) => return Ok(()),
                Some(line) if line.starts_with(ABSENT) => {
                    same_machine(line.trim_start_matches(ABSENT).trim())?;
                    sending = Some(session.send(vec![file.into()]));
                }
                Some(_) => {}
                // If the node stopped reading, its error output tells why.
                None => {
                    sending.map_or(Ok(()), Sending::result)?;
                    bail!(session.explain("copy a program to it"));
                }
            }
        }
    }
}

/// Returns the next line, or `None` if the lines end, or neither a line comes nor `moved` returns true for [`TRANSFER_STALL_TIMEOUT`].
pub(crate) fn next_line(lines: &mpsc::Receiver<String>, mut moved: impl FnMut() -> bool) -> Option<String> {
    let mut last = Instant::now();
    loop {
        match lines.recv_timeout(TRANSFER_CHECK_INTERVAL) {
            Ok(line) => return Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) if moved() => last = Instant::now(),
            Err(mpsc::RecvTimeoutError::Timeout) if last.elapsed() > TRANSFER_STALL_TIMEOUT => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}

/// A transfer of files to a session.
pub(crate) struct Sending {
    sent: Arc<AtomicU64>,
    seen: u64,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Sending {
    /// Returns true if bytes were sent since the last call.
    pub(crate) fn has_moved(&mut self) -> bool {
        let sent = self.sent.load(Ordering::Relaxed);
        std::mem::replace(&mut self.seen, sent) != sent
    }

    /// Returns the error of reading the files, if any. Must be called after the other side has answered or is gone.
    pub(crate) fn result(self) -> anyhow::Result<()> {
        if !self.thread.is_finished() {
            return Ok(());
        }
        match self.thread.join() {
            Ok(sent) => sent,
            Err(_) => bail!("the copying thread panicked"),
        }
    }
}

/// Returns the path on a node of a file that [`Target::put`] has copied.
pub(crate) fn cached(name: &str) -> String {
    format!("{CACHE}/{name}")
}

/// Returns a command line that runs `script` in a POSIX shell, whatever the login shell is. It must not contain a
/// single quote.
pub(crate) fn in_shell(script: &str) -> String {
    format!("exec sh -c '{script}'")
}

/// Checks that a program of this machine runs on a machine of the kind `theirs`.
fn same_machine(theirs: &str) -> anyhow::Result<()> {
    let ours = crate::agent::machine();
    ensure!(theirs == ours, "it is {theirs}, but this program is built for {ours}: all machines must be of one kind");
    Ok(())
}

/// A running `ssh`. Dropping it ends the process.
pub(crate) struct Session {
    target: Target,
    pub(crate) child: Child,
    said: Arc<Mutex<String>>,
}

impl Session {
    /// Returns the lines of its standard output as they come.
    pub(crate) fn lines(&mut self) -> mpsc::Receiver<String> {
        let (sender, lines) = mpsc::sync_channel(256);
        if let Some(pipe) = self.child.stdout.take() {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(pipe);
                let mut line = Vec::new();
                while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                    let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                    if sender.send(text).is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
        lines
    }

    /// Writes the files to its standard input one after another, and closes it.
    pub(crate) fn send(&mut self, files: Vec<PathBuf>) -> Sending {
        let input = self.child.stdin.take();
        let sent = Arc::new(AtomicU64::new(0));
        let sending = sent.clone();
        let thread = std::thread::spawn(move || {
            let mut input = input.context("ssh takes no input")?;
            let mut block = vec![0; BLOCK_BYTES];
            for path in files {
                let failed = || format!("read {}", path.display());
                let mut file = File::open(&path).with_context(failed)?;
                loop {
                    let read = file.read(&mut block).with_context(failed)?;
                    // If the node has stopped reading, its own message tells why.
                    if read == 0 || input.write_all(&block[..read]).is_err() {
                        break;
                    }
                    sending.fetch_add(read as u64, Ordering::Relaxed);
                }
            }
            Ok(())
        });
        Sending { sent, seen: 0, thread }
    }

    /// Ends the process, and returns the reason for its failure to do `what`, with a remedy if one is known.
    pub(crate) fn explain(&mut self, what: &str) -> String {
        // A process that has ended by itself has written its reason; one that still runs would write nothing more.
        let deadline = Instant::now() + SSH_REASON_TIMEOUT;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(SSH_REASON_TIMEOUT / 20);
        }
        let _ = self.child.kill();
        let status = self.child.wait();
        std::thread::sleep(SSH_REASON_TIMEOUT / 10);
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(reason) = remedy(&said, &self.target) {
            return reason;
        }
        let mut lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.drain(..lines.len().saturating_sub(SHOWN_LINES));
        match (lines.is_empty(), status) {
            (true, Ok(status)) => format!("cannot {what}: ssh says nothing ({status})"),
            (true, Err(error)) => format!("cannot {what}: {error}"),
            (false, _) => format!("cannot {what}: {}", lines.join("; ")),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a known reason in the error output of `ssh`, with a remedy.
fn remedy(said: &str, target: &Target) -> Option<String> {
    let Target { host, port, .. } = target;
    let at = port.map_or_else(String::new, |port| format!("-p {port} "));
    let line = |what: &str| said.lines().rev().find(|line| line.contains(what)).map(|line| line.trim().to_owned());
    if line("Could not resolve hostname").is_some() {
        return Some(format!("unknown host: there is no machine named {host}; check its address"));
    }
    if line("REMOTE HOST IDENTIFICATION HAS CHANGED").is_some() {
        let name = port.filter(|&port| port != 22).map_or_else(|| host.clone(), |port| format!("[{host}]:{port}"));
        return Some(format!(
            "its host key has changed, which may be an attack; if the machine was reinstalled, remove the old key \
             with: ssh-keygen -R '{name}'"
        ));
    }
    if line("Host key verification failed").is_some() {
        return Some(format!("its host key is not known: connect once by hand and compare it: ssh {at}{host}"));
    }
    if let Some(denied) = line("Permission denied (") {
        return Some(format!(
            "it rejects a login without a password ({denied}): install your key with: ssh-copy-id {at}{host}"
        ));
    }
    let failed =
        line("Connection refused").or_else(|| line("Connection timed out")).or_else(|| line("No route to host"));
    failed.or_else(|| line("Operation timed out")).map(|line| {
        format!(
            "{line}: is the machine up, and does its SSH server listen on {}?",
            port.map_or("the default port".into(), |port| format!("port {port}"))
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeouts::HEARTBEAT_TIMEOUT;
    use edgecut_testing::assert_has;

    fn target() -> Target {
        Target {
            host: "n1".into(),
            port: Some(2222),
            user: Some("alice".into()),
            config: Some("c".into()),
            silence: HEARTBEAT_TIMEOUT,
        }
    }

    #[test]
    fn host_keys_are_checked_and_nobody_is_asked() {
        let args = target().args("true").join(" ");
        assert!(args.starts_with("-T -x -a -F c -o BatchMode=yes"), "{args}");
        assert!(args.ends_with("-p 2222 -l alice -- n1 true"), "{args}");
        assert!(!args.contains("HostKey"), "the user's own setting counts: {args}");
    }

    #[test]
    fn what_ssh_says_becomes_what_to_do() {
        for (said, expected) in [
            ("ssh: Could not resolve hostname n1: Name or service not known\r", "unknown host"),
            (
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\r\nHost key verification failed.\r",
                "ssh-keygen -R '[n1]:2222'",
            ),
            (
                "No ED25519 host key is known for n1\r\nHost key verification failed.\r",
                "connect once by hand and compare it: ssh -p 2222 n1",
            ),
            ("alice@n1: Permission denied (password).", "ssh-copy-id -p 2222 n1"),
            ("ssh: connect to host n1 port 2222: Connection refused\r", "is the machine up"),
        ] {
            assert_has(remedy(said, &target()).unwrap(), &[expected]);
        }
        assert_eq!(remedy("something else", &target()), None);
    }
}
