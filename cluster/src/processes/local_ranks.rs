//! The processes of a node's ranks: copies of this program that start together and end together.

use crate::timeouts::{OTHER_RANKS_TIMEOUT, STORE_STATE_TIMEOUT, TERMINATION_TIMEOUT};
use std::ffi::{OsStr, OsString};
use std::io::PipeReader;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process};
use socket2::{Domain, Socket, Type};

use crate::error::{ClusterError, system};
use crate::failure::blame::OTHER_RANK_FAILED;
use crate::processes::end_with_parent::SPAWNED;
use crate::processes::interrupts::on_interrupt;
use crate::processes::rank_errors::{ErrorPipe, RankError, RankErrors, error_in};
use crate::processes::termination::STATE_STORED;
use crate::token::Token;

/// The variable for the number of threads of rayon's global pool. The default would be all cores in each process.
const RAYON_THREADS: &str = "RAYON_NUM_THREADS";

/// The ranks of a job that this node runs, each as a process of its own.
///
/// They are copies of this program that start with torchrun's variables and [`SPAWNED`], and that end together. A copy
/// that calls [`end_with_parent`](crate::end_with_parent) ends with its parent, by a signal from the kernel.
#[derive(Clone, Debug)]
pub struct LocalRanks {
    /// The lowest rank on this node.
    pub first_rank: usize,
    /// The number of processes of the job.
    pub world_size: usize,
    /// The number of processes on this node.
    pub local_world_size: usize,
    /// Host name or IP address of rank 0.
    pub master_addr: String,
    /// The port of rank 0.
    pub master_port: u16,
    /// The address that the processes get in `EDGECUT_LISTEN_ADDR`. If it is `None`, they inherit the address of this
    /// process, if any.
    pub listen_addr: Option<IpAddr>,
    /// The secret that the processes get in `EDGECUT_TOKEN`. If it is `None`, they inherit the secret of this
    /// process, if any.
    pub token: Option<Token>,
    /// True if the ranks store their state when they are asked to end, and then end with [`STATE_STORED`]. They have 5
    /// minutes for it instead of 5 seconds.
    pub stores_state: bool,
    /// The arguments of the processes; `None` for the arguments of this process.
    pub args: Option<Vec<OsString>>,
}

/// The outcome of the processes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RanksEnd {
    /// All ranks succeeded.
    Done,
    /// An interrupt or a request to terminate has ended the ranks.
    Interrupted,
    /// This rank failed first.
    Failed {
        /// The rank in the job.
        rank: usize,
        /// The exit status of its process.
        status: ExitStatus,
    },
}

impl LocalRanks {
    /// Describes a job of `world_size` processes on this machine, on a free port of the loopback address, with a random
    /// secret.
    ///
    /// # Errors
    /// No free port, or no random bytes.
    pub(crate) fn alone(world_size: usize) -> Result<Self, ClusterError> {
        Ok(Self {
            first_rank: 0,
            world_size,
            local_world_size: world_size,
            master_addr: Ipv4Addr::LOCALHOST.to_string(),
            master_port: free_port()?,
            listen_addr: None,
            token: Some(Token::random()?),
            stores_state: false,
            args: None,
        })
    }

    /// Runs this program once per rank, and waits for all ranks. When one fails,
    /// the others have 10 seconds to report that and to end. Then they get SIGTERM, and 5 seconds later SIGKILL. `notice`
    /// receives a line for each process that a signal from elsewhere ended, and the errors of
    /// [`report_to_parent`](crate::report_to_parent).
    ///
    /// Interrupts are caught and end the processes. The processes also end when the calling thread ends
    /// ([`end_with_parent`](crate::end_with_parent)), so call this from a thread that lives as long as they should.
    ///
    /// # Errors
    /// A process that cannot be started. Those that were started are killed.
    pub fn run(&self, notice: impl Fn(&str)) -> Result<RanksEnd, ClusterError> {
        let program = std::env::current_exe().map_err(system("find this program's file"))?;
        let (events, ended) = channel();
        let interrupted = catch_interrupts(&events)?;
        let mut running = Running::default();
        for local_rank in 0..self.local_world_size {
            let rank = self.first_rank + local_rank;
            let mut command = self.command(&program, local_rank);
            let pipe = ErrorPipe::new(&mut command).map_err(system("make a pipe for errors"))?;
            let child = command.spawn().map_err(system("start a rank's process"))?;
            running.watch(rank, child, pipe.started(), events.clone());
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
        let mut errors = RankErrors::default();
        // True once the ranks were asked to end.
        let mut is_ending = false;
        while !running.0.is_empty() {
            let event = if interrupted.load(Ordering::SeqCst) {
                ended.recv_timeout(if self.stores_state && !is_ending {
                    STORE_STATE_TIMEOUT
                } else {
                    TERMINATION_TIMEOUT
                })
            } else if is_ending {
                ended.recv_timeout(TERMINATION_TIMEOUT)
            } else if failure.is_some() {
                ended.recv_timeout(OTHER_RANKS_TIMEOUT)
            } else {
                ended.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match event {
                Ok(Event::Ended(rank, status, error)) => {
                    running.0.retain(|(other, _)| *other != rank);
                    if let Some(error) = error {
                        errors.add(rank, error, &notice);
                    }
                    let status = status.map_err(system("wait for a rank's process"))?;
                    let is_asked = is_ending || interrupted.load(Ordering::SeqCst);
                    if let (Some(signal), false) = (status.signal(), is_asked) {
                        notice(&format!("rank {rank} was ended by signal {signal}"));
                    }
                    let is_news = match &failure {
                        None => true,
                        // A rank with a failure of its own replaces one that only ended because of another. One that was
                        // asked to end says nothing about the cause.
                        Some((_, first)) => !is_ending && first.code() == Some(i32::from(OTHER_RANK_FAILED)),
                    };
                    if is_news && !status.success() {
                        failure = Some((rank, status));
                    }
                }
                Ok(Event::Interrupt) => running.end(Signal::TERM),
                Err(_) if is_ending || interrupted.load(Ordering::SeqCst) => running.end(Signal::KILL),
                Err(_) => {
                    is_ending = true;
                    running.end(Signal::TERM);
                }
            }
        }
        if !interrupted.load(Ordering::SeqCst) {
            errors.finish(&notice);
        }
        let is_stored = |status: &ExitStatus| status.code() == Some(i32::from(STATE_STORED));
        Ok(match failure {
            Some((rank, status)) if is_stored(&status) => RanksEnd::Failed { rank, status },
            _ if interrupted.load(Ordering::SeqCst) => RanksEnd::Interrupted,
            Some((rank, status)) => RanksEnd::Failed { rank, status },
            None => RanksEnd::Done,
        })
    }

    fn command(&self, program: &Path, local_rank: usize) -> Command {
        let mut command = Command::new(program);
        match &self.args {
            Some(args) => command.args(args),
            None => command.args(std::env::args_os().skip(1)),
        };
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
        if let Some(address) = self.listen_addr {
            command.env("EDGECUT_LISTEN_ADDR", address.to_string());
        }
        if let Some(token) = &self.token {
            command.env("EDGECUT_TOKEN", OsStr::new(token.to_env_value()));
        }
        command
    }
}

enum Event {
    Interrupt,
    Ended(usize, std::io::Result<ExitStatus>, Option<RankError>),
}

/// The running processes, by rank. They are killed on drop.
#[derive(Default)]
struct Running(Vec<(usize, Option<Pid>)>);

impl Running {
    fn watch(&mut self, rank: usize, mut child: Child, errors: PipeReader, events: Sender<Event>) {
        self.0.push((rank, Pid::from_raw(child.id() as i32)));
        std::thread::spawn(move || {
            let status = child.wait();
            let _ = events.send(Event::Ended(rank, status, error_in(errors)));
        });
    }

    fn end(&self, signal: Signal) {
        for pid in self.0.iter().filter_map(|(_, pid)| *pid) {
            // An error means that the process has ended already.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end(Signal::KILL);
    }
}

/// The exit status of a program that is ended by an interrupt.
const INTERRUPTED: i32 = 130;

/// Installs a handler that sends an event for each interrupt. Returns a flag that is set from the first one on.
fn catch_interrupts(events: &Sender<Event>) -> Result<Arc<AtomicBool>, ClusterError> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    let wake = events.clone();
    // If the program has installed a handler of its own, that one stays in charge.
    on_interrupt(move || {
        flag.store(true, Ordering::SeqCst);
        if wake.send(Event::Interrupt).is_err() {
            // All ranks have ended, so the interrupt is meant for the program itself.
            std::process::exit(INTERRUPTED);
        }
    })?;
    Ok(interrupted)
}

/// Returns the number of cores per process if `processes` processes of this node share the available cores equally; at
/// least 1.
pub fn share_of_cores(processes: usize) -> usize {
    (std::thread::available_parallelism().map_or(1, usize::from) / processes.max(1)).max(1)
}

/// Returns a free loopback port for rank 0. Until this process ends, the system gives the port to no socket that asks
/// for any port, while rank 0 can listen on it.
///
/// # Errors
/// No free port.
pub fn free_port() -> Result<u16, ClusterError> {
    /// Bound sockets that do not listen. They and a listener share their port, since all of them have `SO_REUSEADDR`.
    static RESERVED: Mutex<Vec<Socket>> = Mutex::new(Vec::new());
    let reserve = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        let port = socket.local_addr()?.as_socket().map_or(0, |addr| addr.port());
        RESERVED.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
        Ok(port)
    };
    reserve().map_err(system("find a free port on 127.0.0.1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_free_port_is_kept_for_rank_0() {
        let port = free_port().unwrap();
        // Sockets that ask for any port do not get it, whether they listen or connect.
        let others: Vec<TcpListener> = (0..500).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        let streams: Vec<TcpStream> =
            others.iter().take(100).map(|other| TcpStream::connect(other.local_addr().unwrap()).unwrap()).collect();
        assert!(others.iter().all(|other| other.local_addr().unwrap().port() != port));
        assert!(streams.iter().all(|stream| stream.local_addr().unwrap().port() != port));
        // Rank 0 can listen on it, on all addresses too, one listener at a time.
        for addr in [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED] {
            let listener = TcpListener::bind((addr, port)).unwrap();
            assert!(TcpListener::bind((addr, port)).is_err());
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            drop(listener);
        }
    }
}
