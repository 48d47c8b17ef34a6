//! The ranks of a node as processes: copies of this program that are started together, and end together.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{ClusterError, system};
use crate::token::Token;

/// Set for the processes that [`LocalRanks::run`] starts, to the id of the one that did: their place is in the
/// environment alone.
pub const SPAWNED: &str = "EDGECUT_SPAWNED";
/// The exit status of a rank that ends because another one failed. It is not the cause, whoever ends first.
pub const OTHER_RANK_FAILED: u8 = 3;

/// After the first failure the other ranks end by themselves, naming the one that failed; who has not by then is killed.
const GRACE: Duration = Duration::from_secs(15);
/// The threads of rayon's global pool, which would be all cores in each process.
const RAYON_THREADS: &str = "RAYON_NUM_THREADS";

/// The ranks that this node runs as processes of their own, and where their job meets.
#[derive(Clone, Debug)]
pub struct LocalRanks {
    /// The first of them, in the job.
    pub first_rank: usize,
    /// Processes of the job.
    pub world_size: usize,
    /// Processes of this node.
    pub local_world_size: usize,
    /// Host name or IP address of rank 0.
    pub master_addr: String,
    /// The port of rank 0.
    pub master_port: u16,
    /// The secret that the processes get in `EDGECUT_TOKEN`; without one, they have that of this process, if any.
    pub token: Option<Token>,
}

/// How the processes of a node have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RanksEnd {
    /// All well.
    Done,
    /// An interrupt or a request to terminate came, and has ended them.
    Interrupted,
    /// This rank failed first.
    Failed {
        /// The rank in the job.
        rank: usize,
        /// How it ended.
        status: ExitStatus,
    },
}

impl LocalRanks {
    /// A job of `world_size` processes on this machine, on a free port of the loopback address, with a secret that is made
    /// up.
    ///
    /// # Errors
    /// No free port, or no random bytes.
    pub fn alone(world_size: usize) -> Result<Self, ClusterError> {
        Ok(Self {
            first_rank: 0,
            world_size,
            local_world_size: world_size,
            master_addr: Ipv4Addr::LOCALHOST.to_string(),
            master_port: free_port()?,
            token: Some(Token::random()?),
        })
    }

    /// Runs this program, with the arguments that it was started with, once per rank, and waits for all. When one fails,
    /// the others get 15 seconds to say so and to end; then they are killed. `notice` gets a line for each that a signal
    /// ended.
    ///
    /// Interrupts are caught, and end the processes. The calling thread must be the one that lives as long as the
    /// processes may: they end with it ([`end_with_parent`]).
    ///
    /// # Errors
    /// A process cannot be started; those that were are killed.
    pub fn run(&self, notice: impl Fn(&str)) -> Result<RanksEnd, ClusterError> {
        let program = std::env::current_exe().map_err(system("find this program's file"))?;
        let (events, ended) = channel();
        let interrupted = catch_interrupts(&events)?;
        let mut running = Running::default();
        for local_rank in 0..self.local_world_size {
            let rank = self.first_rank + local_rank;
            let child = self.command(&program, local_rank).spawn().map_err(system("start a rank's process"))?;
            running.watch(rank, child, events.clone());
        }
        self.wait(running, &ended, &interrupted, notice)
    }

    fn wait(
        &self,
        mut running: Running,
        ended: &Receiver<Event>,
        interrupted: &AtomicBool,
        notice: impl Fn(&str),
    ) -> Result<RanksEnd, ClusterError> {
        let mut failure: Option<(usize, ExitStatus)> = None;
        while !running.0.is_empty() {
            let event = match failure.is_some() || interrupted.load(Ordering::SeqCst) {
                false => ended.recv().map_err(|_| RecvTimeoutError::Disconnected),
                true => ended.recv_timeout(GRACE),
            };
            match event {
                Ok(Event::Ended(rank, status)) => {
                    running.0.retain(|(other, _)| *other != rank);
                    let status = status.map_err(system("wait for a rank's process"))?;
                    if let (Some(signal), false) = (status.signal(), interrupted.load(Ordering::SeqCst)) {
                        notice(&format!("rank {rank} was ended by signal {signal}"));
                    }
                    // A rank that failed itself is the cause, whoever noticed first.
                    let innocent = |status: &ExitStatus| status.code() == Some(i32::from(OTHER_RANK_FAILED));
                    if !status.success() && failure.as_ref().is_none_or(|(_, status)| innocent(status)) {
                        failure = Some((rank, status));
                    }
                }
                Ok(Event::Interrupt) => running.end(Signal::TERM),
                Err(_) => running.end(Signal::KILL),
            }
        }
        Ok(match failure {
            _ if interrupted.load(Ordering::SeqCst) => RanksEnd::Interrupted,
            Some((rank, status)) => RanksEnd::Failed { rank, status },
            None => RanksEnd::Done,
        })
    }

    fn command(&self, program: &Path, local_rank: usize) -> Command {
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1));
        for (name, value) in [
            ("RANK", (self.first_rank + local_rank).to_string()),
            ("WORLD_SIZE", self.world_size.to_string()),
            ("LOCAL_RANK", local_rank.to_string()),
            ("LOCAL_WORLD_SIZE", self.local_world_size.to_string()),
            ("MASTER_ADDR", self.master_addr.clone()),
            ("MASTER_PORT", self.master_port.to_string()),
            (SPAWNED, std::process::id().to_string()),
        ] {
            command.env(name, value);
        }
        if std::env::var_os(RAYON_THREADS).is_none() {
            command.env(RAYON_THREADS, share_of_cores(self.local_world_size).to_string());
        }
        if let Some(token) = &self.token {
            command.env("EDGECUT_TOKEN", OsStr::new(token.to_env_value()));
        }
        command
    }
}

enum Event {
    Interrupt,
    Ended(usize, std::io::Result<ExitStatus>),
}

/// The processes that have not ended, by rank; killed when dropped.
#[derive(Default)]
struct Running(Vec<(usize, Option<Pid>)>);

impl Running {
    fn watch(&mut self, rank: usize, mut child: Child, events: Sender<Event>) {
        self.0.push((rank, Pid::from_raw(child.id() as i32)));
        std::thread::spawn(move || {
            let status = child.wait();
            let _ = events.send(Event::Ended(rank, status));
        });
    }

    fn end(&self, signal: Signal) {
        for pid in self.0.iter().filter_map(|(_, pid)| *pid) {
            // A process that has ended meanwhile needs no signal.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end(Signal::KILL);
    }
}

/// The exit status of a program that an interrupt has ended.
const INTERRUPTED: i32 = 130;

/// Sends an event for each interrupt, and notes that there was one.
fn catch_interrupts(events: &Sender<Event>) -> Result<Arc<AtomicBool>, ClusterError> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let (flag, wake) = (Arc::clone(&interrupted), events.clone());
    let caught = ctrlc::try_set_handler(move || {
        flag.store(true, Ordering::SeqCst);
        if wake.send(Event::Interrupt).is_err() {
            // No rank is left to be ended: the interrupt is meant for what the program does after them.
            std::process::exit(INTERRUPTED);
        }
    });
    match caught {
        Err(ctrlc::Error::System(cause)) => Err(system("catch interrupts")(cause)),
        // The program has a handler of its own, which decides.
        _ => Ok(interrupted),
    }
}

/// In a process that [`LocalRanks::run`] started: makes it end when the thread that did does, however that ends. In others it
/// does nothing.
///
/// # Errors
/// The parent has ended already.
pub fn end_with_parent() -> Result<(), ClusterError> {
    let Some(parent) = std::env::var(SPAWNED).ok().and_then(|text| text.parse::<i32>().ok()) else { return Ok(()) };
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(|errno| system("watch the parent process")(errno.into()))?;
    match rustix::process::getppid() {
        Some(pid) if pid.as_raw_nonzero().get() == parent => Ok(()),
        _ => Err(system("watch the parent process")(std::io::Error::other("it has ended"))),
    }
}

/// The cores of this process's share, if `processes` of this node share alike those that they may run on.
pub fn share_of_cores(processes: usize) -> usize {
    (std::thread::available_parallelism().map_or(1, usize::from) / processes.max(1)).max(1)
}

/// A loopback port that is free now. Another program could take it before rank 0 does; then rank 0 says so.
///
/// # Errors
/// There is none.
pub fn free_port() -> Result<u16, ClusterError> {
    let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr();
    Ok(free().map_err(system("find a free port on 127.0.0.1"))?.port())
}
