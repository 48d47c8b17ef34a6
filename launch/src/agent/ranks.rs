//! The ranks of a node: starts them, forwards their output, and ends them together with all processes that they
//! started.

use super::Event;
use super::checks::{expand, find_program, listen_addr};
use super::out::Out;
use crate::messages::{Ending, JOB_ID, RANK_ROLE, Report, Start, Stream};
use crate::timeouts::{
    FOREIGN_OUTPUT_TIMEOUT, LAST_OUTPUT_TIMEOUT, PROCESS_GROUP_TIMEOUT, REAP_TIMEOUT, TERMINATION_TIMEOUT,
};
use anyhow::Context;
use edgecut_cli::message;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// The variable that names the agent, by job and process id. Nothing that carries it may outlive the agent.
const AGENT: &str = "EDGECUT_AGENT";
/// The variable for the address to listen on.
const LISTEN_ADDR: &str = "EDGECUT_LISTEN_ADDR";
/// The length at which longer lines are cut.
const MAX_LINE_BYTES: usize = 64 << 10;
/// More bytes than two pipes and their readers hold. Once so many bytes have come, the rank's own output is complete.
const OTHERS_BYTES: usize = 256 << 10;
/// The number of searches for processes that have left their process group. They may start others meanwhile.
const SWEEPS: usize = 5;

/// A rank's process group. `None` once its leader is reaped, since its number may then belong to others.
type Group = Arc<Mutex<Option<Pid>>>;

/// The ranks of this node.
pub(crate) struct Ranks {
    events: mpsc::Sender<Event>,
    out: Out,
    /// The value of [`AGENT`] in the ranks' environment.
    name: String,
    /// The ranks that have not ended.
    running: Vec<(usize, Group)>,
    /// The time between asking the ranks to end and killing them.
    grace: Duration,
    /// The time at which the ranks were asked to end.
    stopped: Option<Instant>,
    /// True once the ranks are asked to end, for the threads that wait for them: ending soon matters more than the last
    /// lines.
    hurried: Arc<AtomicBool>,
    /// The time at which the ranks were killed.
    killed: Option<Instant>,
}

impl Ranks {
    pub(crate) fn new(events: mpsc::Sender<Event>, out: Out) -> Self {
        Self {
            events,
            out,
            name: String::new(),
            running: Vec::new(),
            grace: TERMINATION_TIMEOUT,
            stopped: None,
            hurried: Arc::default(),
            killed: None,
        }
    }

    /// Starts the ranks of a job. Those of an earlier attempt have ended.
    pub(crate) fn start(&mut self, start: Start) {
        self.sweep();
        self.stopped = None;
        self.killed = None;
        self.grace = Duration::from_secs(start.grace_s);
        self.hurried = Arc::default();
        self.name = format!("{}/{}", start.job_id, std::process::id());
        self.start_ranks(&start);
    }

    /// Starts ranks of the running job again. Does nothing once the ranks are asked to end.
    pub(crate) fn start_again(&mut self, start: &Start) {
        if self.stopped.is_none() {
            self.start_ranks(start);
            return;
        }
        for rank in &start.ranks {
            let ending = Ending::NotStarted("the job is being ended".into());
            self.out.say(Report::Ended { rank: rank.rank, ending });
        }
    }

    fn start_ranks(&mut self, start: &Start) {
        for rank in &start.ranks {
            match spawn(start, &self.name, &rank.env).map(|child| self.watch(rank.rank, child)) {
                Ok(group) => self.running.push((rank.rank, group)),
                Err(error) => {
                    let ending = Ending::NotStarted(format!("{error:#}"));
                    self.out.say(Report::Ended { rank: rank.rank, ending });
                }
            }
        }
    }

    /// Starts threads that read a rank's output and wait for its end.
    fn watch(&self, rank: usize, mut child: Child) -> Group {
        let (read, reading) = mpsc::channel::<()>();
        let delivery = Arc::new(Delivery::new());
        let streams: [(Stream, Option<Box<dyn Read + Send>>); 2] = [
            (Stream::Out, child.stdout.take().map(|pipe| Box::new(pipe) as _)),
            (Stream::Err, child.stderr.take().map(|pipe| Box::new(pipe) as _)),
        ];
        for (stream, pipe) in streams {
            let (Some(pipe), read, delivery) = (pipe, read.clone(), delivery.clone()) else { continue };
            std::thread::spawn(move || {
                forward(rank, stream, pipe, &delivery);
                drop(read);
            });
        }
        drop(read);
        let pid = Pid::from_raw(child.id() as i32);
        let group: Group = Arc::new(Mutex::new(pid));
        let events = self.events.clone();
        let own = group.clone();
        let hurried = self.hurried.clone();
        std::thread::spawn(move || {
            if let Some(pid) = pid {
                // Waits without reaping: until the process is reaped its number belongs to nobody else, so the process
                // group can be killed safely below.
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
                if !hurried.load(Ordering::SeqCst) {
                    // Returns when both readers have dropped their senders.
                    let _ = reading.recv_timeout(PROCESS_GROUP_TIMEOUT);
                }
                let _ = kill_process_group(pid, Signal::KILL);
            }
            *own.lock().unwrap_or_else(PoisonError::into_inner) = None;
            let ending = match child.wait() {
                Ok(status) => match (status.code(), status.signal()) {
                    (Some(code), _) => Ending::Code(code),
                    (None, signal) => Ending::Signal(signal.unwrap_or_default()),
                },
                Err(error) => Ending::Lost(format!("wait for it: {error}")),
            };
            delivery.wait_for_last(&reading, &hurried);
            let _ = events.send(Event::Ended { rank, ending });
        });
        group
    }

    /// Reports the end of a rank. After the last one, kills what they have left.
    pub(crate) fn ended(&mut self, rank: usize, ending: Ending) {
        self.running.retain(|(other, _)| *other != rank);
        if self.running.is_empty() {
            self.sweep();
        }
        self.out.say(Report::Ended { rank, ending });
    }

    /// Asks all ranks to end.
    pub(crate) fn stop(&mut self) {
        if self.stopped.is_none() {
            self.stopped = Some(Instant::now());
            self.hurried.store(true, Ordering::SeqCst);
            self.signal(Signal::TERM);
        }
    }

    /// Kills all ranks and what they have started.
    pub(crate) fn kill(&mut self) {
        self.stopped.get_or_insert_with(Instant::now);
        self.hurried.store(true, Ordering::SeqCst);
        self.killed.get_or_insert_with(Instant::now);
        self.signal(Signal::KILL);
        self.sweep();
    }

    /// Kills the ranks that have not ended within the grace period.
    pub(crate) fn kill_if_overdue(&mut self) {
        if self.killed.is_none() && self.stopped.is_some_and(|at| at.elapsed() > self.grace) {
            self.kill();
        }
    }

    /// Returns true if nothing runs any more, or a killed process does not disappear.
    pub(crate) fn are_gone(&self) -> bool {
        self.running.is_empty() || self.killed.is_some_and(|at| at.elapsed() > REAP_TIMEOUT)
    }

    /// Signals the process groups of all ranks that run.
    fn signal(&self, signal: Signal) {
        for (_, group) in &self.running {
            if let Some(pid) = *group.lock().unwrap_or_else(PoisonError::into_inner) {
                let _ = kill_process_group(pid, signal);
            }
        }
    }

    /// Kills the processes that have left their process group: all that carry this agent's name in their environment.
    fn sweep(&self) {
        if !self.name.is_empty() {
            kill_marked(|variable| variable == format!("{AGENT}={}", self.name).as_bytes());
        }
    }
}

/// Kills the remaining processes of a job whose agent on this node is lost.
pub(crate) fn sweep_job(job_id: &str) {
    kill_marked(|variable| variable == format!("{JOB_ID}={job_id}").as_bytes());
}

/// Kills all processes whose environment has a variable that `is_mark` accepts, until none is found.
fn kill_marked(is_mark: impl Fn(&[u8]) -> bool) {
    for _ in 0..SWEEPS {
        let Ok(processes) = std::fs::read_dir("/proc") else { return };
        let mut found = false;
        for process in processes.flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
            else {
                continue;
            };
            let Ok(environment) = std::fs::read(process.path().join("environ")) else { continue };
            if environment.split(|&byte| byte == 0).any(&is_mark) {
                found |= kill_process(pid, Signal::KILL).is_ok();
            }
        }
        if !found {
            return;
        }
    }
}

/// Starts a rank, as this program in the role that becomes it.
fn spawn(start: &Start, agent: &str, env: &std::collections::BTreeMap<String, String>) -> anyhow::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    let workspace = expand(&start.workspace);
    let program = find_program(&workspace, &start.program)?;
    command.arg(RANK_ROLE).arg(program).arg(&start.program.name).args(&start.args).current_dir(workspace);
    if let Some(listen) = &start.listen {
        let address = listen_addr(listen)?;
        command.env(LISTEN_ADDR, address.to_string());
    }
    command.envs(&start.env).envs(env).env(JOB_ID, &start.job_id).env(AGENT, agent);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command.spawn().with_context(|| format!("start {}", start.program.name))
}

/// Makes this process a rank: the kernel kills it when the agent dies, and the program replaces it. `command` is the
/// program's file, the name that it is called by, and its arguments.
pub(crate) fn become_rank(command: &[OsString]) -> ExitCode {
    let Err(error) = try_become_rank(command);
    message!("error: {error:#}");
    ExitCode::from(127)
}

fn try_become_rank(command: &[OsString]) -> anyhow::Result<std::convert::Infallible> {
    let agent = std::env::var(AGENT).ok();
    let agent = agent.and_then(|name| name.rsplit('/').next()?.parse::<i32>().ok()).context("no agent started this")?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).context("watch the agent")?;
    // The agent may have died before the signal was set, in which case the parent is another process now.
    let lives = rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == agent);
    anyhow::ensure!(lives, "the agent has ended");
    let [program, name, args @ ..] = command else { anyhow::bail!("no program") };
    let error = Command::new(program).arg0(name).args(args).exec();
    Err(error).with_context(|| format!("start {}", program.display()))
}

/// The state of the delivery of a rank's output.
struct Delivery {
    /// The time of the last delivery.
    last: Mutex<Instant>,
    /// The number of lines that the launcher has not taken yet. Its terminal may be slow.
    under_way: AtomicUsize,
    /// The number of bytes delivered.
    bytes: AtomicUsize,
}

impl Delivery {
    fn new() -> Self {
        Self { last: Mutex::new(Instant::now()), under_way: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// Writes a line of `bytes` bytes, and notes it.
    fn deliver(&self, report: &Report, bytes: usize) {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        Out::write(report);
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.under_way.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits for the end of a rank's output. Another process may hold it open for ever, and write to it. So the wait
    /// also ends when nothing comes any more, when more has come than the rank itself can have written, and soon after
    /// all ranks were asked to end.
    fn wait_for_last(&self, reading: &mpsc::Receiver<()>, hurried: &AtomicBool) {
        let mut hurried_for = Duration::ZERO;
        let mut taken_for = Duration::ZERO;
        let before = self.bytes.load(Ordering::SeqCst);
        while reading.recv_timeout(PROCESS_GROUP_TIMEOUT / 5) == Err(mpsc::RecvTimeoutError::Timeout) {
            let quiet = self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
            // Time counts only while the launcher takes lines: a slow terminal must not cost the rank its last lines.
            let all_taken = self.under_way.load(Ordering::SeqCst) == 0;
            hurried_for += if hurried.load(Ordering::SeqCst) { PROCESS_GROUP_TIMEOUT / 5 } else { Duration::ZERO };
            taken_for += if all_taken { PROCESS_GROUP_TIMEOUT / 5 } else { Duration::ZERO };
            let others =
                taken_for > FOREIGN_OUTPUT_TIMEOUT || self.bytes.load(Ordering::SeqCst) - before > OTHERS_BYTES;
            if hurried_for > LAST_OUTPUT_TIMEOUT || (all_taken && quiet > LAST_OUTPUT_TIMEOUT) || others {
                return;
            }
        }
    }
}

/// Reports the output of a rank line by line.
fn forward(rank: usize, stream: Stream, pipe: impl Read, delivery: &Delivery) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
                delivery.deliver(&Report::Line { rank, stream, text }, line.len());
            }
        }
    }
}
